//! From the engine's refusals to problems.

use amends_core::Problem as CoreProblem;
use amends_engine::Refused;
use amends_store::Holder;
use http::StatusCode;

use crate::App;
use crate::dto::{self, Stamp};
use crate::problem::{Held, Kind, Problem};

/// How soon a store that could not be used is worth another try.
const STORE_RETRY_MS: u64 = 1_000;

/// Turns a refusal into a problem.
pub(crate) async fn refuse(app: &App, refused: Refused) -> Problem {
    match refused {
        Refused::ClaimHeld(holder) => held(app, &holder).await,
        other => plain(other),
    }
}

/// Turns a refusal into a problem, without asking the engine for more.
fn plain(refused: Refused) -> Problem {
    let detail = refused.to_string();
    match refused {
        Refused::UnknownDefinition(_) => Problem::new(Kind::UnknownDefinition, detail),
        Refused::InvalidDefinition(found) => {
            Problem::new(Kind::InvalidDefinition, detail).with_problems(found)
        }
        Refused::DefinitionConflict { digest, .. } => {
            Problem::new(Kind::DefinitionConflict, detail).with_digest(digest)
        }
        Refused::MissingInput(path) => {
            Problem::malformed(detail).with_status(StatusCode::UNPROCESSABLE_ENTITY).at(path)
        }
        Refused::Malformed(_) => Problem::malformed(detail),
        Refused::InputConflict(_) => Problem::new(Kind::InputConflict, detail),
        Refused::ClaimHeld(_) => Problem::new(Kind::ClaimHeld, detail),
        Refused::UnknownSaga(_) => Problem::new(Kind::UnknownSaga, detail),
        Refused::Core { problem, .. } => core(problem, detail),
        Refused::Overloaded { retry_after_ms, .. } => {
            Problem::retry_later(Kind::Overloaded, detail, retry_after_ms)
        }
        Refused::Store(_) => Problem::retry_later(Kind::StoreUnavailable, detail, STORE_RETRY_MS),
    }
}

fn core(problem: CoreProblem, detail: String) -> Problem {
    let kind = match problem {
        CoreProblem::UnknownStep => Kind::UnknownStep,
        CoreProblem::WrongState => Kind::WrongState,
        CoreProblem::PastPivot => Kind::PastPivot,
        CoreProblem::StaleVersion => Kind::StaleVersion,
        CoreProblem::VersionRequired => Kind::VersionRequired,
        CoreProblem::ReasonRequired => Kind::ReasonRequired,
        CoreProblem::KeyExpired => Kind::KeyExpired,
        // The request can be read, but what it says does not fit the saga.
        CoreProblem::Malformed => {
            return Problem::malformed(detail).with_status(StatusCode::UNPROCESSABLE_ENTITY);
        }
    };
    Problem::new(kind, detail)
}

/// Names who holds a claim, where it is and since when. The row that came with the refusal may lag, so the holder is asked.
async fn held(app: &App, holder: &Holder) -> Problem {
    let (status, step) = match app.engine().saga(&holder.saga).await {
        Ok(view) => dto::place(&view),
        Err(_) => (holder.row.status.clone(), holder.row.step.clone()),
    };
    let since = Stamp(holder.since);
    let (claim, saga) = (&holder.claim, &holder.saga);
    let (kind, detail) = if dto::is_frozen(&status) {
        let what = format!("`{claim}` is frozen by {saga}, which is {status}, since {since}");
        (Kind::ClaimFrozen, format!("{what}; it stays so until that saga is settled or closed"))
    } else {
        (
            Kind::ClaimHeld,
            format!("`{claim}` is held by {saga} since {since}; try again when that saga has ended"),
        )
    };
    Problem::new(kind, detail).with_held(Held {
        claim: claim.clone(),
        holder: saga.to_string(),
        holder_status: status,
        step,
        since,
    })
}
