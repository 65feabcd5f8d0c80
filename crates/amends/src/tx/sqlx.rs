//! Transactions of sqlx, in the database of the store. Their answers are futures.

use futures_util::future::BoxFuture;
use sqlx::{Database, Transaction as Sqlx};
use sqlx_core::transaction::TransactionManager as _;

use super::pending::{committed, not_submitted, rolled_back, unsure};
use super::port::sealed::Sealed;
use super::{CommitFailed, NotSubmitted, Pending, Submission, SubmitError, Transaction};
use crate::locks::{Covered, Held};

/// What differs between databases.
pub trait Dialect: Database {
    /// Whether the lock is held under the token. If so, nobody else can take it before the transaction ends.
    fn check_lock<'t>(
        tx: &'t mut Sqlx<'_, Self>,
        name: &'t str,
        token: u64,
    ) -> BoxFuture<'t, Result<bool, sqlx::Error>>;

    /// Writes the submission, or finds that it is there.
    fn submit<'t>(
        tx: &'t mut Sqlx<'_, Self>,
        submission: &'t Submission,
    ) -> BoxFuture<'t, Result<(), sqlx::Error>>;

    /// Why a submission was refused, if the error says that.
    fn refusal(error: &sqlx::Error) -> Option<String>;

    /// Whether a COMMIT that failed so was certainly rolled back.
    fn was_rolled_back(error: &sqlx::Error) -> bool;
}

impl<D: Dialect> Sealed for Sqlx<'_, D> {}

impl<D: Dialect> Transaction for Sqlx<'_, D> {
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
                // Its commit would only release a savepoint.
                Ok(_) if depth(&self) != 1 => SubmitError::Nested,
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
            // In PostgreSQL a transaction in which a statement has failed answers COMMIT with a rollback and no error: this finds it.
            if let Err(error) = prove(&mut tx, &held, &submission).await {
                roll_back(tx).await;
                return Err(CommitFailed::RolledBack(not_submitted(held, error)));
            }
            match tx.commit().await {
                Ok(()) => Ok(committed(held, submission)),
                Err(error) if D::was_rolled_back(&error) => {
                    let error = SubmitError::Database(error.into());
                    Err(CommitFailed::RolledBack(not_submitted(held, error)))
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

async fn prove<D: Dialect>(
    tx: &mut Sqlx<'_, D>,
    held: &Held,
    submission: &Submission,
) -> Result<(), SubmitError> {
    if !held.is_fenced_by_resource() {
        let token = held.token();
        match D::check_lock(tx, held.name(), token).await {
            Ok(true) => {}
            Ok(false) => return Err(SubmitError::LockLost { token }),
            Err(error) => return Err(SubmitError::Database(error.into())),
        }
    }
    submit(tx, submission).await
}

async fn submit<D: Dialect>(tx: &mut Sqlx<'_, D>, submission: &Submission) -> Result<(), SubmitError> {
    D::submit(tx, submission).await.map_err(|error| match D::refusal(&error) {
        Some(reason) => SubmitError::Refused { id: submission.id.clone(), reason },
        None => SubmitError::Database(error.into()),
    })
}

/// How many transactions are open within each other, of which all but the first are savepoints.
fn depth<D: Dialect>(tx: &Sqlx<'_, D>) -> usize {
    D::TransactionManager::get_transaction_depth(tx)
}

/// Rolls back. Should that fail, the connection is lost, and the server rolls back by itself.
async fn roll_back<D: Dialect>(tx: Sqlx<'_, D>) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!("the connection was lost before the rollback: {error}");
    }
}
