//! Transactions of sqlx in PostgreSQL, in the database of the store.

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::{Postgres, Transaction as Sqlx};

use super::pending::{committed, not_submitted, rolled_back, unsure};
use super::port::sealed::Sealed;
use super::{CommitFailed, NotSubmitted, Pending, Submission, SubmitError, Transaction};
use crate::locks::{Covered, Held};

const SUBMIT: &str = "SELECT amends.submit($1, $2, $3::text::json)";

const CHECK_LOCK: &str = "SELECT amends.check_lock($1, $2)";

/// What `amends.check_lock` raises when the lock is not held under the token.
const LOCK_LOST: &str = "55000";
/// What `amends.submit` raises when the id is taken, or was refused.
const ID_TAKEN: &str = "23505";

impl Sealed for Sqlx<'_, Postgres> {}

impl Transaction for Sqlx<'_, Postgres> {
    type Answer<'a, R: 'a>
        = BoxFuture<'a, R>
    where
        Self: 'a;

    fn submit(
        &mut self,
        submission: Result<Submission, SubmitError>,
    ) -> BoxFuture<'_, Result<(), SubmitError>> {
        Box::pin(async move { submit(self, &submission?).await })
    }

    fn submit_held<'a>(
        mut self,
        held: Held,
        submission: Result<Submission, SubmitError>,
    ) -> BoxFuture<'a, Result<Pending<Self>, NotSubmitted>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let error = match submission {
                Err(error) => error,
                Ok(submission) => match prove(&mut self, &held, &submission).await {
                    Ok(()) => return Ok(Pending::new(self, held, submission)),
                    Err(error) => error,
                },
            };
            roll_back(self).await;
            Err(not_submitted(held, error))
        })
    }

    fn commit_pending<'a>(pending: Pending<Self>) -> BoxFuture<'a, Result<Covered, CommitFailed>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let (mut tx, held, submission) = pending.into_parts();
            // A transaction in which a statement has failed answers COMMIT with a rollback and no error: this finds it.
            if let Err(error) = prove(&mut tx, &held, &submission).await {
                roll_back(tx).await;
                return Err(CommitFailed::RolledBack(not_submitted(held, error)));
            }
            match tx.commit().await {
                Ok(()) => Ok(committed(held, submission)),
                Err(error) if was_refused(&error) => {
                    Err(CommitFailed::RolledBack(not_submitted(held, SubmitError::Database(error.into()))))
                }
                Err(error) => Err(unsure(held, submission, error.into())),
            }
        })
    }

    fn roll_back_pending<'a>(pending: Pending<Self>) -> BoxFuture<'a, Held>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let (tx, held, _) = pending.into_parts();
            roll_back(tx).await;
            rolled_back(held)
        })
    }
}

/// Looks whether the lock is held, which keeps it from being taken until the transaction ends, and writes the submission, or finds that it is there.
async fn prove(tx: &mut Sqlx<'_, Postgres>, held: &Held, submission: &Submission) -> Result<(), SubmitError> {
    if !held.is_fenced_by_resource() {
        let token = held.token();
        let looked =
            sqlx::query(CHECK_LOCK).bind(held.name()).bind(token.cast_signed()).execute(&mut **tx).await;
        match looked {
            Ok(_) => {}
            Err(error) if code(&error).as_deref() == Some(LOCK_LOST) => {
                return Err(SubmitError::LockLost { token });
            }
            Err(error) => return Err(SubmitError::Database(error.into())),
        }
    }
    submit(tx, submission).await
}

async fn submit(tx: &mut Sqlx<'_, Postgres>, submission: &Submission) -> Result<(), SubmitError> {
    let Submission { saga, id, input, .. } = submission;
    let submitted = sqlx::query(SUBMIT).bind(saga).bind(id.as_str()).bind(input).execute(&mut **tx).await;
    match submitted {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(ID_TAKEN) => {
            Err(SubmitError::Refused { id: id.clone(), reason: error.message().to_owned() })
        }
        Err(error) => Err(SubmitError::Database(error.into())),
    }
}

/// Rolls back. Should that fail, the connection is lost, and the server rolls back by itself.
async fn roll_back(tx: Sqlx<'_, Postgres>) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!("the connection was lost before the rollback: {error}");
    }
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Into::into)
}

/// Whether a COMMIT that failed so was rolled back: the server answered with an ordinary error. One that ends the connection may come after the
/// commit.
fn was_refused(error: &sqlx::Error) -> bool {
    let error = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| match error.severity() {
        PgSeverity::Error => true,
        PgSeverity::Panic
        | PgSeverity::Fatal
        | PgSeverity::Warning
        | PgSeverity::Notice
        | PgSeverity::Debug
        | PgSeverity::Info
        | PgSeverity::Log => false,
    })
}
