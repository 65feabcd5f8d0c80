//! From a step to its place in a definition's tree: the same tree that TOML and JSON are read into.

use std::collections::HashMap;
use std::time::Duration;

use amends_core::definition::{Idempotency, OnExhausted, OnUnknown, Retry, show_duration};
use amends_participants::LOCAL_PREFIX;
use serde_json::{Map, Value, json};

use crate::handler::{FACT, FACTS, INPUT};
use crate::step::StepSpec;

/// The path under which a step's handlers are called.
pub(crate) fn path(saga: &str, version: u64, step: &str) -> String {
    format!("/{saga}/{version}/{step}")
}

/// The name of a step's participant.
pub(crate) fn participant_name(step: &str) -> String {
    format!("{LOCAL_PREFIX}{step}")
}

/// What a step guarantees, as a participant.
pub(crate) fn participant(spec: &StepSpec) -> Value {
    let mut tree = Map::new();
    if spec.fenced {
        tree.insert("fenced".into(), true.into());
    }
    let idempotency = if spec.fenced { Idempotency::Replay } else { spec.idempotency };
    tree.insert("idempotency".into(), idempotency_word(idempotency).into());
    put_time(&mut tree, "key_ttl", spec.key_ttl);
    put_time(&mut tree, "seals_after", spec.seals_after);
    Value::Object(tree)
}

/// A step. `facts`: names of the steps whose facts its handlers get.
pub(crate) fn step(spec: &StepSpec, path: &str, facts: &[String]) -> Value {
    let mut tree = Map::new();
    tree.insert("name".into(), spec.name.clone().into());
    if let Some(after) = &spec.after {
        tree.insert("after".into(), json!(after));
    }
    if let Some(reaches) = &spec.reaches {
        tree.insert("reaches".into(), reaches.clone().into());
    }
    if spec.pivot {
        tree.insert("pivot".into(), true.into());
    }
    if spec.effect_none {
        tree.insert("effect".into(), "none".into());
    }
    put_time(&mut tree, "timeout", spec.timeout);
    match (&spec.retry, spec.timeout) {
        (Some(retry), _) => drop(tree.insert("retry".into(), retry_tree(retry))),
        (None, Some(timeout)) => drop(tree.insert("retry".into(), json!({ "budget": budget(timeout) }))),
        (None, None) => {}
    }
    if let Some(on_unknown) = &spec.on_unknown {
        tree.insert("on_unknown".into(), on_unknown_tree(on_unknown));
    }
    let call = Call { spec, path, facts };
    tree.insert("action".into(), call.action());
    if spec.handlers.compensation.is_some() {
        tree.insert("compensation".into(), call.compensation());
    }
    Value::Object(tree)
}

/// What the operations of a step have in common.
struct Call<'a> {
    spec: &'a StepSpec,
    path: &'a str,
    facts: &'a [String],
}

impl Call<'_> {
    fn action(&self) -> Value {
        let mut tree = self.request();
        if let Some(serial) = &self.spec.serial {
            tree.insert("serial".into(), serial.clone().into());
        }
        if self.spec.handlers.query.is_some() {
            tree.insert("query".into(), self.query());
        }
        if let Some(then) = self.spec.on_exhausted {
            let word = match then {
                OnExhausted::Compensate => "compensate",
                OnExhausted::Dead => "dead",
            };
            tree.insert("on_exhausted".into(), word.into());
        }
        Value::Object(tree)
    }

    fn compensation(&self) -> Value {
        let mut tree = self.request();
        // A fenced compensation may be sent while there is no fact.
        if !self.spec.fenced
            && let Some(Value::Object(body)) = tree.get_mut("body")
        {
            body.insert(FACT.into(), fact_path(&self.spec.name));
        }
        if let Some(idempotency) = self.spec.compensation_idempotency.filter(|_| !self.spec.fenced) {
            tree.insert("idempotency".into(), idempotency_word(idempotency).into());
        }
        if self.spec.handlers.compensation_query.is_some() {
            tree.insert("query".into(), self.query());
        }
        Value::Object(tree)
    }

    fn request(&self) -> Map<String, Value> {
        let mut tree = Map::new();
        tree.insert("to".into(), participant_name(&self.spec.name).into());
        tree.insert("post".into(), self.path.into());
        let facts: Map<String, Value> =
            self.facts.iter().map(|step| (step.clone(), fact_path(step))).collect();
        tree.insert("body".into(), json!({ INPUT: "${input}", FACTS: facts }));
        tree
    }

    fn query(&self) -> Value {
        let mut tree = self.request();
        // Read by its status alone: a fact may have any members, one named `outcome` too, and may be null.
        tree.insert("outcome".into(), json!({ "codes": { "200": "done" } }));
        Value::Object(tree)
    }
}

fn fact_path(step: &str) -> Value {
    format!("${{steps.{step}.fact}}").into()
}

/// The steps that come before each step, in the order of the definition. `steps`: name, and the `after` it declares. What is wrong with them is
/// said by whoever reads the definition.
pub(crate) fn before(steps: &[(String, Option<Vec<String>>)]) -> Vec<Vec<usize>> {
    let index: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(i, (name, _))| (name.as_str(), i)).collect();
    let direct = |at: usize| -> Vec<usize> {
        match &steps[at].1 {
            Some(after) => after.iter().filter_map(|name| index.get(name.as_str()).copied()).collect(),
            None => at.checked_sub(1).into_iter().collect(),
        }
    };
    (0..steps.len())
        .map(|at| {
            let mut found = vec![false; steps.len()];
            let mut open = direct(at);
            while let Some(step) = open.pop() {
                if !found[step] && step != at {
                    found[step] = true;
                    open.extend(direct(step));
                }
            }
            (0..steps.len()).filter(|step| found[*step]).collect()
        })
        .collect()
}

fn idempotency_word(idempotency: Idempotency) -> &'static str {
    match idempotency {
        Idempotency::None => "none",
        Idempotency::Effect => "effect",
        Idempotency::Replay => "replay",
    }
}

/// The budget of a step that says how long a call may take and nothing of retries: as many calls as by default have room in it.
fn budget(timeout: Duration) -> String {
    let default = Retry::default();
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let back_offs_ms: u64 = (1..default.max_attempts).map(|attempt| default.backoff_ms(attempt)).sum();
    let needed_ms = timeout_ms.saturating_mul(default.max_attempts.into()).saturating_add(back_offs_ms);
    show_duration(needed_ms.max(default.budget_ms))
}

fn retry_tree(retry: &Retry) -> Value {
    json!({
        "initial": show_duration(retry.initial_ms),
        "factor": retry.factor,
        "max_interval": show_duration(retry.max_interval_ms),
        "max_attempts": retry.max_attempts,
        "budget": show_duration(retry.budget_ms),
        "jitter": retry.jitter,
    })
}

fn on_unknown_tree(on_unknown: &OnUnknown) -> Value {
    let verify: Vec<String> = on_unknown.verify_ms.iter().map(|ms| show_duration(*ms)).collect();
    json!({
        "queries": on_unknown.queries,
        "interval": show_duration(on_unknown.interval_ms),
        "verify": verify,
        "verify_for": show_duration(on_unknown.verify_for_ms),
    })
}

fn put_time(tree: &mut Map<String, Value>, name: &str, time: Option<Duration>) {
    if let Some(time) = time {
        tree.insert(name.into(), time_text(time).into());
    }
}

pub(crate) fn time_text(time: Duration) -> String {
    show_duration(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_after_all_that_lead_to_them() {
        let step = |name: &str, after: Option<&[&str]>| {
            (name.to_owned(), after.map(|names| names.iter().map(|&name| name.to_owned()).collect()))
        };
        let steps = [
            step("a", None),
            step("b", Some(&["a"])),
            step("c", Some(&["a"])),
            step("d", Some(&["b", "c"])),
            step("e", None),
            step("f", Some(&[])),
            step("g", Some(&["g", "nobody", "f"])),
        ];
        let expected: [&[usize]; 7] = [&[], &[0], &[0], &[0, 1, 2], &[0, 1, 2, 3], &[], &[5]];
        assert_eq!(before(&steps), expected);
    }
}
