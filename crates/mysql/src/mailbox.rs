//! Inputs for sagas that somebody else drives.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Mail, Mailbox, NodeLease};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::Call;
use crate::rows::{bytes, bytes_opt, due, limit, now_ms, number, number_opt, text};
use crate::session::{Answer, Limits};
use crate::sql::{Script, Texts, fill};

// The saga's row is locked either way: this waits for a commit that lets it go, which would not see this mail, and has the commit wait for it.
const SAGA: &str = "SELECT rowid, owner_epoch FROM amends_saga WHERE id = ? FOR UPDATE";

const KNOWN: &str =
    "SELECT m.id FROM amends_mail m JOIN amends_saga s ON s.rowid = m.saga WHERE s.id = ? AND m.input_id = ?";

const POST: &str =
    concat!("INSERT INTO amends_mail (saga, input_id, body, posted_at) VALUES (?, ?, ?, ", now_ms!(), ")");

// Nobody's sagas are woken; an owner finds its mail by itself, and what a dead owner had is taken over.
const WAKE: &str = concat!(
    "UPDATE amends_saga SET prune_at = NULL, due_at = COALESCE(LEAST(due_at, ",
    now_ms!(),
    "), ",
    now_ms!(),
    ") WHERE rowid = ? AND owner_epoch IS NULL"
);

const WAITING: &str = "SELECT m.id, m.input_id, m.body FROM amends_mail m
    WHERE m.waiting_saga = (SELECT rowid FROM amends_saga WHERE id = ?) ORDER BY m.id LIMIT ?";

// What waits is little; what a node owns may be much.
const MINE: &str = "SELECT DISTINCT s.rowid, s.id
    FROM amends_mail m FORCE INDEX (mail_waiting) STRAIGHT_JOIN amends_saga s ON s.rowid = m.waiting_saga
    WHERE m.waiting_saga IS NOT NULL AND s.owner_epoch = ? ORDER BY s.rowid LIMIT ?";

const ANSWER: &str = "SELECT answer FROM amends_mail WHERE id = ?";

#[async_trait]
impl Mailbox for MySqlStore {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], _: Time) -> Result<Option<u64>, Error> {
        let id = id.as_str();
        let known = fill(KNOWN, &[id.into(), input_id.into()]);
        // One input is often posted again: this costs no write.
        if let Some(row) = self.pool.query_opt(Call::Reads, &known).await? {
            return number(&row, 0).map(Some);
        }
        let look = Script::of(&["START TRANSACTION", &fill(SAGA, &[id.into()]), &known]);
        let plan = |answers: Vec<Answer>, limits: Limits| {
            let first = |nth: usize| answers.get(nth).and_then(|answer| answer.rows.first());
            let mut texts = Texts::new(limits.packet_max);
            let (Some(saga), None) = (first(1), first(2)) else {
                return Ok((first(2).map(|row| number(row, 0)).transpose()?, texts));
            };
            let rowid = number(saga, 0)?;
            texts.push(&fill(POST, &[rowid.into(), input_id.into(), body.into()]))?;
            if number_opt(saga, 1)?.is_none() {
                texts.push(&fill(WAKE, &[rowid.into()]))?;
            }
            Ok((None, texts))
        };
        let (known, answers) = self.pool.transact(&look, plan).await?;
        Ok(known.or(answers.first().map(|posted| posted.number)))
    }

    async fn waiting(&self, id: &SagaId, max: usize) -> Result<Vec<Mail>, Error> {
        let waiting = fill(WAITING, &[id.as_str().into(), limit(max).into()]);
        let found = self.pool.query(Call::Reads, &waiting).await?;
        found
            .iter()
            .map(|row| {
                Ok(Mail { id: number(row, 0)?, input_id: text(row, 1)?, body: bytes(row, 2)?.to_vec() })
            })
            .collect()
    }

    async fn mine(&self, lease: &NodeLease, max: usize) -> Result<Vec<Due>, Error> {
        let mine = fill(MINE, &[lease.epoch.into(), limit(max).into()]);
        self.pool.query(Call::Reads, &mine).await?.iter().map(due).collect()
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        let row = self.pool.query_opt(Call::Reads, &fill(ANSWER, &[mail.into()])).await?;
        Ok(row.as_ref().map(|row| bytes_opt(row, 0)).transpose()?.flatten().map(<[u8]>::to_vec))
    }
}
