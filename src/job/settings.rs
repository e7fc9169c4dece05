//! From a TOML value to settings, with a record of the keys that nothing reads.
//!
//! This is a [`serde::Deserializer`] over [`toml::Value`] that knows where it is. When a value has the wrong type, the
//! trail ends at the key that holds it; when a struct ignores a key, the trail notes the key and the names that the
//! struct does have. Nothing here depends on the type being read except the calls into its visitor, because every
//! struct of every job kind instantiates this code: TOML's own deserializer behind `serde_ignored` was an eighth of
//! the program.

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::de::Error;
use toml::{Table, Value};

/// Where the reader is, and which keys it has passed that nothing reads.
#[derive(Debug, Default)]
pub struct Trail {
    /// The keys on the way to the value that is being read: after an error, the place of the error.
    pub path: Vec<String>,
    pub unknown: Vec<UnknownKey>,
    /// The names that the innermost struct has.
    fields: &'static [&'static str],
}

/// A key that nothing reads.
#[derive(Debug)]
pub struct UnknownKey {
    pub path: Vec<String>,
    /// The names that are read beside it; empty if any name is allowed.
    pub known: &'static [&'static str],
}

/// A value on its way to becoming settings.
pub struct Reader<'a> {
    pub value: Value,
    pub trail: &'a mut Trail,
}

impl Reader<'_> {
    fn visit<'de, V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        let trail = self.trail;
        match self.value {
            Value::Boolean(value) => visitor.visit_bool(value),
            Value::Integer(value) => visitor.visit_i64(value),
            Value::Float(value) => visitor.visit_f64(value),
            Value::String(value) => visitor.visit_string(value),
            Value::Datetime(value) => visitor.visit_string(value.to_string()),
            Value::Array(values) => {
                let length = values.len();
                let mut items = Items { values: values.into_iter().enumerate(), trail };
                let read = visitor.visit_seq(&mut items)?;
                match items.values.len() {
                    0 => Ok(read),
                    _ => Err(Error::invalid_length(length, &"fewer elements in array")),
                }
            }
            Value::Table(table) => visitor.visit_map(Entries { entries: table.into_iter(), next: None, fields, trail }),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visit(&[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.visit(fields, visitor)
    }

    /// Choices are words: no settings have a variant with content.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::String(word) => visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(word)),
            other => Err(Error::invalid_type(Unexpected::Other(other.type_str()), &"a string")),
        }
    }

    /// A key that is there has a value; an absent one never gets here.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.trail.unknown.push(UnknownKey { path: self.trail.path.clone(), known: self.trail.fields });
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 char str string unit seq bytes byte_buf map unit_struct tuple_struct
        tuple identifier
    }
}

/// The elements of an array.
struct Items<'a> {
    values: std::iter::Enumerate<std::vec::IntoIter<Value>>,
    trail: &'a mut Trail,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.values.next() else { return Ok(None) };
        self.trail.path.push(index.to_string());
        let read = seed.deserialize(Reader { value, trail: self.trail })?;
        self.trail.path.pop();
        Ok(Some(read))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

/// The entries of a table.
struct Entries<'a> {
    entries: <Table as IntoIterator>::IntoIter,
    /// The value whose key has just been read.
    next: Option<Value>,
    fields: &'static [&'static str],
    trail: &'a mut Trail,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.next = Some(value);
        self.trail.path.push(key.clone());
        seed.deserialize(StringDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let value = self.next.take().ok_or_else(|| Error::custom("a value was asked for before its key"))?;
        self.trail.fields = self.fields;
        let read = seed.deserialize(Reader { value, trail: self.trail })?;
        self.trail.path.pop();
        Ok(read)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Settings {
        name: String,
        rate: f64,
        prior: [f64; 2],
        limit: Option<u32>,
        method: Method,
        parts: BTreeMap<String, Part>,
        anything: Option<Value>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Part {
        files: Vec<String>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    enum Method {
        #[default]
        Gibbs,
        ParticleGibbs,
    }

    fn read(text: &str) -> (Result<Settings, String>, Trail) {
        let mut trail = Trail::default();
        let value = Value::Table(text.parse().expect("TOML"));
        let read = Settings::deserialize(Reader { value, trail: &mut trail });
        (read.map_err(|error| error.message().to_string()), trail)
    }

    const GOOD: &str = "name = 'x'\nrate = 3\nprior = [1.0, 2]\nlimit = 4\nmethod = 'particle-gibbs'\n\
                        anything = { a = [1, 'b'] }\nparts.one.files = ['f', 'g']\n";

    #[test]
    fn settings_are_those_of_the_toml_crate() {
        let (read, trail) = read(GOOD);
        assert_eq!(read.expect("settings"), toml::from_str(GOOD).expect("settings"));
        assert!(trail.unknown.is_empty() && trail.path.is_empty(), "{trail:?}");
    }

    #[test]
    fn keys_that_nothing_reads_are_noted_with_their_siblings() {
        let (read, trail) = read("nam = 'x'\nparts.one.file = ['f']\nparts.two.files = []\n");
        assert_eq!(read.expect("settings").parts.len(), 2);
        let unknown: Vec<_> = trail.unknown.iter().map(|key| (key.path.join("."), key.known)).collect();
        assert_eq!(
            unknown[0],
            ("nam".to_string(), &["name", "rate", "prior", "limit", "method", "parts", "anything"][..])
        );
        assert_eq!(unknown[1..], [("parts.one.file".to_string(), &["files"][..])]);
    }

    #[test]
    fn errors_end_the_trail_at_the_wrong_value() {
        for (text, place, message) in [
            ("rate = 'fast'", "rate", "invalid type: string \"fast\", expected f64"),
            ("limit = -1", "limit", "invalid value: integer `-1`, expected u32"),
            ("prior = [1, 2, 3]", "prior", "invalid length 3, expected fewer elements in array"),
            ("prior = [1, true]", "prior.1", "invalid type: boolean `true`, expected f64"),
            ("method = 'gibs'", "method", "unknown variant `gibs`, expected `gibbs` or `particle-gibbs`"),
            ("method = 3", "method", "invalid type: integer, expected a string"),
            ("parts.one.files = 'f'", "parts.one.files", "invalid type: string \"f\", expected a sequence"),
            ("parts.one = 3", "parts.one", "invalid type: integer `3`, expected struct Part"),
        ] {
            let (read, trail) = read(text);
            assert_eq!((read.unwrap_err().as_str(), trail.path.join(".").as_str()), (message, place), "{text}");
        }
    }
}
