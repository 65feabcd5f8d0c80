//! `amends demo`: it ends with zeros, and its books say the same to whoever reads them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use amends_testbed::mariadb::MariaDb;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Ran, command, run};

fn lines(file: &Path) -> Vec<Value> {
    std::fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_fault_and_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let books = folder.path().join("books");
    let arguments = [
        "demo",
        "--orders",
        "120",
        "--seed",
        "3",
        "--fault-rate",
        "0.3",
        "--json",
        "--keep",
        books.to_str().unwrap(),
    ];
    let ran = run(folder.path(), &arguments).exits(0);
    let result: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let number = |name: &str| result[name].as_u64().unwrap_or_else(|| panic!("{name}: {result}"));
    assert_eq!(number("orders"), 120);
    assert_eq!(number("completed") + number("compensated"), 120);
    for zero in ["dead", "unknown", "lost", "doubled", "left_over"] {
        assert_eq!(number(zero), 0, "{result}");
    }
    assert!(number("compensated") > 0 && number("restarts") > 0 && result["seconds"].as_f64().unwrap() > 0.0);

    // The books, read without the demo's help.
    let sagas = lines(&books.join("sagas.jsonl"));
    assert_eq!(sagas.len(), 120);
    let ledgers: Vec<Value> = ["inventory", "payment", "shipping"]
        .iter()
        .flat_map(|n| lines(&books.join(format!("ledgers/{n}.jsonl"))))
        .collect();
    let mut balance: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for line in &ledgers {
        let (done, undone) = balance.entry(line["of"].as_str().unwrap()).or_default();
        match line["operation"].as_str().unwrap() {
            "action" => {
                assert_eq!(line["of"], line["key"]);
                *done += 1;
            }
            "compensation" => *undone += 1,
            "tombstone" => assert!(line["serial"].is_null()),
            other => panic!("{other}"),
        }
        assert!(line["at"].as_str().unwrap().ends_with('Z'));
    }
    let mut effects = 0;
    for saga in &sagas {
        let id = saga["id"].as_str().unwrap();
        for step in saga["steps"].as_array().unwrap() {
            let key = format!("{id}:{}:action", step["name"].as_str().unwrap());
            let (done, undone) = balance.remove(key.as_str()).unwrap_or_default();
            effects += done;
            match saga["status"].as_str().unwrap() {
                "completed" => assert_eq!((done, undone), (1, 0), "{key}"),
                "compensated" => {
                    assert!((done, undone) == (0, 0) || (done, undone) == (1, 1), "{key}: {done} {undone}")
                }
                other => panic!("{id} is {other}"),
            }
        }
    }
    assert!(balance.is_empty(), "{balance:?}");
    assert!(effects > 200, "{effects}");
}

#[test]
fn without_faults_everything_completes() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}", folder.path().join("own.db").display());
    // Twice in the same store: a run's orders are its own.
    for _ in 0..2 {
        let ran =
            run(folder.path(), &["demo", "--orders", "20", "--fault-rate", "0", "--store", &store, "--json"])
                .exits(0);
        let result: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
        assert_eq!(
            (result["completed"].as_u64(), result["restarts"].as_u64()),
            (Some(20), Some(0)),
            "{result}"
        );
    }
    assert!(folder.path().join("own.db").is_file());
    run(folder.path(), &["demo", "--store", "mysql://x"]).exits(2).says(&["names no database"]);
}

/// Crashes, faults and all, with the books in a server of their own. The server's password is in nothing that was said.
#[test]
fn a_demo_on_mariadb_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = MariaDb::start().unwrap();
    server.ask("SET PASSWORD FOR amends@'%' = PASSWORD('hunter2')").unwrap();
    let store = server.url().replace("amends:amends@", "amends:hunter2@");
    let arguments = ["demo", "--orders", "100", "--fault-rate", "0.3", "--store", &store, "--json"];
    let ran = run(folder.path(), &arguments).exits(0);
    let result: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let number = |name: &str| result[name].as_u64().unwrap_or_else(|| panic!("{name}: {result}"));
    assert_eq!(number("completed") + number("compensated"), 100);
    for zero in ["dead", "unknown", "lost", "doubled", "left_over"] {
        assert_eq!(number(zero), 0, "{result}");
    }
    assert!(number("compensated") > 0 && number("restarts") > 0);
    assert_eq!(server.ask("SELECT COUNT(*) FROM amends_saga WHERE ended_at IS NOT NULL").unwrap(), "100");
    assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"));
}

#[test]
fn people_get_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["demo", "--orders", "30", "--fault-rate", "0.4"]).exits(0);
    for part in [
        "30 orders",
        "the engine killed (kill -9) and restarted",
        "Nothing lost, nothing doubled, nothing left over",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // Progress is for terminals.
    assert!(!ran.err.contains('\r'), "{}", ran.err);
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = command(folder.path());
    demo.args(["demo", "--orders", "500"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = demo.spawn().unwrap();
    let runs = || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .any(|entry| entry.unwrap().path().join("amends.db").is_file())
    };
    while !runs() {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Ran::from(child.wait_with_output().unwrap()).exits(1).says(&["interrupted"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
