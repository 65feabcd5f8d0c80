//! Transactions whose end this node has not seen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use amends_store::{Error, Kind};

use crate::error::Call;
use crate::pool::Pool;

/// What became of one. A server that was restarted knows it too, and one that forgot it ended it long ago.
const STATUS: &str = "SELECT pg_xact_status($1::text::xid8) = 'in progress'";

/// Ends the session that still runs one, if it is there. A user may end its own.
const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid::text = ($1::text::xid8)::xid::text";

/// Ids of transactions. Only when they are over does a look tell whether they wrote.
#[derive(Debug, Default)]
pub(crate) struct Unsure(Mutex<Vec<String>>);

impl Unsure {
    fn ids(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one. There are as many as connections were lost since somebody last asked.
    pub(crate) fn add(&self, id: String) {
        self.ids().push(id);
    }

    /// An error as long as one of them may still commit.
    pub(crate) async fn settle(&self, pool: &Pool) -> Result<(), Error> {
        let ids = self.ids().clone();
        for id in ids {
            let row = pool.query_opt(Call::Reads, STATUS, &[&id]).await?;
            // Without an answer it is so old that its end is forgotten.
            if row.and_then(|row| row.get::<_, Option<bool>>(0)) == Some(true) {
                pool.query(Call::Reads, END, &[&id]).await?;
                let message = "a commit whose answer was lost is still under way in PostgreSQL; try again";
                return Err(Error::new(Kind::Unavailable, message));
            }
            self.ids().retain(|known| *known != id);
        }
        Ok(())
    }
}
