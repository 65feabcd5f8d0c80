//! MariaDB and MySQL: the procedures `amends_submit` and `amends_check_lock` of the store's database, which has to be the one that the
//! transaction's connection uses; or procedures there that call them.

use futures_util::future::BoxFuture;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{MySql, Transaction};

use super::Submission;
use super::sqlx::Dialect;

const SUBMIT: &str = "CALL amends_submit(?, ?, ?)";

const CHECK_LOCK: &str = "CALL amends_check_lock(?, ?)";

/// What `amends_check_lock` signals when the lock is not held under the token.
const LOCK_LOST: &str = "55000";
/// What `amends_submit` signals when the id is taken or was refused, and when an argument is none.
const REFUSED: [&str; 2] = ["23000", "45000"];
/// A deadlock: the server has rolled the whole transaction back. After any other error of a COMMIT nobody knows.
const DEADLOCK: u16 = 1213;

impl Dialect for MySql {
    fn check_lock<'t>(
        tx: &'t mut Transaction<'_, Self>,
        name: &'t str,
        token: u64,
    ) -> BoxFuture<'t, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            match sqlx::query(CHECK_LOCK).bind(name).bind(token).execute(&mut **tx).await {
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
        let refused = error.code().is_some_and(|code| REFUSED.contains(&&*code));
        refused.then(|| error.message().to_owned())
    }

    fn was_rolled_back(error: &sqlx::Error) -> bool {
        let error =
            error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
        error.is_some_and(|error| error.number() == DEADLOCK)
    }
}
