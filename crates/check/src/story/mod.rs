//! Stories: what happens, one thing a line, in plain words.

mod ending;
mod plot;
mod words;

use amends_core::{Ended, Entry, EntryKind, OpRef};

use crate::machine::Machine;
use crate::safety::Violation;
use crate::scene::Scene;
use crate::state::{Fingerprint, Packer};
use plot::Plot;
use words::Words;

/// How a story ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// With what must never happen.
    Violation(Violation),
    /// With an operation that becomes a person's.
    Person(OpRef),
}

/// A story, and what it comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Story {
    /// What happens, one thing a line; the last line says what it comes to.
    pub(crate) lines: Vec<String>,
    /// What it comes to, in a few words that follow "without it ".
    pub(crate) harm: String,
    /// What it happens to.
    pub(crate) path: String,
}

/// Tells the shortest story along these states to its ending. `instead`: a step in whose place its twin is named, and the
/// twin in its place.
pub(crate) fn tell(
    scene: &Scene,
    machine: &dyn Machine,
    packer: &mut Packer<'_>,
    path: &[Fingerprint],
    ending: Ending,
    instead: Option<(usize, usize)>,
) -> Story {
    let words = Words::new(scene, instead);
    let Some(plot) = Plot::along(scene, machine, packer, path, ending) else {
        // Everything is a function of its arguments, so that a path once walked can be walked again.
        return Story {
            lines: vec![words.of_ending(ending, None)],
            harm: words.harm(ending),
            path: words.path(ending),
        };
    };
    let (begin, scenes) = plot.shortened(scene, machine);
    let mut lines = vec![words.begin(&begin)];
    let mut ending = ending;
    let mut last = None;
    for scene in scenes {
        lines.extend(words.of_move(&scene.before, &scene.happens, &scene.turn.entries));
        lines.extend(words.sent_again(&scene.before, &scene.happens, &scene.turn.entries));
        lines.extend(scene.turn.entries.iter().filter_map(follows).map(str::to_owned));
        ending = scene.ending.unwrap_or(ending);
        last = Some(scene.turn.after);
    }
    lines.push(words.of_ending(ending, last.as_ref()));
    Story { lines: shorten(lines), harm: words.harm(ending), path: words.path(ending) }
}

/// What an entry says that its input did not.
fn follows(entry: &Entry) -> Option<&'static str> {
    match &entry.kind {
        EntryKind::Undoing { .. } => Some("The saga turns round: what was done is to be undone."),
        EntryKind::UndoPending { .. } => {
            Some("The saga waits until it is known whether the point of no return was passed.")
        }
        EntryKind::UndoRefused => Some("The point of no return was passed: the saga goes on."),
        EntryKind::Ended { how: Ended::Completed, .. } => Some("The saga ends: completed."),
        EntryKind::Ended { how: Ended::Compensated, .. } => Some("The saga ends: compensated."),
        _ => None,
    }
}

/// Lines that repeat are told once, with how often.
fn shorten(lines: Vec<String>) -> Vec<String> {
    let mut short: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match short.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            Some(_) | None => short.push((line, 1)),
        }
    }
    let say = |(line, times): (String, usize)| match times {
        1 => line,
        times => format!("{line} ({times} times)"),
    };
    short.into_iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_repeat_are_told_once() {
        let lines = ["a", "b", "b", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(shorten(lines), ["a", "b (3 times)", "a"]);
    }
}
