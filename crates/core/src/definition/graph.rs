//! The order of the steps: cycles, who comes before whom, and where each stands towards the pivot.

use super::{Step, StepKind};

/// Steps that wait for each other, in order; the last waits for nothing else than the first does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cycle(pub(super) Vec<usize>);

/// `before[a][b]`: step `b` is done before step `a` begins.
///
/// # Errors
/// A [`Cycle`], if there is one.
pub(super) fn before(steps: &[Step]) -> Result<Vec<Vec<bool>>, Cycle> {
    let mut before = vec![vec![false; steps.len()]; steps.len()];
    let mut waits_for: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut ready: Vec<usize> = (0..steps.len()).filter(|step| waits_for[*step] == 0).collect();
    let mut placed = 0;
    while let Some(step) = ready.pop() {
        placed += 1;
        let mut all = std::mem::take(&mut before[step]);
        for &earlier in &steps[step].after {
            all[earlier] = true;
            all.iter_mut().zip(&before[earlier]).for_each(|(all, earlier)| *all |= *earlier);
        }
        before[step] = all;
        for &later in &steps[step].dependants {
            waits_for[later] -= 1;
            if waits_for[later] == 0 {
                ready.push(later);
            }
        }
    }
    if placed == steps.len() { Ok(before) } else { Err(find_cycle(steps, &waits_for)) }
}

/// Walks backwards among the steps that wait for each other until one comes again.
fn find_cycle(steps: &[Step], waits_for: &[usize]) -> Cycle {
    let is_stuck = |step: usize| waits_for[step] > 0;
    let mut walk = Vec::new();
    let mut seen_at = vec![None; steps.len()];
    let mut next = (0..steps.len()).find(|step| is_stuck(*step));
    while let Some(step) = next {
        if let Some(start) = seen_at[step] {
            walk.drain(..start);
            break;
        }
        seen_at[step] = Some(walk.len());
        walk.push(step);
        next = steps[step].after.iter().copied().find(|earlier| is_stuck(*earlier));
    }
    walk.reverse();
    // Begin with the step that comes first in the file: the same cycle always reads the same.
    let first = walk.iter().enumerate().min_by_key(|(_, step)| **step).map_or(0, |(i, _)| i);
    walk.rotate_left(first);
    Cycle(walk)
}

/// Where each step stands towards the pivot; `None` for one that is neither before nor after it.
pub(super) fn kinds(steps: usize, pivot: Option<usize>, before: &[Vec<bool>]) -> Vec<Option<StepKind>> {
    let kind = |step: usize| match pivot {
        None => Some(StepKind::Compensatable),
        Some(pivot) if pivot == step => Some(StepKind::Pivot),
        Some(pivot) if before[pivot][step] => Some(StepKind::Compensatable),
        Some(pivot) if before[step][pivot] => Some(StepKind::Retriable),
        Some(_) => None,
    };
    (0..steps).map(kind).collect()
}
