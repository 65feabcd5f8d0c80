//! Every target over its corpus, and over what chance makes of it.
//!
//! What a run finds is printed as bytes: put them into a file in `fuzz/corpus/TARGET`, so that they are tried ever after.

use std::path::{Path, PathBuf};

use amends_fuzz_targets::{ALL, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Inputs that chance makes for each target.
const CASES: u32 = 2_000;
/// The most bytes of one.
const BYTES_MAX: usize = 4_096;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(target);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

/// What is done to an input.
#[derive(Debug, Clone)]
enum Change {
    /// A byte becomes another.
    Set(Index, u8),
    /// A bit is turned.
    Flip(Index, u8),
    /// Bytes go.
    Cut(Index, usize),
    /// Bytes come in.
    Insert(Index, Vec<u8>),
    /// A piece comes twice.
    Repeat(Index, usize),
    /// From here on it is another input.
    Splice(Index, Index),
    /// It ends here.
    End(Index),
}

/// What parsers stumble over.
const WORDS: [&str; 24] = [
    "\"",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "\r\n",
    "${",
    "}",
    "$$",
    "null",
    "-0",
    "1e400",
    "99999999999999999999",
    "\u{202e}",
    "\u{feff}",
    "=",
    "%00",
    "..",
    "\u{0}",
];

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let bytes = prop_oneof![
        vec(any::<u8>(), 1..8),
        (0..WORDS.len()).prop_map(|word| WORDS[word].as_bytes().to_vec()),
        (0..WORDS.len(), 2..200_usize).prop_map(|(word, times)| WORDS[word].repeat(times).into_bytes()),
    ];
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), 1..40_usize).prop_map(|(at, n)| Change::Cut(at, n)),
        (at(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 1..200_usize).prop_map(|(at, n)| Change::Repeat(at, n)),
        (at(), at()).prop_map(|(at, other)| Change::Splice(at, other)),
        at().prop_map(Change::End),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change], others: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    for change in changes {
        let place = |index: &Index| index.index(bytes.len() + 1);
        match change {
            Change::Set(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Flip(at, bit) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Change::Set(..) | Change::Flip(..) => {}
            Change::Cut(at, n) => {
                let at = place(at);
                bytes.drain(at..(at + n).min(bytes.len()));
            }
            Change::Insert(at, new) => {
                let at = place(at);
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Repeat(at, n) => {
                let at = place(at);
                let piece = bytes[at..(at + n).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            Change::Splice(at, other) => {
                let at = place(at);
                bytes.truncate(at);
                let other = &others[other.index(others.len())].1;
                bytes.extend_from_slice(&other[at.min(other.len())..]);
            }
            Change::End(at) => bytes.truncate(place(at)),
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

/// Runs a target over its corpus, then over changed pieces of it and over noise.
fn replay(name: &str) {
    let Target { run, .. } = ALL.iter().find(|target| target.name == name).unwrap();
    let corpus = corpus(name);
    assert!(corpus.len() >= 10, "the corpus of {name} has only {} files", corpus.len());
    for (file, bytes) in &corpus {
        let done = std::panic::catch_unwind(|| run(bytes));
        assert!(done.is_ok(), "{}", file.display());
    }
    let some = (any::<Index>(), vec(change(), 1..6));
    let inputs = prop_oneof![
        6 => some.prop_map(|(index, changes)| changed(corpus[index.index(corpus.len())].1.clone(), &changes, &corpus)),
        1 => vec(any::<u8>(), 0..200),
        1 => "\\PC{0,120}".prop_map(String::into_bytes),
    ];
    // PROPTEST_CASES asks for more.
    let default = Config::default();
    let config = Config { cases: CASES.max(default.cases), failure_persistence: None, ..default };
    let found = TestRunner::new(config).run(&inputs, |bytes| {
        run(&bytes);
        Ok(())
    });
    if let Err(error) = found {
        panic!("{name}: {error}");
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed_and_has_its_program() {
            let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
            for name in names {
                let program = std::fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
                assert!(program.contains(&format!("amends_fuzz_targets::{name}(data)")), "{program}");
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in the manifest");
            }
        }
    };
}

targets! {
    answer
    api_action
    api_callback
    api_cursor
    api_if_match
    api_submission
    config
    definition_json
    definition_toml
    duration
    key
    retry_after
    signature
    stored_entries
    template
}
