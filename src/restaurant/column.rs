//! A list of numbers that takes as many bytes for each as the largest needs: tags and actions one, words two or three.
//!
//! The contexts of a large corpus are mostly tags; as `u32` they would take twice the memory.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    One(Vec<u8>),
    Two(Vec<u16>),
    Three(Vec<[u8; 3]>),
    Four(Vec<u32>),
}

/// Numbers that fit into three bytes.
const THREE: u32 = (1 << 24) - 1;

#[inline]
fn pack(value: u32) -> [u8; 3] {
    let [a, b, c, _] = value.to_le_bytes();
    [a, b, c]
}

#[inline]
fn unpack([a, b, c]: [u8; 3]) -> u32 {
    u32::from_le_bytes([a, b, c, 0])
}

impl Default for Column {
    fn default() -> Column {
        Column::One(vec![])
    }
}

impl Column {
    /// Adds a number; where it does not fit, all are made wider.
    #[inline]
    pub fn push(&mut self, value: u32) {
        match self {
            Column::One(list) if value <= u32::from(u8::MAX) => list.push(value as u8),
            Column::Two(list) if value <= u32::from(u16::MAX) => list.push(value as u16),
            Column::Three(list) if value <= THREE => list.push(pack(value)),
            Column::Four(list) => list.push(value),
            _ => {
                self.widen();
                self.push(value);
            }
        }
    }

    fn widen(&mut self) {
        *self = match std::mem::take(self) {
            Column::One(list) => Column::Two(list.into_iter().map(u16::from).collect()),
            Column::Two(list) => Column::Three(list.into_iter().map(|value| pack(u32::from(value))).collect()),
            Column::Three(list) => Column::Four(list.into_iter().map(unpack).collect()),
            widest => widest,
        };
    }

    #[inline]
    pub fn get(&self, at: usize) -> u32 {
        match self {
            Column::One(list) => u32::from(list[at]),
            Column::Two(list) => u32::from(list[at]),
            Column::Three(list) => unpack(list[at]),
            Column::Four(list) => list[at],
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Column::One(list) => list.len(),
            Column::Two(list) => list.len(),
            Column::Three(list) => list.len(),
            Column::Four(list) => list.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_widens_and_keeps_its_numbers() {
        let numbers = [0, 255, 7, 256, 65_535, 3, 65_536, 16_777_215, 2, 16_777_216, u32::MAX, 1];
        let mut column = Column::default();
        for (at, &number) in numbers.iter().enumerate() {
            column.push(number);
            let kept: Vec<u32> = (0..column.len()).map(|at| column.get(at)).collect();
            assert_eq!(kept, numbers[..=at]);
            let is_as_narrow_as_can_be = match number_of_bytes(&numbers[..=at]) {
                1 => matches!(column, Column::One(_)),
                2 => matches!(column, Column::Two(_)),
                3 => matches!(column, Column::Three(_)),
                _ => matches!(column, Column::Four(_)),
            };
            assert!(is_as_narrow_as_can_be, "{column:?}");
        }
    }

    fn number_of_bytes(numbers: &[u32]) -> u32 {
        match numbers.iter().max() {
            Some(0..256) | None => 1,
            Some(256..65_536) => 2,
            Some(65_536..16_777_216) => 3,
            _ => 4,
        }
    }
}
