//! The second round trip of a batch: all that it writes, kind by kind.

use amends_store::batch::Writes;
use amends_store::{Error, Kind, Row};

use crate::intake;
use crate::look::NEW;
use crate::session::Limits;
use crate::sql::{Texts, Value, fill};

const SAGAS: &str = "INSERT INTO amends_saga (id, fingerprint, saga, definition_version, digest, created_at, status, business_state, seq, \
    step, operation, error_class, reason, contradictions, overdue, updated_at, ended_at, due_at, owner_node, owner_epoch, prune_at) VALUES ";

/// The numbers that the sagas were given follow each other.
const FIRST: &str = "SET @amends_first = LAST_INSERT_ID()";

const ENTRIES: &str = "INSERT INTO amends_entry (saga, seq, nonce, at, keep, body) VALUES ";

// The form with two names takes a hint: without it a small table is read as a whole, and rows of others are waited for.
const RELEASE: &str = "DELETE c FROM amends_claim c FORCE INDEX (claim_saga) WHERE c.saga IN (?)";

const CLAIMS: &str = "INSERT INTO amends_claim (name, saga, since) VALUES ";

const ANSWER: &str = "UPDATE amends_mail SET answer = ? WHERE id = ? AND saga = ? AND answer IS NULL";

// The rows are there, and locked: each is found by its number, and what it was submitted with is not looked at.
const ROWS: &str = "INSERT INTO amends_saga (rowid, id, fingerprint, saga, definition_version, digest, created_at, status, business_state, \
    seq, step, operation, error_class, reason, contradictions, overdue, updated_at, ended_at, due_at, owner_node, owner_epoch, prune_at) VALUES ";

const CHANGED: &str = " ON DUPLICATE KEY UPDATE status = VALUES(status), business_state = VALUES(business_state), \
    seq = GREATEST(seq, VALUES(seq)), step = VALUES(step), operation = VALUES(operation), error_class = VALUES(error_class), \
    reason = VALUES(reason), contradictions = VALUES(contradictions), overdue = VALUES(overdue), updated_at = VALUES(updated_at), \
    ended_at = VALUES(ended_at), due_at = VALUES(due_at), owner_node = VALUES(owner_node), owner_epoch = VALUES(owner_epoch), prune_at = VALUES(prune_at)";

/// Bytes of bodies and answers in one batch: as statements they are held in memory, twice as long.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// The statements that there is something for, in the order in which all batches run them.
pub(crate) fn texts(writes: &Writes, limits: Limits) -> Result<Texts, Error> {
    let Writes { sagas, entries, released, claims, answers, rows, adopted } = writes;
    let bytes = entries.iter().map(|(_, entry, _)| entry.body.len()).chain(answers.values().map(Vec::len));
    let bytes: usize = bytes.sum();
    if bytes > BATCH_BYTES_MAX {
        let message =
            format!("a batch of {bytes} bytes is more than the {BATCH_BYTES_MAX} that are written at once");
        return Err(Error::new(Kind::Refused, message));
    }
    let saga = |number: u64| match number.checked_sub(NEW) {
        Some(place) => Value::New(place.saturating_mul(limits.step)),
        None => Value::Unsigned(number),
    };
    let mut texts = Texts::new(limits.packet_max);
    if !sagas.is_empty() {
        // In the order of arrival, which is that of their numbers.
        let mut sagas: Vec<&(Row, String)> = sagas.values().collect();
        sagas.sort_unstable_by_key(|(row, _)| row.rowid);
        let rows: Vec<Vec<Value<'_>>> = sagas
            .into_iter()
            .map(|(row, fingerprint)| {
                let mut values = constant(row, fingerprint);
                values.extend(changing(row, row.seq));
                values
            })
            .collect();
        texts.push_rows(SAGAS, rows, "")?;
        if texts.statements() > 1 {
            // Numbers follow each other within one statement only.
            return Err(Error::new(
                Kind::Refused,
                "so many new sagas are more than the server takes at once",
            ));
        }
        texts.push(FIRST)?;
    }
    if !adopted.is_empty() {
        texts.push(&fill(intake::ADOPTED, &[Value::list(adopted.iter().copied())]))?;
    }
    let entries = entries.iter().map(|(number, entry, nonce)| {
        let body = entry.body.as_slice();
        vec![
            saga(*number),
            entry.seq.into(),
            (*nonce).into(),
            entry.at.into(),
            entry.keep.into(),
            body.into(),
        ]
    });
    texts.push_rows(ENTRIES, entries, "")?;
    if !released.is_empty() {
        texts.push(&fill(RELEASE, &[Value::list(released.iter().copied())]))?;
    }
    let claims = claims.iter().map(|(name, held)| vec![name.into(), saga(held.saga), held.since.into()]);
    texts.push_rows(CLAIMS, claims, "")?;
    for ((mail, saga), answer) in answers {
        texts.push(&fill(ANSWER, &[answer.as_slice().into(), (*mail).into(), (*saga).into()]))?;
    }
    let rows = rows.iter().map(|(number, (row, seq))| {
        let mut values = vec![(*number).into()];
        values.extend(["".into(), "".into(), "".into(), 0_u64.into(), "".into(), 0_u64.into()]);
        values.extend(changing(row, *seq));
        values
    });
    texts.push_rows(ROWS, rows, CHANGED)?;
    Ok(texts)
}

/// What a saga was submitted with, in the columns' order.
fn constant<'a>(row: &'a Row, fingerprint: &'a str) -> Vec<Value<'a>> {
    vec![
        row.id.as_str().into(),
        fingerprint.into(),
        (&row.saga).into(),
        row.definition_version.into(),
        (&row.digest).into(),
        row.created_at.into(),
    ]
}

/// What can change, in the columns' order.
pub(crate) fn changing(row: &Row, seq: u64) -> Vec<Value<'_>> {
    vec![
        (&row.status).into(),
        (&row.business_state).into(),
        seq.into(),
        (&row.step).into(),
        (&row.operation).into(),
        (&row.error_class).into(),
        (&row.reason).into(),
        u64::from(row.contradictions).into(),
        row.overdue.into(),
        row.updated_at.into(),
        row.ended_at.into(),
        row.due_at.into(),
        row.owner.as_ref().map(|(node, _)| node.as_str()).into(),
        row.owner.as_ref().map(|(_, epoch)| *epoch).into(),
        row.ended_at.filter(|_| row.owner.is_none() && row.due_at.is_none()).into(),
    ]
}
