//! Output formats, and commands that only read.

use serde_json::{Value, json};

use crate::outcomes::{pair, start};
use crate::program::{run, run_with_input};

#[test]
fn lists_come_as_table_document_and_lines() {
    let (server, _participants) = pair();
    for n in 0..5 {
        start(&server, &format!("s:{n}"), if n == 0 { "refused" } else { "well" }, "30s");
    }
    let table = server.cli(&["saga", "list"]).exits(0).out;
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(table.starts_with("ID ") && !table.contains('\u{1b}'), "{table}");
    let page = server.cli(&["-o", "json", "saga", "list", "--limit", "2"]).exits(0).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let next = page["next"].as_str().unwrap();
    let rest = server.cli(&["saga", "list", "-o", "jsonl", "--limit", "500", "--cursor", next]).exits(0).out;
    let ids: Vec<Value> =
        rest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, ["s:2", "s:1", "s:0"]);
    server.cli(&["saga", "list", "--limit", "2"]).says(&["--cursor"]);
    let one = server
        .cli(&["saga", "list", "-o", "jsonl", "--status", "compensated,dead", "--saga", "pair", "--q", "s:"])
        .out;
    assert_eq!(one.lines().count(), 1, "{one}");
    assert_eq!(server.cli(&["saga", "list", "-o", "jsonl", "--older-than", "1h"]).exits(0).out, "");
    // A variable does what the flag does, and the flag goes before it.
    let mut command = crate::program::command(server.folder.path());
    command.args(["saga", "show", "s:1"]).env("AMENDS_SERVER", &server.url).env("AMENDS_OUTPUT", "jsonl");
    assert_eq!(serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()["id"], "s:1");
    let flagged = server.cli(&["saga", "list", "--server", "http://127.0.0.1:1"]);
    flagged.exits(1).says(&["http://127.0.0.1:1"]);
}

#[test]
fn a_saga_and_its_journal_are_shown() {
    let (server, _participants) = pair();
    start(&server, "bestellung:ü/1 2", "refused", "30s").exits(8);
    let shown = server.cli(&["saga", "show", "bestellung:ü/1 2"]).exits(0).out;
    for part in ["compensated", "one", "two", "no more of it", "claims: thing:bestellung:ü/1 2"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let journal = server.cli(&["-o", "json", "saga", "journal", "bestellung:ü/1 2"]).exits(0).json();
    let seqs: Vec<u64> =
        journal["items"].as_array().unwrap().iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let watched = server.cli(&["-o", "jsonl", "saga", "watch", "bestellung:ü/1 2"]).exits(8).out;
    assert_eq!(watched.lines().count(), seqs.len());
    let whole = server.cli(&["-o", "json", "saga", "watch", "bestellung:ü/1 2"]).exits(8).json();
    assert_eq!(whole["status"], "compensated");
}

#[test]
fn input_comes_from_a_file_or_from_standard_input_and_keeps_its_numbers() {
    let (server, participants) = pair();
    let text = r#"{"how": 12345678901234567890.10, "thing": "t"}"#;
    std::fs::write(server.folder.path().join("input.json"), text).unwrap();
    server.cli(&["saga", "start", "pair", "s:1", "--input-file", "input.json", "--wait", "30s"]).exits(0);
    let arguments = ["saga", "start", "pair", "s:1", "--input-file", "-", "--server", &server.url];
    run_with_input(server.folder.path(), &arguments, text).exits(0);
    let sent = participants.calls().into_iter().find(|call| call.what == "POST /a/one").unwrap();
    assert_eq!(sent.body["how"].to_string(), "12345678901234567890.10");
}

#[test]
fn definitions_are_applied_listed_and_shown() {
    let (server, _participants) = pair();
    let file = server.folder.path().join("definition.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let again = server.cli(&["definition", "apply", "definition.toml"]).exits(0);
    assert!(again.out.contains("was registered before"), "{again:?}");
    std::fs::write(&file, text.replace("/two", "/three")).unwrap();
    server
        .cli(&["definition", "apply", "definition.toml"])
        .exits(4)
        .says(&["definition-conflict", "version"]);
    std::fs::write(&file, text.replace("/two", "/three").replace("version = 1", "version = 2")).unwrap();
    server.cli(&["definition", "apply", "definition.toml"]).exits(0);
    assert_eq!(server.cli(&["-o", "jsonl", "definition", "list"]).exits(0).out.lines().count(), 2);
    let first = server.cli(&["-o", "json", "definition", "show", "pair", "--version", "1"]).exits(0).json();
    assert_eq!(first["version"], 1, "{first:#}");
    assert_eq!(server.cli(&["-o", "json", "definition", "show", "pair"]).json()["version"], 2);
    server.cli(&["definition", "show", "nothing"]).exits(3);

    std::fs::write(&file, text.replace("to = \"b\"", "to = \"nobody\"")).unwrap();
    server.cli(&["definition", "apply", "definition.toml"]).exits(1).says(&[
        "invalid-definition",
        "line ",
        "nobody",
    ]);
    std::fs::write(&file, "saga = \"x\"\n[[").unwrap();
    server.cli(&["definition", "apply", "definition.toml"]).exits(1).says(&["line 2"]);
    std::fs::write(&file, "version = 1\n").unwrap();
    server.cli(&["definition", "apply", "definition.toml"]).exits(1).says(&["which saga"]);
    server.cli(&["definition", "apply", "nowhere.toml"]).exits(2).says(&["nowhere.toml"]);
}

#[test]
fn json_definitions_are_the_same_tree() {
    let (server, _participants) = pair();
    let show = server.cli(&["-o", "json", "definition", "show", "pair"]).json();
    let tree =
        show.get("definition").or_else(|| show.get("tree")).unwrap_or_else(|| panic!("no tree in {show:#}"));
    std::fs::write(server.folder.path().join("pair.json"), tree.to_string()).unwrap();
    let again = server.cli(&["definition", "apply", "pair.json"]).exits(0);
    assert!(again.out.contains("was registered before"), "{again:?}");
}

#[test]
fn completions_are_written_for_each_shell() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(folder.path(), &["completions", shell]).exits(0).out;
        assert!(script.contains("dead-letter") && script.contains("saga"), "{shell}");
    }
}

#[test]
fn doctor_names_what_is_wrong_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let doctor = |more: &[&str]| {
        run(folder.path(), &[&["-o", "json", "doctor", "--server", "http://127.0.0.1:1"], more].concat())
    };
    let healthy = doctor(&[]).exits(0).json();
    let result = |report: &Value, check: &str| {
        let items = report["items"].as_array().unwrap();
        items.iter().find(|item| item["check"] == check).unwrap_or_else(|| panic!("{report:#}"))["result"]
            .clone()
    };
    assert_eq!(result(&healthy, "store"), "note");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    std::fs::write(
        folder.path().join("amends.db"),
        "this is no database, and long enough to be seen as such",
    )
    .unwrap();
    let config = "[participants.a]\nurl = \"http://a\"\nsecret = \"env:NO_SUCH_VARIABLE\"\n";
    std::fs::write(folder.path().join("amends.toml"), config).unwrap();
    let sick = doctor(&[]).exits(1).json();
    assert_eq!(result(&sick, "store"), "problem");
    assert_eq!(result(&sick, "participant"), "problem");
    assert!(sick.to_string().contains("NO_SUCH_VARIABLE"));

    let (server, _participants) = pair();
    let well = server.cli(&["-o", "json", "doctor"]).exits(0).json();
    assert_eq!((result(&well, "server"), result(&well, "store")), (json!("ok"), json!("note")), "{well:#}");
}
