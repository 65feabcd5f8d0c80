//! The first round trip of a batch: locks what it moves, and looks at all that its items depend on.

use amends_core::Time;
use amends_store::batch::{Arrived, Held, Look};
use amends_store::{Advance, Error, Item};
use futures_util::future::join_all;
use tokio_postgres::types::ToSql;

use crate::error::{Call, store_error};
use crate::pool::Conn;
use crate::rows::{self, columns, get, number, sought};

/// A batch's isolation is said here: what a database sets by default may be another one. All its statements seek a few rows by their keys:
/// to think of a plan for each time would cost more than to run it, and one that was made while a table was small must not read all of it later.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off;
    SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";

// In the order of their numbers, so that two batches never wait for each other. What the next statements see comes after these locks.
const LOCK: &str = "SELECT rowid, id FROM amends.saga WHERE rowid = ANY($1) ORDER BY rowid FOR NO KEY UPDATE";

const LAST: &str =
    "SELECT s.rowid, greatest(s.seq, (SELECT max(e.seq) FROM amends.entry e WHERE e.saga = s.rowid))
    FROM amends.saga s WHERE s.rowid = ANY($1)";

// Who only appends needs no lock: whoever was quicker since has written an entry of the same number, and the index on it tells.
const APPENDED: &str =
    "SELECT s.rowid, s.id, greatest(s.seq, (SELECT max(e.seq) FROM amends.entry e WHERE e.saga = s.rowid))
    FROM amends.saga s WHERE s.rowid = ANY($1)";

const KNOWN: &str = "SELECT id, fingerprint FROM amends.saga WHERE id = ANY($1)";

// Refused ones keep nobody from their id.
const ARRIVED: &str =
    "SELECT id, number, fingerprint FROM amends.submission WHERE id = ANY($1) AND due_at IS NOT NULL";

const CLAIMS: &str = concat!(
    "SELECT ",
    columns!(),
    ", c.name, c.since FROM amends.claim c JOIN amends.saga s ON s.rowid = c.saga WHERE c.name = ANY($1)"
);

// Another item of the batch may meet a claim that they take.
const TAKERS: &str = concat!("SELECT ", columns!(), " FROM amends.saga s WHERE s.rowid = ANY($1)");

const MAIL: &str =
    "SELECT saga, id, posted_at FROM amends.mail WHERE saga = ANY($1) AND answer IS NULL ORDER BY saga, id";

const NUMBERS: &str = "SELECT nextval('amends.saga_rowid') FROM generate_series(1, $1::bigint)";

/// What a batch names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) locked: Vec<i64>,
    appended: Vec<i64>,
    taking: Vec<i64>,
    pub(crate) let_go: Vec<i64>,
    pub(crate) ids: Vec<String>,
    pub(crate) claims: Vec<Vec<u8>>,
}

impl Names {
    pub(crate) fn of(batch: &[Item]) -> Self {
        let mut names = Self::default();
        for item in batch {
            let claims = match item {
                Item::Submit(submission) => {
                    names.ids.push(submission.row.id.to_string());
                    &submission.claims
                }
                Item::Advance(item) => {
                    let Advance { entries: _, row, release_claims, take_claims, mail, .. } = item;
                    let only_appends =
                        row.is_none() && !release_claims && take_claims.is_empty() && mail.is_empty();
                    let moved = if only_appends { &mut names.appended } else { &mut names.locked };
                    moved.push(sought(item.rowid));
                    if !item.take_claims.is_empty() {
                        names.taking.push(sought(item.rowid));
                    }
                    if item.row.as_ref().is_some_and(|row| row.owner.is_none()) {
                        names.let_go.push(sought(item.rowid));
                    }
                    &item.take_claims
                }
            };
            names.claims.extend(claims.iter().map(|claim| claim.clone().into_bytes()));
        }
        names
    }
}

/// Begins the batch's transaction. Nothing is written when it fails.
pub(crate) async fn look(conn: &mut Conn<'_>, batch: &[Item]) -> Result<Look, Error> {
    let names = Names::of(batch);
    let wanted = rows::limit(names.ids.len());
    let asked: [(&'static str, bool, &(dyn ToSql + Sync)); 9] = [
        (LOCK, names.locked.is_empty(), &names.locked),
        (LAST, names.locked.is_empty(), &names.locked),
        (APPENDED, names.appended.is_empty(), &names.appended),
        // What others commit in between is seen by the later ones alone: of a submission that is made at this moment not its claim without
        // itself, which would be its own holder, and not that it has left the transactions' table without where it went.
        (CLAIMS, names.claims.is_empty(), &names.claims),
        (ARRIVED, names.ids.is_empty(), &names.ids),
        (KNOWN, names.ids.is_empty(), &names.ids),
        (TAKERS, names.taking.is_empty(), &names.taking),
        (MAIL, names.let_go.is_empty(), &names.let_go),
        (NUMBERS, names.ids.is_empty(), &wanted),
    ];
    let (mut statements, mut which) = (Vec::new(), Vec::new());
    for (sql, is_needless, param) in asked {
        if !is_needless {
            statements.push((conn.prepare(sql).await?, vec![param]));
            which.push(sql);
        }
    }
    let client = conn.client();
    // Sent one behind the other, without waiting for answers in between: the first poll of each sends it.
    let begun = client.batch_execute(BEGIN);
    let answers = join_all(statements.iter().map(|(statement, params)| client.query(statement, params)));
    let (begun, answers) = futures_util::future::join(begun, answers).await;
    let sql = |e: tokio_postgres::Error| store_error(&e, Call::Reads);
    begun.map_err(sql)?;
    let mut look = Look::default();
    for (sql_text, answer) in which.into_iter().zip(answers) {
        for row in answer.map_err(sql)? {
            read(&mut look, sql_text, &row)?;
        }
    }
    look.numbers.reverse();
    Ok(look)
}

/// Reads one row of what a statement gave.
fn read(look: &mut Look, sql: &'static str, row: &tokio_postgres::Row) -> Result<(), Error> {
    match sql {
        LOCK => {
            look.sagas.insert(number(row, 0)?, (get(row, 1)?, 0));
        }
        APPENDED => {
            look.sagas.insert(number(row, 0)?, (get(row, 1)?, number(row, 2)?));
        }
        LAST => {
            let seq = number(row, 1)?;
            if let Some(saga) = look.sagas.get_mut(&number(row, 0)?) {
                saga.1 = seq;
            }
        }
        KNOWN => {
            look.known.insert(get(row, 0)?, get(row, 1)?);
        }
        ARRIVED => {
            let arrived = Arrived { number: number(row, 1)?, fingerprint: get(row, 2)? };
            look.arrived.insert(get(row, 0)?, arrived);
        }
        CLAIMS => {
            let holder = rows::row(row)?;
            let name = String::from_utf8_lossy(get(row, rows::COLUMN_COUNT)?).into_owned();
            let since = Time(get(row, rows::COLUMN_COUNT + 1)?);
            look.claims.insert(name, Held { saga: holder.rowid, since });
            look.rows.insert(holder.rowid, holder);
        }
        TAKERS => {
            let taker = rows::row(row)?;
            look.rows.insert(taker.rowid, taker);
        }
        MAIL => {
            let mail = (number(row, 1)?, Time(get(row, 2)?));
            look.mails.entry(number(row, 0)?).or_default().push(mail);
        }
        _ => look.numbers.push(number(row, 0)?),
    }
    Ok(())
}
