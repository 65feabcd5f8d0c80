//! The definitions of the corpus, and what their headers expect.

use std::path::{Path, PathBuf};

use std::time::Duration;

use amends_check::{Options, Report, check_text};

/// Within so many faults, and with all the time that a busy machine may need.
pub(crate) fn within(faults: u32) -> Options {
    Options { faults, time_max: Duration::from_secs(3_600), ..Options::default() }
}

/// A definition and what is expected of it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Every definition in a folder of the corpus, in the order of their names.
pub(crate) fn folder(name: &str) -> Vec<Case> {
    let folder = root().join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a file of the corpus").path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| Case {
            name: file.file_stem().expect("a name").to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&file).expect("a text"),
        })
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions")
}

impl Case {
    /// The rest of each header line with this word: `#= word rest`.
    pub(crate) fn header<'a>(&'a self, word: &str) -> Vec<&'a str> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("#= ")?.strip_prefix(word)?.strip_prefix(' '))
            .collect()
    }

    /// How many faults it takes to see what its header says; 2 if it does not say.
    pub(crate) fn faults(&self) -> u32 {
        self.header("faults").first().map_or(2, |faults| faults.parse().expect("a number"))
    }

    /// Whether its header says that it has many states.
    pub(crate) fn is_large(&self) -> bool {
        self.text.lines().any(|line| line == "#= large")
    }

    pub(crate) fn check(&self, options: &Options) -> Report {
        check_text(&self.text, options)
    }
}

/// Splits `head: tail`.
pub(crate) fn halves(line: &str) -> (&str, &str) {
    let (head, tail) = line.split_once(':').unwrap_or_else(|| panic!("`{line}` has no colon"));
    (head.trim(), tail.trim())
}
