//! Repeating a transaction that the database ended for reasons of its own.

use std::time::Duration;

use sqlx::{Database, Pool, Transaction};

use crate::Error;

/// How often a transaction is tried. Of transactions that end each other one always gets through, and while they wait, they stand in
/// a queue: who needs more turns than this meets something that waiting does not cure.
pub const ATTEMPTS_MAX: u32 = 16;

/// The longest pause before a new attempt.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Runs `body` in a transaction and commits it, again if it is worth it.
pub(crate) async fn transaction<DB: Database, T>(
    pool: &Pool<DB>,
    mut body: impl AsyncFnMut(&mut Transaction<'static, DB>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut attempt = 1;
    loop {
        let mut tx = pool.begin().await?;
        let tried = match body(&mut tx).await {
            Ok(answer) => tx.commit().await.map(|()| answer).map_err(Error::from),
            Err(e) => {
                // At once, not when the connection is used next: others wait for its locks. If it fails, its connection goes, and with that the transaction.
                drop(tx.rollback().await);
                Err(e)
            }
        };
        match tried {
            Err(e) if e.is_retryable() && attempt < ATTEMPTS_MAX => {
                tokio::time::sleep(PAUSE_MAX.min(Duration::from_millis(1 << attempt))).await;
                attempt += 1;
            }
            ended => return ended,
        }
    }
}
