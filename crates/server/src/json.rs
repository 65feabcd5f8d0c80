//! Reading JSON that comes from outside: strict, and precise about what is wrong.
//!
//! Trees keep the exact text of their numbers. A member given twice, a nesting deeper than [`json::DEPTH_MAX`], and the
//! two member names by which the JSON library marks numbers and raw text inside are refused: a tree with such a member
//! would not be the same after it was stored and read again.

use std::fmt;

use amends_core::json;
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

use crate::problem::Problem;

/// How the JSON library hands over a number with its text, where it is not a plain integer.
const NUMBER_MARK: &str = "$serde_json::private::Number";
/// How it hands over raw text.
const RAW_MARK: &str = "$serde_json::private::RawValue";

/// Reads a body.
///
/// # Errors
/// `malformed`, with line, column and, where one is to blame, the field.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let problem = Problem::malformed(format!("the body is not what is expected here: {error}"));
        let problem = if error.line() > 0 { problem.at_line(error.line(), error.column()) } else { problem };
        // Read again, slower, to learn which field is to blame: only refusals pay for it.
        let mut again = serde_json::Deserializer::from_slice(body);
        match serde_path_to_error::deserialize::<_, T>(&mut again).map_err(|error| error.path().to_string()) {
            Err(path) if path != "." => problem.at(path),
            Err(_) | Ok(_) => problem,
        }
    })
}

/// For `deserialize_with`: a tree, read strictly.
pub(crate) fn tree<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Tree { left: json::DEPTH_MAX }.deserialize(deserializer)
}

/// For `deserialize_with` of a field that may be absent: `null` is a value too.
pub(crate) fn some_tree<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    tree(deserializer).map(Some)
}

/// Reads one value; `left` is how much deeper it may be nested.
#[derive(Clone, Copy)]
struct Tree {
    left: usize,
}

impl Tree {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let left = self.left.checked_sub(1);
        left.map(|left| Self { left }).ok_or_else(|| {
            E::custom(format_args!("arrays and objects are nested more than {} deep", json::DEPTH_MAX))
        })
    }
}

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(seed)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        let Some(first) = members.next_key::<String>()? else {
            self.deeper()?;
            return Ok(Value::Object(all));
        };
        if first == NUMBER_MARK {
            return members.next_value::<NumberText>().map(|number| Value::Number(number.0));
        }
        let seed = self.deeper()?;
        let mut next = Some(first);
        while let Some(name) = next {
            if name == NUMBER_MARK || name == RAW_MARK {
                return Err(reserved(&name));
            }
            if all.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member `{name}` is given twice")));
            }
            let value = members.next_value_seed(seed)?;
            all.insert(name, value);
            next = members.next_key()?;
        }
        Ok(Value::Object(all))
    }
}

/// The text of a number, told apart from an object of the caller that pretends to be one: the library hands over its
/// own text by value, and the caller's as a slice of the body.
struct NumberText(Number);

impl<'de> Deserialize<'de> for NumberText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = NumberText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value under a name that is not reserved")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<NumberText, E> {
                Err(reserved(NUMBER_MARK))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<NumberText, E> {
                text.parse().map(NumberText).map_err(|_| E::custom(format_args!("`{text}` is no number")))
            }
        }

        deserializer.deserialize_any(Text)
    }
}

fn reserved<E: Error>(name: &str) -> E {
    E::custom(format_args!("the member name `{name}` is reserved; choose another"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Envelope {
        #[serde(deserialize_with = "tree")]
        input: Value,
    }

    fn input(text: &str) -> Result<String, String> {
        let body = format!(r#"{{"input":{text}}}"#);
        let read = serde_json::from_str::<Envelope>(&body);
        read.map(|e| e.input.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn numbers_keep_their_text() {
        for text in [
            "9007199254740993",
            "1.10",
            "1e400",
            "-0",
            "0.1000",
            "[1.0,1]",
            r#"{"a":12345678901234567890123.50}"#,
        ] {
            let read = input(text).unwrap();
            // An exponent is written with its sign, whatever the source.
            assert_eq!(read.replace("e+", "e"), text);
        }
    }

    #[test]
    fn trees_are_read_as_the_library_reads_them() {
        for text in ["null", "true", r#""a\nb""#, "[]", "{}", r#"{"b":[{"c":null}],"a":"é"}"#] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(input(text).unwrap(), plain.to_string());
        }
    }

    #[test]
    fn a_member_given_twice_is_refused() {
        assert!(input(r#"{"a":1,"b":{"a":1,"\u0061":2}}"#).unwrap_err().contains("`a` is given twice"));
    }

    #[test]
    fn depth_has_a_limit() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(input(&nested(json::DEPTH_MAX)).is_ok());
        assert!(input(&nested(json::DEPTH_MAX + 1)).unwrap_err().contains("nested more than 64 deep"));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
        assert!(input(&objects).unwrap_err().contains("nested more than 64 deep"));
        assert!(input(&nested(100_000)).unwrap_err().contains("nested more than 64 deep"));
    }

    #[test]
    fn names_that_the_library_reserves_are_refused() {
        for name in [NUMBER_MARK, RAW_MARK] {
            for value in [r#""1""#, "1", "{}", r#""\u0031""#] {
                for text in [format!(r#"{{"{name}":{value}}}"#), format!(r#"[{{"a":1,"{name}":{value}}}]"#)] {
                    let error = input(&text).unwrap_err();
                    assert!(error.contains("reserved"), "{text}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_tree_that_is_accepted_survives_being_stored() {
        for text in [r#"{"$serde_json::private":1}"#, r#"{"n":1e400,"m":[1.10,{"x":-0.0}]}"#] {
            let tree: Envelope = serde_json::from_str(&format!(r#"{{"input":{text}}}"#)).unwrap();
            let again: Value = serde_json::from_slice(&serde_json::to_vec(&tree.input).unwrap()).unwrap();
            assert_eq!(tree.input, again);
        }
    }

    #[test]
    fn errors_name_line_column_and_field() {
        let problem = |body: &str| format!("{:?}", read::<Envelope>(body.as_bytes()).unwrap_err());
        let twice = problem("{\n \"input\": {\"a\": [0, {\"b\": 1, \"b\": 2}]}}");
        assert!(twice.contains("line: Some(2)"), "{twice}");
        assert!(twice.contains("path: Some(\"input"), "{twice}");
        let unknown = problem(r#"{"input":1,"inptu":2}"#);
        assert!(unknown.contains("unknown field `inptu`"), "{unknown}");
        assert!(problem("").contains("line: Some(1)"));
    }
}
