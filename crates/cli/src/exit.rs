//! Exit codes, and errors that carry one.

use std::fmt;
use std::process::ExitCode;

/// How a command ends. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done,
    /// It failed.
    Failed,
    /// The command line, a file or a value given is wrong.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// Something else is in the way: another state, version, content or holder.
    Conflict,
    /// The time given was over first.
    TimeOver,
    /// Not allowed.
    Denied,
    /// Only a part was done: a saga that a person closed.
    Partial,
    /// The saga waited for ended compensated.
    Compensated,
    /// The saga waited for needs a person: it is unknown or dead.
    NeedsPerson,
}

impl Exit {
    /// The number the process exits with.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::TimeOver => 5,
            Self::Denied => 6,
            Self::Partial => 7,
            Self::Compensated => 8,
            Self::NeedsPerson => 9,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}

/// Why a command did not do what it was asked: what is wrong, and the next useful step.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What is wrong, and where.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) next: String,
}

impl Failure {
    /// An error that ends the command with `exit`.
    pub(crate) fn new(exit: Exit, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { exit, message: message.into(), next: next.into() }
    }

    /// The command line, a file or a value is wrong.
    pub(crate) fn usage(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message, next)
    }

    /// It could not be done.
    pub(crate) fn failed(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message, next)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n next: {}", self.message, self.next)
    }
}
