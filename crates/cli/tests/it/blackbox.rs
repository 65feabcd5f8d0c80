//! Sagas against participants written in Python, while the server is killed again and again: see `blackbox.py`.

use std::path::Path;
use std::process::Command;

use crate::program::{Ran, binary};

fn blackbox(arguments: &[&str]) -> Ran {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox.py");
    let python = Command::new("python3").arg(script).args(arguments).env("AMENDS_BIN", binary()).output();
    python.expect("python3 is needed for this test: install it").into()
}

#[test]
fn sagas_survive_kill_9_with_every_effect_exactly_once() {
    let ran = blackbox(&["--kills", "10"]).exits(0);
    assert!(ran.out.contains("10 kills, 0 failures"), "{ran:?}");
}

#[test]
fn a_participant_that_breaks_its_word_is_found_out() {
    for (lie, words) in [("doubles", "done 2 times"), ("loses", "done 0 times")] {
        let ran = blackbox(&["--kills", "0", "--sagas", "40", "--lie", lie]).exits(1);
        assert!(ran.out.contains(words), "{lie}: {ran:?}");
    }
}
