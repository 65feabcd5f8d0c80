//! The rules, the same for each database: `docs/inbox.md` tells them step by step.

use serde_json::Value;

use crate::desk::{Desk, Taking};
use crate::record::{Operation, Settled, State};
use crate::{Action, Answer, BoxError, Compensation, Error, Key, Outcome};

/// Carries an action out, or gives the answer that is stored.
pub(crate) async fn action<D: Desk>(
    desk: &mut D,
    call: &Action,
    effect: impl AsyncFnOnce(&mut D::Connection) -> Result<Outcome, BoxError>,
) -> Result<Answer, Error> {
    let Action { key, request, keep } = call;
    let row = Taking { key, operation: Operation::Action, action_key: None, request, keep: *keep };
    // The insert comes before anything is looked at: of two calls, and of a call and its compensation, the constraint picks one.
    if !desk.take(&row).await? {
        return stored(desk, &row).await;
    }
    let outcome = carry_out(desk, effect).await?;
    settle(desk, key, Settled::of_action(outcome)?).await
}

/// Undoes an action once, or sees to it that it never runs.
pub(crate) async fn compensation<D: Desk>(
    desk: &mut D,
    call: &Compensation,
    undo: impl AsyncFnOnce(&mut D::Connection, &Value) -> Result<Outcome, BoxError>,
) -> Result<Answer, Error> {
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
    let settled = match (action.state, action.is_undone) {
        (State::Running, _) => return Err(Error::Unfinished { key: action_key.to_string() }),
        (State::Sealed | State::Rejected, _) => Settled::undone(false)?,
        // Under another key, by a person's leave: it is not undone twice.
        (State::Done, true) => Settled::undone(true)?,
        (State::Done, false) => {
            let fact = action.into_fact();
            let outcome = carry_out(desk, async |connection| undo(connection, &fact).await).await?;
            let settled = Settled::of_compensation(outcome)?;
            if settled.state == State::Done && !desk.undone(action_key, key).await? {
                return Err(Error::Gone { key: action_key.to_string() });
            }
            settled
        }
    };
    settle(desk, key, settled).await
}

/// Runs an effect. What a refused one wrote is rolled back, while the row of its key stays.
async fn carry_out<D: Desk>(
    desk: &mut D,
    effect: impl AsyncFnOnce(&mut D::Connection) -> Result<Outcome, BoxError>,
) -> Result<Outcome, Error> {
    desk.mark().await?;
    let outcome = effect(desk.connection()).await.map_err(Error::Effect)?;
    match outcome {
        Outcome::Done(_) => {}
        Outcome::Rejected { .. } => desk.back_to_mark().await?,
    }
    Ok(outcome)
}

async fn settle<D: Desk>(desk: &mut D, key: &Key, settled: Settled) -> Result<Answer, Error> {
    if !desk.settle(key, &settled).await? {
        return Err(Error::Gone { key: key.to_string() });
    }
    Ok(settled.into_answer())
}

async fn stored<D: Desk>(desk: &mut D, row: &Taking<'_>) -> Result<Answer, Error> {
    match desk.read(row.key).await? {
        Some(record) => record.answer_to(row.operation, row.action_key, row.request),
        None => Err(Error::Gone { key: row.key.to_string() }),
    }
}
