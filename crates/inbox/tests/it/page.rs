//! What is written for other languages is what runs here.

use std::path::Path;

use amends_inbox::{mysql, postgres, sqlite};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Each statement with its name, without its semicolon.
fn statements(sql: &str) -> Vec<(&str, &str)> {
    let named = sql.split("-- name: ").skip(1).map(|part| part.split_once('\n').unwrap());
    named.map(|(name, statement)| (name, statement.trim().strip_suffix(';').unwrap())).collect()
}

#[test]
fn page_has_the_statements_of_the_files() {
    let page = read("docs/inbox.md");
    for sql in [postgres::SQL, mysql::SQL, sqlite::SQL] {
        let (_about, statements) = sql.split_once("\n-- name: ").unwrap();
        assert!(page.contains(&format!("```sql\n-- name: {statements}```\n")), "differs:\n{statements}");
    }
}

#[test]
fn python_participant_has_the_statements_of_the_file() {
    let program = read("examples/participant/inbox.py");
    let statements = statements(sqlite::SQL);
    assert!(statements.len() >= 9);
    for (name, statement) in statements {
        // A query reads the same there.
        let found = program.contains(&format!("\"\"\"\n{statement}\n\"\"\"\n"))
            || program.contains(&format!("= \"{statement}\"\n"));
        assert!(found, "{name} differs:\n{statement}");
    }
}

#[test]
fn page_shows_the_example_that_is_compiled() {
    let page = read("docs/inbox.md");
    let compiled = read("crates/inbox/src/lib.rs");
    let begin = "async fn book(";
    let example = page.split_once(begin).unwrap().1.split_once("```").unwrap().0;
    let text = compiled.replace("//! ", "");
    for line in example.lines().skip(1) {
        assert!(text.contains(line), "{line}");
    }
}
