//! The lists in `conformance_suite!`, `locks_suite!` and `intake_suite!` are complete: a test that no store runs proves nothing.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_function_of_the_suite_is_in_its_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let list = ["mod.rs", "locks.rs", "intake.rs"]
        .map(|file| std::fs::read_to_string(folder.join(file)).unwrap())
        .concat();
    // Those of two nodes are called by each store that machines can share.
    let shared = ["postgres/tests/it/faults.rs", "mysql/tests/it/races.rs", "redis/tests/it/store_faults.rs"]
        .map(|file| {
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap()
        });
    let mut functions = 0;
    let mut missing = BTreeSet::new();
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let area = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["mod", "flaky", "samples"].contains(&area.as_str()) {
            continue;
        }
        let listed = list.split_once(&format!(" {area} {{")).map(|(_, rest)| rest.split('}').next().unwrap());
        let listed: BTreeSet<&str> = listed.unwrap_or_default().split_whitespace().collect();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
            let name = rest.split('(').next().unwrap();
            functions += 1;
            let is_called = shared.iter().all(|tests| tests.contains(&format!("{area}::{name}(")));
            if !listed.contains(name) && !is_called {
                missing.insert(format!("{area}::{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "in no suite: {missing:?}");
    assert!(functions > 50, "only {functions} functions found");
}
