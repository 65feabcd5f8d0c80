//! Members of the same name, of which a tree keeps only one.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::NAME_RESERVED;

/// Whether no object in a JSON text has two members of the same name. False also for what is no JSON.
#[must_use]
pub fn has_distinct_names(text: &str) -> bool {
    serde_json::from_str::<Distinct>(text).is_ok()
}

/// Any JSON that has no such members.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Looking).map(|()| Self)
    }
}

struct Looking;

impl<'de> Visitor<'de> for Looking {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<Distinct>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            // The reader gives a number of exact text as such a member.
            if name.starts_with(NAME_RESERVED) {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            members.next_value::<Distinct>()?;
            if !names.insert(name) {
                return Err(A::Error::custom("a member is given twice"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::has_distinct_names;

    #[test]
    fn names_are_compared_as_they_are_read() {
        for text in ["{}", "[]", "1.50", "\"a\"", "null", r#"{"a":{"a":[1e400,-0,{"a":true}]},"b":{"a":1}}"#]
        {
            assert!(has_distinct_names(text), "{text}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#, "", "{"] {
            assert!(!has_distinct_names(text), "{text}");
        }
    }
}
