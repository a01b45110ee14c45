//! The names of an enum's variants, from serde: no enum needs a table of its own.

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};

/// The names in JSON of an enum's variants, in the order of the declaration: `names[variant as usize]`. The variants
/// have no data and no aliases.
pub fn variant_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The derived code passes the names on before it asks for a value; there is none.
    _ = T::deserialize(NameCollector(&mut names));
    names
}

struct NameCollector<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for NameCollector<'_> {
    type Error = de::value::Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = variants;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("there is no value"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
