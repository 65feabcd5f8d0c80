//! `amends check`.

use crate::program::{run, run_with_input};

const GOOD: &str = r#"
saga = "s"
version = 1
[participants.a]
idempotency = "replay"
[[step]]
name = "one"
pivot = true
action = { to = "a", post = "/one", body = {} }
"#;

#[test]
fn a_good_definition_is_explored_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.toml"), GOOD).unwrap();
    let ran = run(folder.path(), &["check", "good.toml"]).exits(0);
    assert!(ran.out.contains("good.toml: ends by itself, whatever happens within 3 faults"), "{ran:?}");
    let report = run_with_input(folder.path(), &["-o", "json", "check", "-"], GOOD).exits(0).json();
    assert_eq!(report["verdict"], "ends");
    assert_eq!(report["faults"], 3);
    assert!(report["states"].as_u64().unwrap() > 10 && report["depth"].as_u64().unwrap() > 3, "{report:#}");
    for empty in ["problems", "persons", "warnings"] {
        assert_eq!(report[empty].as_array().unwrap().len(), 0, "{report:#}");
    }
    let trust = report["trust"].as_array().unwrap();
    let replay =
        trust.iter().find(|trust| trust["guarantee"] == "replay").unwrap_or_else(|| panic!("{report:#}"));
    assert!(replay["needed"] == true && !replay["story"].as_array().unwrap().is_empty(), "{replay:#}");
}

#[test]
fn where_a_person_may_be_needed_is_told_and_strict_fails_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let weak = GOOD.replace("replay", "none");
    std::fs::write(folder.path().join("weak.toml"), weak).unwrap();
    let report = run(folder.path(), &["-o", "json", "check", "weak.toml", "--faults", "1"]).exits(0).json();
    assert_eq!((report["verdict"].as_str(), report["faults"].as_u64()), (Some("may_need_a_person"), Some(1)));
    let person = &report["persons"][0];
    assert_eq!((person["step"].as_str(), person["operation"].as_str()), (Some("one"), Some("action")));
    assert!(!person["story"].as_array().unwrap().is_empty() && !person["cure"].as_str().unwrap().is_empty());
    run(folder.path(), &["check", "weak.toml", "--faults", "1", "--strict"]).exits(1);
    run(folder.path(), &["check", "weak.toml", "--faults", "99"]).exits(2);
}

#[test]
fn a_definition_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.toml"), GOOD).unwrap();
    let drawn = run(folder.path(), &["check", "good.toml", "--graph", "mermaid"]).exits(0).out;
    assert!(drawn.starts_with("flowchart") && drawn.contains("one"), "{drawn}");
}

#[test]
fn every_problem_is_named_with_line_reason_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let bad = GOOD
        .replace("to = \"a\"", "to = \"b\"")
        .replace("pivot = true", "pivot = true\nafter = [\"one\"]\ncolour = \"red\"");
    std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
    let report = run(folder.path(), &["-o", "json", "check", "bad.toml"]).exits(1).json();
    assert_eq!(report["verdict"], "refused");
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.len() >= 3, "{report:#}");
    for problem in problems {
        assert!(problem["line"].as_u64().unwrap() > 0, "{problem:#}");
        assert!(
            !problem["reason"].as_str().unwrap().is_empty()
                && !problem["remedy"].as_str().unwrap().is_empty()
        );
    }
    let words = run(folder.path(), &["check", "bad.toml"]).exits(1).out;
    assert!(words.contains("line 9") && words.contains("colour") && words.contains("`b`"), "{words}");
}

#[test]
fn participants_that_the_configuration_lacks_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.toml"), GOOD).unwrap();
    std::fs::write(folder.path().join("amends.toml"), "[participants.b]\nurl = \"http://b\"\n").unwrap();
    let report =
        run(folder.path(), &["-o", "json", "check", "good.toml", "--config", "amends.toml"]).exits(0).json();
    assert!(report["warnings"][0]["reason"].as_str().unwrap().contains("`a`"), "{report:#}");
    run(folder.path(), &["check", "good.toml", "--config", "nowhere.toml"]).exits(2).says(&["nowhere.toml"]);
}

#[test]
fn what_is_no_definition_is_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    for (file, text, code) in
        [("a.toml", "[[[", 1), ("a.json", "{", 1), ("a.json", "[]", 1), ("b.toml", "", 1)]
    {
        std::fs::write(folder.path().join(file), text).unwrap();
        run(folder.path(), &["check", file]).exits(code);
    }
    std::fs::write(folder.path().join("c.toml"), b"\xff\xfe").unwrap();
    run(folder.path(), &["check", "c.toml"]).exits(2).says(&["UTF-8"]);
    run(folder.path(), &["check", "nowhere.toml"]).exits(2);
}
