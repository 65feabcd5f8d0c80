//! Time-outs, retries and what happens on unknown: read level by level, each overriding the one around it member by member.

use super::diagnostic::{Place, Report};
use super::duration::DURATION_MAX_MS;
use super::fields::Fields;
use super::{OnUnknown, Retry};

/// The longest time-out of one call: whatever takes longer is to answer 202 and be asked about.
pub const TIMEOUT_MAX_MS: u64 = 60 * 60 * 1_000;
/// The most attempts that a retry may name.
pub const ATTEMPTS_MAX: u64 = 100;
/// The most queries in a row that `on_unknown` may name.
pub const QUERIES_MAX: u64 = 100;
/// The most entries that `verify` may have.
pub const VERIFY_MAX: usize = 32;

const TIMEOUT_DEFAULT_MS: u64 = 3_000;
const VERIFY_DEFAULT_MS: [u64; 4] = [60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000];
const VERIFY_FOR_DEFAULT_MS: u64 = 24 * 3_600_000;
/// Statement files come once a day, and not on weekends and holidays.
const VERIFY_FOR_STATEMENT_MS: u64 = 5 * 24 * 3_600_000;

/// What holds at one level: built in, `[defaults]`, a step, an operation.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) timeout_ms: u64,
    pub(super) retry: Retry,
    queries: u32,
    interval_ms: u64,
    verify_ms: Vec<u64>,
    /// `None` until a level names it: the default depends on the participant.
    verify_for_ms: Option<u64>,
    /// The line of the innermost `retry`, else `timeout`: where a retry that exceeds its budget is to be corrected.
    pub(super) retry_line: Option<usize>,
}

impl Policy {
    pub(super) fn built_in() -> Self {
        Self {
            timeout_ms: TIMEOUT_DEFAULT_MS,
            retry: Retry::default(),
            queries: 2,
            interval_ms: 1_000,
            verify_ms: VERIFY_DEFAULT_MS.to_vec(),
            verify_for_ms: None,
            retry_line: None,
        }
    }

    /// This level with what a table inside it names instead.
    pub(super) fn overlaid(&self, fields: &mut Fields<'_>, report: &mut Report) -> Self {
        let mut policy = self.clone();
        if let Some(at) = fields.get("timeout") {
            policy.retry_line = Some(at.place.line);
            set(&mut policy.timeout_ms, at.duration(TIMEOUT_MAX_MS, report));
        }
        if let Some(at) = fields.get("retry") {
            policy.retry_line = Some(at.place.line);
            if let Some(mut retry) = at.fields("retry = { max_attempts = 3, budget = \"30s\" }", report) {
                read_retry(&mut policy.retry, &mut retry, report);
                retry.finish(report);
            }
        }
        if let Some(at) = fields.get("on_unknown")
            && let Some(mut on_unknown) = at.fields("on_unknown = { queries = 2, interval = \"1s\" }", report)
        {
            policy.read_on_unknown(&mut on_unknown, report);
            on_unknown.finish(report);
        }
        policy
    }

    fn read_on_unknown(&mut self, fields: &mut Fields<'_>, report: &mut Report) {
        if let Some(at) = fields.get("queries") {
            set(
                &mut self.queries,
                at.whole(1..=QUERIES_MAX, report).and_then(|number| number.try_into().ok()),
            );
        }
        if let Some(at) = fields.get("interval") {
            set(&mut self.interval_ms, at.duration(DURATION_MAX_MS, report));
        }
        if let Some(at) = fields.get("verify")
            && let Some(items) = at.list("durations", "[\"1m\", \"5m\", \"30m\", \"2h\"]", report)
        {
            if items.is_empty() || items.len() > VERIFY_MAX {
                report.problem(
                    &at.place,
                    format!("`verify` has {} entries, it is to have 1 to {VERIFY_MAX}", items.len()),
                    "name a few; the last one repeats until `verify_for` is over",
                );
            } else {
                self.verify_ms =
                    items.iter().filter_map(|item| item.duration(DURATION_MAX_MS, report)).collect();
            }
        }
        if let Some(at) = fields.get("verify_for") {
            self.verify_for_ms = at.duration(DURATION_MAX_MS, report).or(self.verify_for_ms);
        }
    }

    /// What holds for an operation at this level.
    pub(super) fn on_unknown(&self, settled_by_statement: bool) -> OnUnknown {
        let default = if settled_by_statement { VERIFY_FOR_STATEMENT_MS } else { VERIFY_FOR_DEFAULT_MS };
        OnUnknown {
            queries: self.queries,
            interval_ms: self.interval_ms,
            verify_ms: self.verify_ms.clone(),
            verify_for_ms: self.verify_for_ms.unwrap_or(default),
        }
    }

    /// Reports a retry that cannot keep its budget: the last attempts would never be made.
    pub(super) fn check_budget(&self, operation: &Place, report: &mut Report) {
        let retry = &self.retry;
        let backoffs: u64 = (1..retry.max_attempts).map(|attempt| retry.backoff_ms(attempt)).sum();
        let calls = u64::from(retry.max_attempts) * self.timeout_ms;
        let needed = calls + backoffs;
        if needed <= retry.budget_ms {
            return;
        }
        let at = Place { line: self.retry_line.unwrap_or(operation.line), path: operation.member("retry") };
        let show = super::show_duration;
        let (attempts, timeout, budget) = (retry.max_attempts, show(self.timeout_ms), show(retry.budget_ms));
        let reason = if attempts == 1 {
            format!("a call of {timeout} takes longer than the budget of {budget}")
        } else {
            let backoffs = show(backoffs);
            let needed = show(needed);
            format!(
                "{attempts} calls of {timeout} and the back-offs between them ({backoffs}) take up to {needed}, more than the \
                 budget of {budget}"
            )
        };
        let remedy = format!(
            "raise `budget` to \"{}\" or more, or lower `max_attempts`, `timeout` or the back-offs",
            show(needed)
        );
        report.problem(&at, reason, remedy);
    }
}

fn read_retry(retry: &mut Retry, fields: &mut Fields<'_>, report: &mut Report) {
    if let Some(at) = fields.get("initial") {
        set(&mut retry.initial_ms, at.duration(DURATION_MAX_MS, report));
    }
    if let Some(at) = fields.get("factor") {
        set(&mut retry.factor, at.number(1.0..=100.0, report));
    }
    if let Some(at) = fields.get("max_interval") {
        set(&mut retry.max_interval_ms, at.duration(DURATION_MAX_MS, report));
    }
    if let Some(at) = fields.get("max_attempts") {
        set(
            &mut retry.max_attempts,
            at.whole(1..=ATTEMPTS_MAX, report).and_then(|number| number.try_into().ok()),
        );
    }
    if let Some(at) = fields.get("budget") {
        set(&mut retry.budget_ms, at.duration(DURATION_MAX_MS, report));
    }
    if let Some(at) = fields.get("jitter") {
        set(&mut retry.jitter, at.number(0.0..=1.0, report));
    }
}

fn set<T>(member: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *member = value;
    }
}
