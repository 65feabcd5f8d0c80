//! What a check finds.

use amends_core::definition::Diagnostic;
use serde::Serialize;

/// What a check found. Serialised, it is what `amends check -o json` writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The whole in one word.
    pub verdict: Verdict,
    /// How many faults the stories may have had: every verdict is one within so many faults.
    pub faults: u32,
    /// How many different states were explored.
    pub states: usize,
    /// How many things happen in the longest story explored.
    pub depth: usize,
    /// Why it is refused or unsafe.
    pub problems: Vec<Problem>,
    /// Each way in which a person will be needed.
    pub persons: Vec<PersonNeeded>,
    /// What the saga relies on, and what it declares without need.
    pub trust: Vec<Trust>,
    /// What is not wrong, but could be better.
    pub advice: Vec<String>,
}

/// The whole in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every saga ends by itself once faults stop.
    Ends,
    /// Safe, but some sagas will wait for a person.
    MayNeedAPerson,
    /// Something is done twice, lost, or left over.
    Unsafe,
    /// Registration refuses it.
    Refused,
    /// A limit was reached before everything was explored; nothing unsafe was found until then.
    Unfinished,
}

impl Verdict {
    /// The word in the report.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ends => "ends",
            Self::MayNeedAPerson => "may_need_a_person",
            Self::Unsafe => "unsafe",
            Self::Refused => "refused",
            Self::Unfinished => "unfinished",
        }
    }
}

/// Why a definition is refused or unsafe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line in the text, from 1; `None` where no line is to blame.
    pub line: Option<usize>,
    /// The place in the tree, or the step and its operation.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
    /// The shortest story that ends badly; empty for what registration refuses.
    pub story: Vec<String>,
}

impl From<&Diagnostic> for Problem {
    fn from(found: &Diagnostic) -> Self {
        Self {
            line: (found.line > 0).then_some(found.line),
            path: found.path.clone(),
            reason: found.reason.clone(),
            remedy: found.remedy.clone(),
            story: Vec::new(),
        }
    }
}

/// A way in which a person will be needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PersonNeeded {
    /// The step whose outcome nobody can tell.
    pub step: String,
    /// `action` or `compensation`.
    pub operation: &'static str,
    /// The shortest story, in plain words.
    pub story: Vec<String>,
    /// What would let it end by itself.
    pub cure: String,
}

/// A guarantee that is declared, and whether anything depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// Who declares it.
    pub participant: String,
    /// `replay`, `effect`, `rejected`, `never_seen`, `seals_after`, `fenced` or `key_ttl`.
    pub guarantee: &'static str,
    /// Whether the saga relies on it; `None` if a limit was reached before that was known.
    pub needed: Option<bool>,
    /// If it does: the shortest story without it. Its last line says what it comes to.
    pub story: Vec<String>,
    /// The same in a few words, such as "`charge` is carried out twice". Not serialised: the story says it.
    #[serde(skip)]
    pub harm: String,
}
