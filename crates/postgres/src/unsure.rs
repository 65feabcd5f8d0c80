//! Commits whose answer was lost.

use std::sync::{Mutex, MutexGuard, PoisonError};

use amends_store::{Error, Kind};

use crate::error::Call;
use crate::pool::Pool;

/// What a session is called, among all that a server ever had: numbers of processes come again.
macro_rules! session {
    () => {
        "pid || ' ' || (extract(epoch FROM backend_start) * 1000000)::bigint"
    };
}
pub(crate) use session;

/// Ends a session if it is still there, whatever it does: a statement may be on its way to it. Its user may do that.
const END: &str =
    concat!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ", session!(), " = $1");

/// Sessions that were to commit something. Only when they are gone does a look tell whether they wrote: a session is listed until what it did has
/// ended, and one that was on a server that has restarted since is gone too.
#[derive(Debug, Default)]
pub(crate) struct Unsure(Mutex<Vec<String>>);

impl Unsure {
    fn sessions(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one. There are as many as connections were lost since somebody last asked.
    pub(crate) fn add(&self, session: String) {
        self.sessions().push(session);
    }

    /// An error as long as one of them may still commit.
    pub(crate) async fn settle(&self, pool: &Pool) -> Result<(), Error> {
        let sessions = self.sessions().clone();
        for session in sessions {
            if pool.query_opt(Call::Reads, END, &[&session]).await?.is_some() {
                let message = "a commit whose answer was lost is still under way in PostgreSQL; try again";
                return Err(Error::new(Kind::Unavailable, message));
            }
            self.sessions().retain(|known| *known != session);
        }
        Ok(())
    }
}
