//! MariaDB and MySQL: the procedures `amends_submit` and `amends_check_lock` of the store's database. That is the one which the transaction's
//! connection uses, or else one that is called `amends`.

use futures_util::future::BoxFuture;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{MySql, Transaction};

use super::Submission;
use super::sqlx::Dialect;

const SUBMIT: [&str; 2] = ["CALL amends_submit(?, ?, ?)", "CALL amends.amends_submit(?, ?, ?)"];

const CHECK_LOCK: [&str; 2] = ["CALL amends_check_lock(?, ?)", "CALL amends.amends_check_lock(?, ?)"];

/// What `amends_check_lock` signals when the lock is not held under the token.
const LOCK_LOST: &str = "55000";
/// What `amends_submit` signals when the id is taken or was refused, and when an argument is none.
const REFUSED: [&str; 2] = ["23000", "45000"];
/// There is no such procedure in this database. An error does not end a transaction here.
const NO_PROCEDURE: u16 = 1305;
/// A deadlock: the server has rolled the whole transaction back. After any other error of a COMMIT nobody knows.
const DEADLOCK: u16 = 1213;

impl Dialect for MySql {
    fn check_lock<'t>(
        tx: &'t mut Transaction<'_, Self>,
        name: &'t str,
        token: u64,
    ) -> BoxFuture<'t, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let [here, elsewhere] = CHECK_LOCK.map(|call| sqlx::query(call).bind(name).bind(token));
            let looked = match here.execute(&mut **tx).await {
                Err(error) if number(&error) == Some(NO_PROCEDURE) => elsewhere.execute(&mut **tx).await,
                looked => looked,
            };
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
            let [here, elsewhere] =
                SUBMIT.map(|call| sqlx::query(call).bind(saga).bind(id.as_str()).bind(input));
            let submitted = match here.execute(&mut **tx).await {
                Err(error) if number(&error) == Some(NO_PROCEDURE) => elsewhere.execute(&mut **tx).await,
                submitted => submitted,
            };
            submitted.map(drop)
        })
    }

    fn refusal(error: &sqlx::Error) -> Option<String> {
        let error = error.as_database_error()?;
        let refused = error.code().is_some_and(|code| REFUSED.contains(&&*code));
        refused.then(|| error.message().to_owned())
    }

    fn was_rolled_back(error: &sqlx::Error) -> bool {
        number(error) == Some(DEADLOCK)
    }
}

/// The server's number of an error.
fn number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}
