//! The rules, the same for each database: `docs/inbox.md` tells them step by step.

use serde_json::Value;

use crate::desk::{Desk, Taking};
use crate::record::{Operation, Settled, State};
use crate::{Action, Answer, Begun, Compensation, Error, Key, Outcome, Ticket};

/// Takes the key of an action, or finds the answer that is stored.
pub(crate) async fn action<D: Desk>(desk: &mut D, call: &Action) -> Result<Begun, Error> {
    let Action { key, request, keep } = call;
    let row = Taking { key, operation: Operation::Action, action_key: None, request, keep: *keep };
    // The insert comes before anything is looked at: of two calls, and of a call and its compensation, the constraint picks one.
    if !desk.take(&row).await? {
        return stored(desk, &row).await;
    }
    desk.mark().await?;
    Ok(Begun::First(Ticket { key: key.clone(), undoes: None, fact: Value::Null }))
}

/// Takes the key of a compensation if there is something to undo, else sees to it that there never will be.
pub(crate) async fn compensation<D: Desk>(desk: &mut D, call: &Compensation) -> Result<Begun, Error> {
    let Compensation { key, action_key, request, keep } = call;
    // The action's row is first for everyone, so that whatever concerns one action stands in one queue, and no two wait for each other.
    desk.seal(action_key, *keep).await?;
    let Some(action) = desk.read(action_key).await? else {
        return Err(Error::Gone { key: action_key.to_string() });
    };
    if action.operation != Operation::Action {
        return Err(Error::Different { key: action_key.to_string() });
    }
    let operation = Operation::Compensation;
    let row = Taking { key, operation, action_key: Some(action_key), request, keep: *keep };
    if !desk.take(&row).await? {
        return stored(desk, &row).await;
    }
    let undone = match (action.state, action.is_undone) {
        (State::Running, _) => return Err(Error::Unfinished { key: action_key.to_string() }),
        (State::Sealed | State::Rejected, _) => false,
        // Under another key, by a person's leave: it is not undone twice.
        (State::Done, true) => true,
        (State::Done, false) => {
            desk.mark().await?;
            let undoes = Some(action_key.clone());
            return Ok(Begun::First(Ticket { key: key.clone(), undoes, fact: action.into_fact() }));
        }
    };
    Ok(Begun::Answered(keep_answer(desk, key, Settled::undone(undone)?).await?))
}

/// Keeps what an effect came to. What a refused one wrote is rolled back, while the row of its key stays.
pub(crate) async fn settle<D: Desk>(desk: &mut D, ticket: Ticket, outcome: Outcome) -> Result<Answer, Error> {
    let Ticket { key, undoes, fact: _ } = ticket;
    match (outcome, undoes) {
        (Outcome::Rejected { reason }, _) => {
            desk.back_to_mark().await?;
            keep_answer(desk, &key, Settled::rejected(reason)?).await
        }
        (Outcome::Done(fact), None) => keep_answer(desk, &key, Settled::acted(fact)?).await,
        (Outcome::Done(fact), Some(action_key)) => {
            let settled = Settled::undid(fact)?;
            if !desk.undone(&action_key, &key).await? {
                return Err(Error::Gone { key: action_key.to_string() });
            }
            keep_answer(desk, &key, settled).await
        }
    }
}

async fn keep_answer<D: Desk>(desk: &mut D, key: &Key, settled: Settled) -> Result<Answer, Error> {
    if !desk.settle(key, &settled).await? {
        return Err(Error::Gone { key: key.to_string() });
    }
    Ok(settled.into_answer())
}

async fn stored<D: Desk>(desk: &mut D, row: &Taking<'_>) -> Result<Begun, Error> {
    match desk.read(row.key).await? {
        Some(record) => record.answer_to(row.operation, row.action_key, row.request).map(Begun::Answered),
        None => Err(Error::Gone { key: row.key.to_string() }),
    }
}
