//! A batch of which everything is as expected, in one round trip: what it would find is assumed, its items are decided on that, and the server
//! writes if it is so.

use std::collections::BTreeMap;

use amends_core::Time;
use amends_store::batch::{Look, Writes, decide};
use amends_store::{Advanced, Error, Item, Outcome, Row, Submitted};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;

use crate::batch::NUMBER_MAX;
use crate::error;
use crate::look::Names;
use crate::pool::{ANSWER_MAX, Pool};
use crate::records::{Record, Records};
use crate::rows::{get, int, sought};
use crate::unsure::Unsure;
use crate::write::{Undone, size, unmade};

const COMMIT: &str = "SELECT amends.commit_expected($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// Commits the batch if all is as expected. `None`: nothing is written, and it has to be looked at. Dropped on its way, it may have committed or not.
pub(crate) async fn commit(
    pool: &Pool,
    unsure: &Unsure,
    batch: &[Item],
) -> Result<Option<Vec<Outcome>>, Undone> {
    let Some(expected) = Expected::of(batch, &pool.health.takes_work()) else { return Ok(None) };
    size(&expected.writes).map_err(Undone::Failed)?;
    let params = Parameters::of(&expected).map_err(Undone::Failed)?;
    let mut conn = pool.take().await.map_err(Undone::Failed)?;
    let statement = conn.prepare(COMMIT).await.map_err(Undone::Failed)?;
    let undone = match timeout(ANSWER_MAX, conn.client().query_one(&statement, &params.list())).await {
        Ok(Ok(row)) => {
            conn.done();
            let numbers: Option<Vec<i64>> = get(&row, 0).map_err(Undone::Failed)?;
            return Ok(numbers.map(|numbers| expected.outcomes(&numbers)));
        }
        // The answer to the statement is that to its COMMIT too.
        Ok(Err(error)) => unmade(&error),
        Err(_) => Undone::Unknown(error::lost("it does not answer")),
    };
    match undone {
        Undone::Unknown(_) => unsure.add(conn.session()),
        // The server has undone it.
        Undone::Race(_) => conn.done(),
        Undone::Failed(_) => {}
    }
    Err(undone)
}

/// What becomes of a batch if all of it is as its items say.
#[derive(Debug)]
struct Expected {
    outcomes: Vec<Outcome>,
    writes: Writes,
    /// Sagas that are there: id, and number of the last entry.
    moved: BTreeMap<u64, (String, u64)>,
    names: Names,
}

impl Expected {
    /// `None`: it depends on more than can be assumed, or not all its items would be committed.
    fn of(batch: &[Item], takes_work: &Result<(), Error>) -> Option<Self> {
        let mut moved = BTreeMap::new();
        for item in batch {
            if let Item::Advance(item) = item {
                // Without an entry the primary key does not tell whether somebody was quicker.
                if item.entries.is_empty() || !item.take_claims.is_empty() || !item.mail.is_empty() {
                    return None;
                }
                moved.entry(item.rowid).or_insert_with(|| (item.id.to_string(), item.after));
            }
        }
        let names = Names::of(batch);
        let numbers = (0..names.ids.len()).rev().map(standing_in).collect();
        let sagas = moved.iter().map(|(saga, known)| (*saga, known.clone())).collect();
        let (outcomes, writes) =
            decide(batch, Look { sagas, numbers, ..Look::default() }, takes_work, NUMBER_MAX);
        let is_done = |outcome: &Outcome| {
            matches!(
                outcome,
                Outcome::Submitted(Submitted::Created(_)) | Outcome::Advanced(Advanced::Committed)
            )
        };
        // What has to be locked is locked by writing its row.
        let has_row = |saga: &i64| writes.rows.contains_key(&saga.unsigned_abs());
        let is_expected = outcomes.iter().all(is_done) && names.locked.iter().all(has_row);
        is_expected.then_some(Self { outcomes, writes, moved, names })
    }

    /// With the numbers that new sagas have got.
    fn outcomes(self, numbers: &[i64]) -> Vec<Outcome> {
        let mut numbers = numbers.iter().map(|number| number.unsigned_abs());
        let numbered = |outcome| match outcome {
            Outcome::Submitted(Submitted::Created(_)) => Outcome::Submitted(Submitted::Created(
                numbers.next().expect("invariant: each new saga has got a number"),
            )),
            other @ (Outcome::Submitted(_) | Outcome::Advanced(_) | Outcome::Failed(_)) => other,
        };
        self.outcomes.into_iter().map(numbered).collect()
    }
}

/// The number of a new saga, from 0, as long as it has none: those that are given count up from 1, and never come that far.
fn standing_in(nth: usize) -> u64 {
    NUMBER_MAX - u64::try_from(nth).unwrap_or(u64::MAX)
}

/// What the function is given.
#[derive(Debug, Default)]
struct Parameters {
    appended: Records,
    rows: Records,
    let_go: Vec<i64>,
    ids: Vec<String>,
    names: Vec<Vec<u8>>,
    sagas: Records,
    entries: Records,
    released: Vec<i64>,
    claims: Records,
}

impl Parameters {
    fn of(expected: &Expected) -> Result<Self, Error> {
        let Expected { outcomes: _, writes, moved, names } = expected;
        let Writes { sagas, adopted: _, entries, released, claims, answers: _, rows } = writes;
        let new = names.ids.len();
        // As the function has them: those that are there by their numbers, new ones by their places, -1, -2, …
        let saga = |number: u64| match NUMBER_MAX - number.min(NUMBER_MAX) {
            nth if nth < u64::try_from(new).unwrap_or(u64::MAX) => Ok(-1 - sought(nth)),
            _ => int(number),
        };
        let mut all = Self {
            let_go: names.let_go.clone(),
            ids: names.ids.clone(),
            names: names.claims.clone(),
            ..Self::default()
        };
        for (number, (id, after)) in moved {
            let (number, after) = (int(*number)?, int(*after)?);
            match rows.get(&number.unsigned_abs()) {
                None => drop(all.appended.add().int(number).text(id.as_str()).int(after)),
                Some((row, seq)) => {
                    let record = all.rows.add().int(number).text(id.as_str()).int(after);
                    times(state(record, row, *seq)?, row)?;
                }
            }
        }
        for (row, fingerprint) in sagas.values() {
            let record =
                all.sagas.add().int(-saga(row.rowid)?).text(row.id.as_str()).text(fingerprint.as_str());
            let record =
                record.text(row.saga.as_str()).int(int(row.definition_version)?).text(row.digest.as_str());
            let record = state(record, row, row.seq)?.int(row.created_at.0);
            times(record, row)?;
        }
        for (number, entry, nonce) in entries {
            let record = all.entries.add().int(saga(*number)?).int(int(entry.seq)?).int(nonce.cast_signed());
            record.int(entry.at.0).flag(entry.keep).bytes(&entry.body);
        }
        all.released = released.iter().map(|number| int(*number)).collect::<Result<_, _>>()?;
        for (name, claim) in claims {
            all.claims.add().bytes(name.as_bytes()).int(saga(claim.saga)?).int(claim.since.0);
        }
        Ok(all)
    }

    fn list(&self) -> [&(dyn ToSql + Sync); 9] {
        let Self { appended, rows, let_go, ids, names, sagas, entries, released, claims } = self;
        [appended, rows, let_go, ids, names, sagas, entries, released, claims]
    }
}

/// The columns of a row that can change and come before when it was submitted.
fn state<'a>(record: Record<'a>, row: &Row, seq: u64) -> Result<Record<'a>, Error> {
    let record = record.text(row.status.as_str()).text(row.business_state.as_str()).int(int(seq)?);
    let record = record.text(row.step.as_deref()).text(row.operation.as_deref());
    let record = record.text(row.error_class.as_deref()).text(row.reason.as_deref());
    Ok(record.int(i64::from(row.contradictions)).flag(row.overdue))
}

/// Those behind it.
fn times<'a>(record: Record<'a>, row: &Row) -> Result<Record<'a>, Error> {
    let time = |at: Option<Time>| at.map(|at| at.0);
    let record = record.int(row.updated_at.0).int(time(row.ended_at)).int(time(row.due_at));
    let (node, epoch) = row.owner.as_ref().map(|(node, epoch)| (node.as_str(), *epoch)).unzip();
    Ok(record.text(node).int(epoch.map(int).transpose()?))
}
