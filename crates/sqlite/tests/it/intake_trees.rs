//! The trigger that compares inputs, held against the engine's comparison, for trees of any kind.

use amends_core::json;
use amends_sqlite::{Options, SqliteStore};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use rusqlite::{Connection, params};
use serde_json::Value;

/// A tree, as it is written in one of many ways: members in any order, blanks, numbers of any text.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(String),
    List(Vec<Tree>),
    Members(Vec<(String, Tree)>),
}

impl Tree {
    /// As text; `other`: in another order, with other blanks and escapes.
    fn write(&self, other: bool) -> String {
        let blank = if other { " \n" } else { "" };
        match self {
            Self::Leaf(text) => text.clone(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.write(other)).collect();
                format!("[{}]", items.join(&format!("{blank},{blank}")))
            }
            Self::Members(members) => {
                let member = |(name, value): &(String, Self)| {
                    let name = serde_json::to_string(name).unwrap();
                    let name = if other { name.replace('a', "\\u0061") } else { name };
                    format!("{blank}{name}{blank}:{blank}{}", value.write(other))
                };
                let mut members: Vec<String> = members.iter().map(member).collect();
                if other {
                    members.reverse();
                }
                format!("{{{}}}", members.join(","))
            }
        }
    }

    /// The same but for one leaf, the n-th; it comes back as 0 when that is done.
    fn change(&mut self, n: &mut usize) {
        match self {
            Self::Leaf(text) => {
                *n -= 1;
                if *n == 0 {
                    *text = match text.as_str() {
                        "null" => "false".to_owned(),
                        "true" => "null".to_owned(),
                        text if text.starts_with('"') => format!("{}x\"", &text[..text.len() - 1]),
                        number if number.contains(['.', 'e', 'E']) => format!("{number}0"),
                        number => format!("{number}.0"),
                    };
                }
            }
            Self::List(items) => items.iter_mut().for_each(|item| {
                if *n > 0 {
                    item.change(n)
                }
            }),
            Self::Members(members) => members.iter_mut().for_each(|(_, value)| {
                if *n > 0 {
                    value.change(n)
                }
            }),
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let number = "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?";
    let name =
        prop_oneof![any::<String>(), "[a-c\\\\\"./$\\[\\]0-9]{0,4}"].prop_map(|name| name.replace('\0', ""));
    let text = any::<String>().prop_map(|text| serde_json::to_string(&text.replace('\0', "")).unwrap());
    let leaf =
        prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number, text].prop_map(Tree::Leaf);
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let members = proptest::collection::btree_map(name.clone(), inner.clone(), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(Tree::List),
            members.prop_map(|members| Tree::Members(members.into_iter().collect())),
        ]
    })
}

#[test]
fn the_trigger_compares_as_the_engine_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let _store = SqliteStore::open(&path, Options::default()).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    let insert = |id: &str, input: &str| {
        let sql = "INSERT INTO amends_submission (saga, id, input) VALUES ('order', ?1, ?2)";
        conn.execute(sql, params![id, input]).map_err(|e| e.to_string())
    };
    let mut runner = TestRunner::new(Config::default());
    let (mut same, mut others) = (0, 0);
    for nth in 0..400 {
        let tree = trees().new_tree(&mut runner).unwrap().current();
        let (id, one, two) = (format!("t:{nth}"), tree.write(false), tree.write(true));
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(json::same(&read(&one), &read(&two)), "{one} and {two}");
        assert_eq!(insert(&id, &one), Ok(1), "{one}");
        assert_eq!(insert(&id, &two), Ok(0), "{one} and {two}");
        same += 1;
        for n in 1..=3 {
            let mut changed = tree.clone();
            let mut left = n;
            changed.change(&mut left);
            let text = changed.write(true);
            if left > 0 || json::same(&read(&one), &read(&text)) {
                continue;
            }
            assert!(insert(&id, &text).is_err(), "{one} and {text}");
            others += 1;
        }
    }
    assert!(same == 400 && others > 200, "{same} {others}");
}
