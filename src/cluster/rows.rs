//! Changes of a table of integer counts, row by row, packed for the wire.
//!
//! A row is a word, or a context; a column is a topic, or a dish. Only rows and columns that changed are there. Packed as
//! 32-bit words: the row, the number of entries, and the entries, each a column (16 bits) and a change (16 bits, signed;
//! larger changes take several entries).

/// Packed rows, in the order in which they were pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    words: Vec<u32>,
    /// Where the open row begins.
    open: usize,
}

impl Rows {
    /// Begins with a row; [`Rows::end_row`] closes it.
    #[inline]
    pub fn begin_row(&mut self, row: u32) {
        self.open = self.words.len();
        self.words.extend([row, 0]);
    }

    /// Adds a change of the open row; none where it is 0.
    #[inline]
    pub fn push(&mut self, column: usize, change: i32) {
        push_entry(&mut self.words, column, change);
    }

    /// Adds entries of the open row that are packed already.
    pub fn extend_row(&mut self, entries: &[u32]) {
        self.words.extend_from_slice(entries);
    }

    /// Closes the open row, and forgets it where nothing changed.
    #[inline]
    pub fn end_row(&mut self) {
        let entries = self.words.len() - self.open - 2;
        match entries {
            0 => self.words.truncate(self.open),
            _ => self.words[self.open + 1] = entries as u32,
        }
    }

    /// Forgets all rows, and keeps the buffer.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// The packed words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    pub fn into_words(self) -> Vec<u32> {
        self.words
    }
}

/// Unpacks rows: each with its entries, to be read by [`entries`].
pub fn rows(words: &[u32]) -> impl Iterator<Item = (u32, &[u32])> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (&row, after) = rest.split_first()?;
        let (&entries, after) = after.split_first()?;
        let (entries, after) = after.split_at(entries as usize);
        rest = after;
        Some((row, entries))
    })
}

/// Packs a change of a column as entries, of which there are none if it is 0.
#[inline]
pub fn push_entry(entries: &mut Vec<u32>, column: usize, mut change: i32) {
    debug_assert!(column <= usize::from(u16::MAX));
    while change != 0 {
        let part = change.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16;
        entries.push((column as u32) << 16 | u32::from(part as u16));
        change -= i32::from(part);
    }
}

/// Unpacks the entries of a row: column and change.
#[inline]
pub fn entries(packed: &[u32]) -> impl Iterator<Item = (usize, i32)> + '_ {
    packed.iter().map(|&entry| ((entry >> 16) as usize, i32::from(entry as u16 as i16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_nothing_else() {
        let mut packed = Rows::default();
        for (row, changes) in
            [(3u32, vec![(0, 1), (7, -2)]), (4, vec![(1, 0)]), (9, vec![(65_535, 100_000), (2, -70_000)])]
        {
            packed.begin_row(row);
            changes.into_iter().for_each(|(column, change)| packed.push(column, change));
            packed.end_row();
        }
        let mut sums = std::collections::BTreeMap::new();
        for (row, packed) in rows(packed.words()) {
            entries(packed).for_each(|(column, change)| *sums.entry((row, column)).or_insert(0) += change);
        }
        let expected = [((3, 0), 1), ((3, 7), -2), ((9, 2), -70_000), ((9, 65_535), 100_000)];
        assert_eq!(sums.into_iter().collect::<Vec<_>>(), expected);
    }
}
