//! What is wrong with a definition: where, why, and what to do.

use std::fmt;

/// The most problems, and the most warnings, that are reported at once: more than anyone corrects in one go.
pub const DIAGNOSTICS_MAX: usize = 200;

/// One problem or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line in the text, from 1; 0 if the definition was not read from a text.
    pub line: usize,
    /// The place in the tree, such as `step[1].action.retry` (lists count from 0); empty for the whole text.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

/// How many are kept before they are put in order and cut to [`DIAGNOSTICS_MAX`], so that hostile text costs little.
const KEPT_MAX: usize = 5 * DIAGNOSTICS_MAX;

/// The most bytes of a place: names of a hostile text can be as long as it.
const PATH_BYTES_MAX: usize = 500;
/// The most bytes of a reason, and of a remedy, whatever they quote.
const WORDS_BYTES_MAX: usize = 1_500;

/// `text`, with an ellipsis for its middle if it is longer than `max` bytes: what is wrong stands at the ends.
fn shortened(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let half = max / 2 - 2;
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let tail = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("{}…{}", &text[..head], &text[tail..])
}

/// Collects problems and warnings while a definition is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    problems: List,
    warnings: List,
}

#[derive(Debug, Default)]
struct List {
    kept: Vec<Diagnostic>,
    dropped: usize,
}

/// A place in the text and in the tree.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) path: String,
}

impl Place {
    /// The whole text.
    pub(super) fn root(line: usize) -> Self {
        Self { line, path: String::new() }
    }

    /// The path of the member `name` of this place.
    pub(super) fn member(&self, name: &str) -> String {
        let quoted;
        let name = if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') {
            name
        } else {
            quoted = format!("{name:?}");
            &quoted
        };
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

impl Report {
    pub(super) fn problem(&mut self, at: &Place, reason: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(at, reason.into(), remedy.into());
    }

    pub(super) fn warning(&mut self, at: &Place, reason: impl Into<String>, remedy: impl Into<String>) {
        self.warnings.push(at, reason.into(), remedy.into());
    }

    /// The number of problems so far.
    pub(super) fn problems(&self) -> usize {
        self.problems.kept.len() + self.problems.dropped
    }

    /// Whether there are so many problems that it is not worth while to look for the best remedy of another.
    pub(super) fn is_full(&self) -> bool {
        self.problems.kept.len() >= DIAGNOSTICS_MAX
    }

    /// The problems, if there are any, else the warnings; each in the order of the text.
    pub(super) fn finish(self) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        if self.problems() == 0 { Ok(self.warnings.in_order()) } else { Err(self.problems.in_order()) }
    }
}

impl List {
    fn push(&mut self, at: &Place, reason: String, remedy: String) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(Diagnostic {
                line: at.line,
                path: shortened(at.path.clone(), PATH_BYTES_MAX),
                reason: shortened(reason, WORDS_BYTES_MAX),
                remedy: shortened(remedy, WORDS_BYTES_MAX),
            });
        } else {
            self.dropped += 1;
        }
    }

    fn in_order(mut self) -> Vec<Diagnostic> {
        self.kept.sort_by_key(|diagnostic| diagnostic.line);
        let more = self.kept.len().saturating_sub(DIAGNOSTICS_MAX) + self.dropped;
        if more > 0 {
            self.kept.truncate(DIAGNOSTICS_MAX);
            self.kept.push(Diagnostic {
                line: 0,
                path: String::new(),
                reason: format!("there are {more} more"),
                remedy: "correct those above and check again".into(),
            });
        }
        self.kept
    }
}
