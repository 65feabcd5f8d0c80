//! The comparison at the end: every ledger with every saga, effect by effect.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::{Line, Operation};

/// What was found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Sagas that completed.
    pub completed: usize,
    /// Sagas that were undone.
    pub compensated: usize,
    /// Sagas that wait for a person.
    pub dead: usize,
    /// Unknown, or not ended for another reason.
    pub unknown: usize,
    /// Effects that a completed saga lacks, or that its ledger knows under another number.
    pub lost: usize,
    /// Effects of a completed saga that were undone.
    pub wrongly_undone: usize,
    /// Effects that happened more than once.
    pub doubled: usize,
    /// Effects of which no saga, or only a compensated one, knows, and that were not undone.
    pub left_over: usize,
    /// What each of them is, in words.
    pub findings: Vec<String>,
}

impl Verdict {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dead + self.unknown + self.lost + self.wrongly_undone + self.doubled + self.left_over == 0
    }
}

/// Compares. `sagas`: the API's saga objects. `actions`: the names of the steps with an action, by definition. `ledgers`: the
/// lines of every participant.
#[must_use]
pub fn compare(sagas: &[Value], actions: &HashMap<String, Vec<String>>, ledgers: &[Line]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut done: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    let mut undone: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in ledgers {
        match line.operation {
            Operation::Action => done.entry(&line.key).or_default().push(line),
            Operation::Compensation => undone.entry(&line.of).or_default().push(line),
            // Nothing happened, and nothing ever will.
            Operation::Tombstone => {}
        }
    }
    for (key, lines) in &done {
        let times = undone.get(key).map_or(0, Vec::len);
        for _ in 1..lines.len() {
            verdict.doubled += 1;
            verdict.findings.push(format!("{key} was carried out {} times", lines.len()));
        }
        for _ in 1..times {
            verdict.doubled += 1;
            verdict.findings.push(format!("{key} was undone {times} times"));
        }
    }
    let mut explained = HashSet::new();
    for saga in sagas {
        let id = saga["id"].as_str().unwrap_or_default();
        let steps = actions.get(saga["saga"].as_str().unwrap_or_default()).map_or(&[][..], Vec::as_slice);
        match saga["status"].as_str().unwrap_or_default() {
            "completed" => {
                verdict.completed += 1;
                for step in steps {
                    let key = format!("{id}:{step}:action");
                    let is_undone = undone.contains_key(key.as_str());
                    let reason = match missing(saga, step, done.get(key.as_str()), is_undone) {
                        Missing::Nothing => None,
                        Missing::Effect(reason) => {
                            verdict.lost += 1;
                            Some(reason)
                        }
                        Missing::Undone => {
                            verdict.wrongly_undone += 1;
                            Some("it was undone".to_owned())
                        }
                    };
                    if let Some(reason) = reason {
                        verdict.findings.push(format!("{key}: the saga is completed, but {reason}"));
                    }
                    explained.insert(key);
                }
            }
            "compensated" => verdict.compensated += 1,
            "dead" => {
                verdict.dead += 1;
                verdict.findings.push(format!("{id} is dead: {}", saga["reason"]));
            }
            status => {
                verdict.unknown += 1;
                verdict.findings.push(format!("{id} is {status}: {}", saga["reason"]));
            }
        }
    }
    let open: HashSet<&str> =
        sagas.iter().filter(|saga| !has_ended(saga)).filter_map(|saga| saga["id"].as_str()).collect();
    for key in done.keys() {
        let is_open = key.rsplitn(3, ':').nth(2).is_some_and(|id| open.contains(id));
        if !explained.contains(*key) && !undone.contains_key(key) && !is_open {
            verdict.left_over += 1;
            verdict
                .findings
                .push(format!("{key} was carried out and not undone, and no saga completed with it"));
        }
    }
    verdict
}

/// Whether the API shows the saga as ended, one way or the other.
#[must_use]
pub fn has_ended(saga: &Value) -> bool {
    matches!(saga["status"].as_str(), Some("completed" | "compensated" | "resolved"))
}

/// What a completed saga lacks of a step.
enum Missing {
    Nothing,
    /// The effect, for this reason.
    Effect(String),
    /// The effect is there, but was undone.
    Undone,
}

fn missing(saga: &Value, step: &str, done: Option<&Vec<&Line>>, is_undone: bool) -> Missing {
    let Some(line) = done.and_then(|lines| lines.first()) else {
        return Missing::Effect("its ledger does not have it".to_owned());
    };
    if is_undone {
        return Missing::Undone;
    }
    let shown = saga["steps"].as_array().into_iter().flatten().find(|shown| shown["name"] == step);
    let serial = shown.and_then(|shown| shown["serial"].as_str());
    if serial == line.serial.as_deref() {
        return Missing::Nothing;
    }
    Missing::Effect(format!("the ledger knows it as {:?}, the saga as {serial:?}", line.serial))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `a` did everything, `b` undid its charge and kept another from happening.
    fn world() -> (Vec<Value>, Vec<Line>) {
        let saga = |id: &str, status: &str| {
            json!({"id": id, "saga": "order", "status": status, "reason": null, "steps": [
                {"name": "charge", "serial": format!("{id}1")}, {"name": "ship", "serial": format!("{id}2")}]})
        };
        let ledger = vec![
            line("a:charge:action", Operation::Action, "a:charge:action", "a1"),
            line("a:ship:action", Operation::Action, "a:ship:action", "a2"),
            line("b:charge:action", Operation::Action, "b:charge:action", "b1"),
            line("b:charge:compensation", Operation::Compensation, "b:charge:action", "b3"),
            line("b:ship:compensation", Operation::Tombstone, "b:ship:action", ""),
        ];
        (vec![saga("a", "completed"), saga("b", "compensated")], ledger)
    }

    fn line(key: &str, operation: Operation, of: &str, serial: &str) -> Line {
        Line { key: key.into(), operation, of: of.into(), serial: Some(serial.into()), at: String::new() }
    }

    fn judge(change: impl FnOnce(&mut Vec<Value>, &mut Vec<Line>)) -> Verdict {
        let (mut sagas, mut ledger) = world();
        change(&mut sagas, &mut ledger);
        let actions = HashMap::from([("order".to_owned(), vec!["charge".to_owned(), "ship".to_owned()])]);
        compare(&sagas, &actions, &ledger)
    }

    fn counts(verdict: &Verdict) -> [usize; 6] {
        [
            verdict.dead,
            verdict.unknown,
            verdict.lost,
            verdict.wrongly_undone,
            verdict.doubled,
            verdict.left_over,
        ]
    }

    #[test]
    fn good_books_are_clean() {
        let verdict = judge(|_, _| {});
        assert!(verdict.is_clean() && verdict.findings.is_empty(), "{verdict:?}");
        assert_eq!((verdict.completed, verdict.compensated), (1, 1));
    }

    #[test]
    fn every_wrong_is_found() {
        type Change = fn(&mut Vec<Value>, &mut Vec<Line>);
        let wrong: [(&str, Change, [usize; 6]); 9] = [
            ("a dead saga", |sagas, _| sagas[1]["status"] = "dead".into(), [1, 0, 0, 0, 0, 0]),
            ("a saga that goes on", |sagas, _| sagas[1]["status"] = "running".into(), [0, 1, 0, 0, 0, 0]),
            ("an effect that is missing", |_, ledger| drop(ledger.remove(1)), [0, 0, 1, 0, 0, 0]),
            (
                "an effect under another number",
                |_, ledger| ledger[1].serial = Some("x".into()),
                [0, 0, 1, 0, 0, 0],
            ),
            (
                "an effect that was undone",
                |_, ledger| {
                    ledger.push(line("a:ship:compensation", Operation::Compensation, "a:ship:action", "a9"))
                },
                [0, 0, 0, 1, 0, 0],
            ),
            ("an effect twice", |_, ledger| ledger.push(ledger[0].clone()), [0, 0, 0, 0, 1, 0]),
            ("an undo twice", |_, ledger| ledger.push(ledger[3].clone()), [0, 0, 0, 0, 1, 0]),
            ("an effect not undone", |_, ledger| drop(ledger.remove(3)), [0, 0, 0, 0, 0, 1]),
            (
                "an action after its tombstone",
                |_, ledger| ledger.push(line("b:ship:action", Operation::Action, "b:ship:action", "b2")),
                [0, 0, 0, 0, 0, 1],
            ),
        ];
        for (what, change, expected) in wrong {
            let verdict = judge(change);
            assert_eq!(counts(&verdict), expected, "{what}: {verdict:?}");
            assert!(!verdict.is_clean() && !verdict.findings.is_empty());
        }
    }

    #[test]
    fn a_new_key_and_a_strange_saga_are_left_over() {
        for key in ["a:charge:action.2", "c:charge:action"] {
            let verdict = judge(|_, ledger| ledger.push(line(key, Operation::Action, key, "x")));
            assert_eq!(counts(&verdict), [0, 0, 0, 0, 0, 1], "{key}");
        }
    }
}
