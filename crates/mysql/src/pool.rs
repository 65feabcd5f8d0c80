//! Connections, and one statement on one of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use amends_store::{Error, Kind, Writable};
use mysql_async::{Opts, Row};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::{Call, Fault};
use crate::session::{Answer, CONNECT_MAX, Limits, Session};
use crate::sql::Script;

/// Connections of one engine: a few that commit, the others for leases, claims and people.
const CONNECTIONS_MAX: usize = 8;

/// Idle ones are closed before the server would: it ends a session of MySQL's after ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// How often, and for how long, a transaction that others were quicker than is tried again. A lock that took too long has taken ten seconds.
pub(crate) const RACES_MAX: u32 = 30;
pub(crate) const RACING_MAX: Duration = Duration::from_secs(30);

/// Connections to one database.
pub(crate) struct Pool {
    opts: Opts,
    slots: Semaphore,
    idle: Mutex<Vec<Session>>,
    pub(crate) health: Writable,
}

/// A connection in use. Dropped, it is closed, and the server undoes what it had not committed: only [`Connection::done`] gives it back.
pub(crate) struct Connection<'a> {
    pool: &'a Pool,
    session: Session,
    is_new: bool,
    _slot: SemaphorePermit<'a>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The options hold a password.
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new(opts: Opts) -> Self {
        Self {
            opts,
            slots: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
            health: Writable::default(),
        }
    }

    /// A connection, an idle or a new one.
    pub(crate) async fn take(&self) -> Result<Connection<'_>, Error> {
        let slot = match timeout(CONNECT_MAX, self.slots.acquire()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) | Err(_) => {
                let message = "all connections to the MySQL server are busy; try again";
                return Err(Error::new(Kind::Unavailable, message));
            }
        };
        while let Some(mut session) = self.pop() {
            if session.is_alive().await {
                return Ok(Connection { pool: self, session, is_new: false, _slot: slot });
            }
            // The others were connected to the same server.
            self.forget_idle();
        }
        let session = Session::connect(self.opts.clone()).await?;
        Ok(Connection { pool: self, session, is_new: true, _slot: slot })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<Session> {
        let mut idle = self.idle();
        idle.retain(|session| session.idle_for() < IDLE_MAX);
        idle.pop()
    }

    /// Closes all idle connections.
    fn forget_idle(&self) {
        drop(std::mem::take(&mut *self.idle()));
    }

    /// Runs one statement, in a transaction of its own, and gives its rows.
    ///
    /// # Errors
    /// Of a statement that writes, [`Kind::Indeterminate`] if its answer was lost.
    pub(crate) async fn query(&self, call: Call, sql: &str) -> Result<Vec<Row>, Error> {
        Ok(self.one(call, sql).await?.rows)
    }

    /// As [`Pool::query`], of which one row is wanted.
    pub(crate) async fn query_opt(&self, call: Call, sql: &str) -> Result<Option<Row>, Error> {
        Ok(self.query(call, sql).await?.into_iter().next())
    }

    /// As [`Pool::query`], with all that was answered.
    pub(crate) async fn one(&self, call: Call, sql: &str) -> Result<Answer, Error> {
        let mut answers = self.script(call, &Script::of(&[sql])).await?;
        Ok(answers.pop().expect("invariant: each statement has an answer"))
    }

    /// Runs a script that is a transaction, or changes nothing.
    ///
    /// # Errors
    /// As [`Pool::query`].
    pub(crate) async fn script(&self, call: Call, script: &Script) -> Result<Vec<Answer>, Error> {
        let done = self.try_script(call, script).await.map_err(|fault| fault.tell(call));
        done.inspect_err(|error| self.health.note(error))
    }

    /// Inserts one row, unless there is one with its key.
    ///
    /// # Errors
    /// As [`Pool::query`].
    pub(crate) async fn insert(&self, sql: &str) -> Result<Option<Answer>, Error> {
        match self.try_script(Call::Writes, &Script::of(&[sql])).await {
            Ok(mut answers) => Ok(answers.pop()),
            Err(fault) if fault.is_duplicate() => Ok(None),
            Err(fault) => Err(fault.tell(Call::Writes)).inspect_err(|error| self.health.note(error)),
        }
    }

    async fn try_script(&self, call: Call, script: &Script) -> Result<Vec<Answer>, Fault> {
        let (mut races, since) = (0, Instant::now());
        loop {
            let mut connection = self.take().await.map_err(Fault::Unsent)?;
            let fault = match connection.send(script).await {
                Ok(answers) => {
                    connection.done();
                    return Ok(answers);
                }
                Err(fault) => fault,
            };
            // An idle connection's end is seen only when it is used.
            let was_closed = connection.was_closed(&fault) && call == Call::Reads;
            connection.roll_back(&fault).await;
            let again = was_closed || (fault.is_race() && !fault.is_duplicate());
            if !again || races >= RACES_MAX || since.elapsed() > RACING_MAX {
                return Err(fault);
            }
            races += 1;
        }
    }
}

impl Connection<'_> {
    /// Sends a script, and gives an answer for each of its statements.
    ///
    /// # Errors
    /// The first that failed: no statement after it was carried out.
    pub(crate) async fn send(&mut self, script: &Script) -> Result<Vec<Answer>, Fault> {
        self.session.send(script).await
    }

    /// What the server allows.
    pub(crate) fn limits(&self) -> Limits {
        self.session.limits()
    }

    /// The name by which one can ask whether its session is over.
    pub(crate) fn name(&self) -> &str {
        self.session.name()
    }

    /// Whether the fault says no more than that the connection had been closed while it was idle. A server that stands still has closed none.
    pub(crate) fn was_closed(&self, fault: &Fault) -> bool {
        !self.is_new && fault.ends_session() && !matches!(fault, Fault::Silent)
    }

    /// Undoes what was not committed, and gives the connection back if it is still of use. A lock that took too long undoes no more than its
    /// own statement: what came before it would be committed with whatever came next.
    pub(crate) async fn roll_back(mut self, fault: &Fault) {
        if fault.ends_session() {
            // The idle ones were connected to the same server.
            self.pool.forget_idle();
        } else if self.session.send(&Script::of(&["ROLLBACK"])).await.is_ok() {
            self.done();
        }
    }

    /// Ends a transaction that has nothing to commit, and gives the connection back.
    pub(crate) async fn leave(mut self) {
        if self.session.send(&Script::of(&["ROLLBACK"])).await.is_ok() {
            self.done();
        }
    }

    /// Gives the connection back. It must be in no transaction.
    pub(crate) fn done(self) {
        self.pool.idle().push(self.session);
    }
}
