//! Sessions whose last COMMIT this node has seen no answer to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use amends_store::{Error, Kind};

use crate::error::Call;
use crate::pool::Pool;
use crate::rows::number_opt;
use crate::sql::fill;

/// The number of the session that still runs, if it does: the server gives up a session's lock when all that it did is committed or undone. Numbers
/// alone would not do: after a restart they are given again.
const RUNS: &str = "SELECT IS_USED_LOCK(?)";

/// A user may end its own sessions.
const END: &str = "KILL CONNECTION ?";

/// Names of sessions. Only when they are over does a look tell whether they wrote.
#[derive(Debug, Default)]
pub(crate) struct Unsure(Mutex<Vec<String>>);

impl Unsure {
    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one. There are as many as connections were lost since somebody last asked.
    pub(crate) fn add(&self, name: String) {
        self.names().push(name);
    }

    /// An error as long as one of them may still commit.
    pub(crate) async fn settle(&self, pool: &Pool) -> Result<(), Error> {
        let names = self.names().clone();
        for name in names {
            let row = pool.query_opt(Call::Reads, &fill(RUNS, &[(&name).into()])).await?;
            if let Some(session) = row.map(|row| number_opt(&row, 0)).transpose()?.flatten() {
                // It may end by itself just now, which is an error of no importance.
                if let Err(error) = pool.query(Call::Reads, &fill(END, &[session.into()])).await {
                    tracing::debug!("a session of this node's could not be ended: {error}");
                }
                let message =
                    "a commit whose answer was lost is still under way in the MySQL server; try again";
                return Err(Error::new(Kind::Unavailable, message));
            }
            self.names().retain(|known| *known != name);
        }
        Ok(())
    }
}
