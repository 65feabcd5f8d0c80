//! PostgreSQL: the functions `amends.submit` and `amends.check_lock` of the store's schema.

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::{Postgres, Transaction};

use super::Submission;
use super::sqlx::Dialect;

const SUBMIT: &str = "SELECT amends.submit($1, $2, $3::text::json)";

const CHECK_LOCK: &str = "SELECT amends.check_lock($1, $2)";

/// What `amends.check_lock` raises when the lock is not held under the token.
const LOCK_LOST: &str = "55000";
/// What `amends.submit` raises when the id is taken, or was refused.
const ID_TAKEN: &str = "23505";

impl Dialect for Postgres {
    fn check_lock<'t>(
        tx: &'t mut Transaction<'_, Self>,
        name: &'t str,
        token: u64,
    ) -> BoxFuture<'t, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let looked =
                sqlx::query(CHECK_LOCK).bind(name).bind(token.cast_signed()).execute(&mut **tx).await;
            match looked {
                Ok(_) => Ok(true),
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(LOCK_LOST) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn submit<'t>(
        tx: &'t mut Transaction<'_, Self>,
        submission: &'t Submission,
    ) -> BoxFuture<'t, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let Submission { saga, id, input, .. } = submission;
            let submit = sqlx::query(SUBMIT).bind(saga).bind(id.as_str()).bind(input);
            submit.execute(&mut **tx).await.map(drop)
        })
    }

    fn refusal(error: &sqlx::Error) -> Option<String> {
        let error = error.as_database_error()?;
        (error.code().as_deref() == Some(ID_TAKEN)).then(|| error.message().to_owned())
    }

    /// The server answered with an ordinary error. One that ends the connection may come after the commit.
    fn was_rolled_back(error: &sqlx::Error) -> bool {
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
}
