//! The second round trip of a batch: all that it writes, and COMMIT behind it.

use amends_core::Time;
use amends_store::batch::Writes;
use amends_store::{Error, Kind, Row};
use futures_util::future::{join, join_all};
use tokio_postgres::types::ToSql;

use crate::error::{Call, is_answer, is_race, lost, store_error};
use crate::pool::Conn;
use crate::rows::{int, sought, text};

const SAGAS: &str = "INSERT INTO amends.saga (rowid, id, fingerprint, saga, definition_version, digest, status, business_state, seq, step,
        operation, error_class, reason, contradictions, overdue, created_at, updated_at, ended_at, due_at, owner_node, owner_epoch)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[],
        $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::boolean[], $16::bigint[], $17::bigint[],
        $18::bigint[], $19::bigint[], $20::text[], $21::bigint[])";

const ENTRIES: &str = "INSERT INTO amends.entry (saga, seq, nonce, at, keep, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bytea[])";

const ADOPTED: &str = "DELETE FROM amends.submission WHERE number = ANY($1::bigint[])";

const RELEASE: &str = "DELETE FROM amends.claim WHERE saga = ANY($1::bigint[])";

const CLAIMS: &str = "INSERT INTO amends.claim (name, saga, since) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[])";

const ANSWERS: &str = "UPDATE amends.mail m SET answer = u.answer
    FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) u (id, saga, answer)
    WHERE m.id = u.id AND m.saga = u.saga AND m.answer IS NULL";

const ROWS: &str = "UPDATE amends.saga s SET status = u.status, business_state = u.business_state, seq = greatest(s.seq, u.seq), step = u.step,
        operation = u.operation, error_class = u.error_class, reason = u.reason, contradictions = u.contradictions, overdue = u.overdue,
        updated_at = u.updated_at, ended_at = u.ended_at, due_at = u.due_at, owner_node = u.owner_node, owner_epoch = u.owner_epoch,
        pruned = false
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[],
        $10::boolean[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::bigint[])
        u (rowid, status, business_state, seq, step, operation, error_class, reason, contradictions, overdue, updated_at, ended_at, due_at,
        owner_node, owner_epoch)
    WHERE s.rowid = u.rowid";

/// Bytes of bodies and answers in one batch. Beyond 1 GiB a statement could not be sent at all, but the COMMIT behind it could.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// A column of an array a row.
type Column = Box<dyn ToSql + Sync + Send>;

/// How a transaction ended that did not commit.
#[derive(Debug)]
pub(crate) enum Undone {
    /// Others were quicker; it has to be tried again from the start.
    Race(Error),
    /// It failed: nothing is written.
    Failed(Error),
    /// Whether it committed is not known.
    Unknown(Error),
}

/// Writes and commits. The connection is in no transaction afterwards, unless the answer is lost.
pub(crate) async fn write(conn: &mut Conn<'_>, writes: &Writes) -> Result<(), Undone> {
    let mut statements = Vec::new();
    for (sql, columns) in columns(writes).map_err(Undone::Failed)? {
        statements.push((conn.prepare(sql).await.map_err(Undone::Failed)?, columns));
    }
    let params: Vec<Vec<&(dyn ToSql + Sync)>> = statements
        .iter()
        .map(|(_, columns)| columns.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect())
        .collect();
    let client = conn.client();
    // Sent one behind the other: the first poll of each sends it. If one fails, the server undoes all and takes COMMIT for ROLLBACK.
    let written =
        statements.iter().zip(&params).map(|((statement, _), params)| client.execute(statement, params));
    let (written, committed) = join(join_all(written), client.batch_execute("COMMIT")).await;
    ended(written.into_iter().find_map(Result::err), committed)
}

/// How a transaction ended, by the first error of what it wrote and the answer to the COMMIT that was sent behind.
pub(crate) fn ended(
    failed: Option<tokio_postgres::Error>,
    committed: Result<(), tokio_postgres::Error>,
) -> Result<(), Undone> {
    if let Some(error) = failed {
        return Err(match error.as_db_error() {
            // The statement was refused, or the session ended with it: COMMIT was not carried out.
            Some(_) if is_race(&error) => Undone::Race(store_error(&error, Call::Reads)),
            Some(_) => Undone::Failed(store_error(&error, Call::Reads)),
            None => Undone::Unknown(store_error(&error, Call::Writes)),
        });
    }
    committed.map_err(|error| unmade(&error))
}

/// What an error says about a transaction that was to be committed by what it answers.
pub(crate) fn unmade(error: &tokio_postgres::Error) -> Undone {
    match error.as_db_error() {
        Some(answer) if is_answer(answer) && is_race(error) => Undone::Race(store_error(error, Call::Reads)),
        Some(answer) if is_answer(answer) => Undone::Failed(store_error(error, Call::Reads)),
        Some(answer) => Undone::Unknown(lost(&answer.to_string())),
        None => Undone::Unknown(store_error(error, Call::Writes)),
    }
}

/// An error if it is too much to be sent.
pub(crate) fn size(writes: &Writes) -> Result<(), Error> {
    let bodies = writes.entries.iter().map(|(_, entry, _)| entry.body.len());
    let bytes: usize = bodies.chain(writes.answers.values().map(Vec::len)).sum();
    if bytes <= BATCH_BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("a batch of {bytes} bytes is more than the {BATCH_BYTES_MAX} that are written at once");
    Err(Error::new(Kind::Refused, message))
}

/// The statements that there is something for, in the order in which all batches run them.
fn columns(writes: &Writes) -> Result<Vec<(&'static str, Vec<Column>)>, Error> {
    let Writes { sagas, adopted, entries, released, claims, answers, rows } = writes;
    size(writes)?;
    let mut all = Vec::new();
    if !sagas.is_empty() {
        all.push((SAGAS, saga_columns(sagas.values())?));
    }
    if !adopted.is_empty() {
        all.push((ADOPTED, vec![column(adopted, |number| int(*number))?]));
    }
    if !entries.is_empty() {
        let columns: Vec<Column> = vec![
            column(entries, |(saga, _, _)| int(*saga))?,
            column(entries, |(_, entry, _)| int(entry.seq))?,
            column(entries, |(_, _, nonce)| Ok(nonce.cast_signed()))?,
            column(entries, |(_, entry, _)| Ok(entry.at.0))?,
            column(entries, |(_, entry, _)| Ok(entry.keep))?,
            column(entries, |(_, entry, _)| Ok(entry.body.clone()))?,
        ];
        all.push((ENTRIES, columns));
    }
    if !released.is_empty() {
        all.push((RELEASE, vec![column(released, |saga| int(*saga))?]));
    }
    if !claims.is_empty() {
        let columns: Vec<Column> = vec![
            column(claims, |(name, _)| Ok(name.clone().into_bytes()))?,
            column(claims, |(_, claim)| int(claim.saga))?,
            column(claims, |(_, claim)| Ok(claim.since.0))?,
        ];
        all.push((CLAIMS, columns));
    }
    if !answers.is_empty() {
        let columns: Vec<Column> = vec![
            column(answers, |((mail, _), _)| Ok(sought(*mail)))?,
            column(answers, |((_, saga), _)| int(*saga))?,
            column(answers, |(_, answer)| Ok(answer.clone()))?,
        ];
        all.push((ANSWERS, columns));
    }
    if !rows.is_empty() {
        let mut columns: Vec<Column> = vec![column(rows, |(saga, _)| int(*saga))?];
        columns.extend(changing(rows.values().map(|(row, seq)| (row, *seq)))?);
        all.push((ROWS, columns));
    }
    Ok(all)
}

fn saga_columns<'a>(sagas: impl Iterator<Item = &'a (Row, String)>) -> Result<Vec<Column>, Error> {
    let sagas: Vec<&(Row, String)> = sagas.collect();
    let mut columns: Vec<Column> = vec![
        column(&sagas, |(row, _)| int(row.rowid))?,
        column(&sagas, |(row, _)| Ok(row.id.to_string()))?,
        column(&sagas, |(_, fingerprint)| Ok(text(fingerprint)))?,
        column(&sagas, |(row, _)| Ok(text(&row.saga)))?,
        column(&sagas, |(row, _)| int(row.definition_version))?,
        column(&sagas, |(row, _)| Ok(text(&row.digest)))?,
    ];
    let mut changing = changing(sagas.iter().map(|(row, _)| (row, row.seq)))?;
    // When it was submitted stands before when its row was written.
    let rest = changing.split_off(9);
    columns.extend(changing);
    columns.push(column(&sagas, |(row, _)| Ok(row.created_at.0))?);
    columns.extend(rest);
    Ok(columns)
}

/// The columns of a row that can change, in their order.
fn changing<'a>(rows: impl Iterator<Item = (&'a Row, u64)>) -> Result<Vec<Column>, Error> {
    let rows: Vec<(&Row, u64)> = rows.collect();
    let optional = |value: &Option<String>| value.as_deref().map(text);
    let time = |at: Option<Time>| at.map(|at| at.0);
    Ok(vec![
        column(&rows, |(row, _)| Ok(text(&row.status)))?,
        column(&rows, |(row, _)| Ok(text(&row.business_state)))?,
        column(&rows, |(_, seq)| int(*seq))?,
        column(&rows, |(row, _)| Ok(optional(&row.step)))?,
        column(&rows, |(row, _)| Ok(optional(&row.operation)))?,
        column(&rows, |(row, _)| Ok(optional(&row.error_class)))?,
        column(&rows, |(row, _)| Ok(optional(&row.reason)))?,
        column(&rows, |(row, _)| Ok(i64::from(row.contradictions)))?,
        column(&rows, |(row, _)| Ok(row.overdue))?,
        column(&rows, |(row, _)| Ok(row.updated_at.0))?,
        column(&rows, |(row, _)| Ok(time(row.ended_at)))?,
        column(&rows, |(row, _)| Ok(time(row.due_at)))?,
        column(&rows, |(row, _)| Ok(row.owner.as_ref().map(|(node, _)| text(node))))?,
        column(&rows, |(row, _)| row.owner.as_ref().map(|(_, epoch)| int(*epoch)).transpose())?,
    ])
}

fn column<I: IntoIterator, T>(
    rows: I,
    value: impl FnMut(I::Item) -> Result<T, Error>,
) -> Result<Column, Error>
where
    Vec<T>: ToSql + Sync + Send + 'static,
{
    let values: Vec<T> = rows.into_iter().map(value).collect::<Result<_, _>>()?;
    Ok(Box::new(values))
}
