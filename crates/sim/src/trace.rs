//! What happened in a run, line by line: its digest tells two runs apart, its end tells what led to a violation.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use amends_core::Time;

use crate::clock::BEGINNING;

/// How many lines are kept where nobody asked for all of them: enough to see how it came to a violation.
const LINES_MAX: usize = 400;

/// The lines of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    count: u64,
    lines: VecDeque<String>,
    lines_max: usize,
    text: String,
}

impl Trace {
    /// `whole`: keep every line.
    pub(crate) fn new(whole: bool) -> Self {
        Self {
            // Its keys are fixed, so that it gives the same in every process.
            hasher: DefaultHasher::new(),
            count: 0,
            lines: VecDeque::new(),
            lines_max: if whole { usize::MAX } else { LINES_MAX },
            text: String::new(),
        }
    }

    /// Notes that something happened.
    pub(crate) fn note(&mut self, at: Time, what: fmt::Arguments<'_>) {
        self.text.clear();
        let ms = at.since_ms(BEGINNING);
        let _ = write!(self.text, "{:>6}.{:03} {what}", ms / 1_000, ms % 1_000);
        self.text.hash(&mut self.hasher);
        self.count += 1;
        if self.lines.len() >= self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(self.text.clone());
    }

    /// Two runs that did the same have the same.
    pub(crate) fn digest(&self) -> u64 {
        self.hasher.finish()
    }

    /// How many lines there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The lines that were kept.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
