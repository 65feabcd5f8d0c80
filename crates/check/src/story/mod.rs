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

/// How many lines may make a round that repeats: what is sent, what it meets, what is asked, and the answer.
const ROUND_MAX: usize = 4;

/// Rounds that repeat are told once, with how often.
fn shorten(lines: Vec<String>) -> Vec<String> {
    let mut short = Vec::new();
    let mut rest = lines.as_slice();
    while !rest.is_empty() {
        let times = |round: usize| rest.chunks(round).take_while(|chunk| *chunk == &rest[..round]).count();
        let rounds = (1..=ROUND_MAX.min(rest.len())).map(|round| (round, times(round)));
        // The round that saves most; of two that save the same, the shorter.
        let (round, times) = rounds.rev().max_by_key(|(round, times)| round * (times - 1)).unwrap_or((1, 1));
        let (told, after) = (&rest[..round], &rest[round * times..]);
        match (round, times) {
            (_, 1) => short.push(rest[0].clone()),
            (1, _) => short.push(format!("{} ({times} times)", rest[0])),
            _ => {
                short.extend_from_slice(told);
                short.push(format!("The last {round} things happen {times} times in all."));
            }
        }
        rest = if times == 1 { &rest[1..] } else { after };
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_repeat_are_told_once() {
        let short = |lines: &[&str]| shorten(lines.iter().map(ToString::to_string).collect());
        assert_eq!(short(&["a", "b", "b", "b", "a"]), ["a", "b (3 times)", "a"]);
        assert_eq!(
            short(&["a", "b", "c", "b", "c", "b", "c", "b"]),
            ["a", "b", "c", "The last 2 things happen 3 times in all.", "b"]
        );
        assert_eq!(short(&["a", "b", "c", "d"]), ["a", "b", "c", "d"]);
        assert!(short(&[]).is_empty());
    }
}
