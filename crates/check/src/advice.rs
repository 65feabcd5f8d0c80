//! What is not wrong, but could be better. Read off the definition, not explored.

use std::collections::BTreeSet;

use amends_core::definition::{Body, Definition, Operation, StepKind, show_duration};
use amends_core::template::Path;

/// What could be better about a definition.
pub(crate) fn advice(definition: &Definition) -> Vec<String> {
    let mut all = undone_in_vain(definition);
    all.extend(deadline(definition));
    all.extend(refused_after_pivot(definition));
    all.extend(facts_of_queries(definition));
    all
}

/// Actions that may be carried out only to be undone, because a step that needs nothing of them is refused after them.
fn undone_in_vain(definition: &Definition) -> Vec<String> {
    let steps = &definition.steps;
    let needed: Vec<BTreeSet<usize>> = (0..steps.len()).map(|step| needs(definition, step)).collect();
    let mut all = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if step.compensation.is_none() {
            continue;
        }
        let later: Vec<usize> = (0..steps.len())
            .filter(|other| {
                let could_be_first =
                    steps[*other].kind == StepKind::Compensatable && steps[*other].action.is_some();
                could_be_first && comes_after(definition, *other, index) && !needed[*other].contains(&index)
            })
            .collect();
        let (checks, others): (Vec<usize>, Vec<usize>) =
            later.into_iter().partition(|other| steps[*other].effect_none);
        let name = &step.name;
        if !checks.is_empty() {
            all.push(format!(
                "`{name}` may be carried out only to be undone: {} after it changes nothing and needs nothing of it, and may be \
                 refused. Let it come before `{name}`.",
                list(definition, &checks)
            ));
        }
        if !others.is_empty() {
            all.push(format!(
                "`{name}` may be carried out only to be undone: {} after it needs nothing of it, and may be refused. Let what is \
                 refused most often, and undone most cheaply, come first.",
                list(definition, &others)
            ));
        }
    }
    all
}

/// A deadline that can pass although nothing but ordinary retries went wrong.
fn deadline(definition: &Definition) -> Option<String> {
    let deadline_ms = definition.deadline_ms?;
    let (longest_ms, along) = (0..definition.steps.len())
        .filter(|step| definition.steps[*step].kind != StepKind::Retriable)
        .map(|step| longest(definition, step))
        .max_by_key(|(ms, _)| *ms)?;
    (longest_ms > deadline_ms).then(|| {
        format!(
            "The deadline of {} can pass while ordinary retries are going on: {} may take {} with every attempt that their \
             policies allow. Raise the deadline, or lower `retry`.",
            show_duration(deadline_ms),
            list(definition, &along),
            show_duration(longest_ms)
        )
    })
}

/// How long a step and those before it may take with all their attempts, and which these are.
fn longest(definition: &Definition, step: usize) -> (u64, Vec<usize>) {
    let before = &definition.steps[step].after;
    let (before_ms, mut along) = before
        .iter()
        .map(|before| longest(definition, *before))
        .max_by_key(|(ms, _)| *ms)
        .unwrap_or_default();
    let own_ms = definition.steps[step].action.as_ref().map_or(0, |action| {
        let retry = &action.retry;
        let pauses: u64 = (1..retry.max_attempts).map(|attempt| retry.backoff_ms(attempt)).sum();
        (u64::from(retry.max_attempts) * action.timeout_ms + pauses).min(retry.budget_ms)
    });
    along.push(step);
    (before_ms + own_ms, along)
}

/// Steps after the pivot that can be refused: there a refusal is always a person's.
fn refused_after_pivot(definition: &Definition) -> Vec<String> {
    let late = definition.steps.iter().filter(|step| step.kind == StepKind::Retriable);
    late.filter_map(|step| {
        let action = step.action.as_ref()?;
        Some(format!(
            "`{}` comes after the point of no return: if `{}` refuses it, a person is needed. Make sure that what can be refused is \
             asked before, and that it accepts whatever comes then.",
            step.name, action.to
        ))
    })
    .collect()
}

/// Facts that are used, and may be missing if a query rather than the answer told them.
fn facts_of_queries(definition: &Definition) -> Vec<String> {
    let mut used: BTreeSet<(usize, String)> = BTreeSet::new();
    definition.each_path(&mut |path| {
        if let Path::StepFact { step, .. } = path {
            used.insert((*step, path.to_string()));
        }
    });
    used.into_iter()
        .filter_map(|(index, path)| {
            let step = &definition.steps[index];
            let action = step.action.as_ref()?;
            action.query.as_ref()?;
            // A fence in Redis is asked what it answered.
            if let Body::Redis(_) = action.body {
                return None;
            }
            Some(format!(
                "`${{{path}}}` is used, but if the answer of `{}` is lost, its fact is what its query answers, which may lack it; \
                 then a person is needed. Let the query answer the same, or use the serial.",
                step.name
            ))
        })
        .collect()
}

/// The steps whose facts an action needs, and those that these need.
fn needs(definition: &Definition, step: usize) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut open = vec![step];
    while let Some(step) = open.pop() {
        let Some(action) = &definition.steps[step].action else { continue };
        for used in uses(action) {
            if all.insert(used) {
                open.push(used);
            }
        }
    }
    all
}

fn uses(operation: &Operation) -> BTreeSet<usize> {
    let mut steps = BTreeSet::new();
    let mut keep = |path: &Path| steps.extend(path.step());
    operation.each_path(&mut |path| keep(path));
    if let Some(query) = &operation.query {
        query.each_path(&mut |path| keep(path));
    }
    steps
}

fn comes_after(definition: &Definition, step: usize, earlier: usize) -> bool {
    let after = &definition.steps[step].after;
    after.contains(&earlier) || after.iter().any(|before| comes_after(definition, *before, earlier))
}

/// `` `a`, `b` and `c` ``.
fn list(definition: &Definition, steps: &[usize]) -> String {
    let names: Vec<String> = steps.iter().map(|step| format!("`{}`", definition.steps[*step].name)).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}
