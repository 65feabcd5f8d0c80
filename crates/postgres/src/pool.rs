//! Connections, and one statement on one of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use amends_store::{Error, Kind, Writable};
use futures_util::future::join;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::error::{self, Call, is_answer, is_race, store_error};
use crate::unsure::session;
use crate::url::PostgresUrl;

/// Connections of one engine: a few that commit, the others for leases, claims and people.
const CONNECTIONS_MAX: usize = 8;

/// How long a connection may take to be made, or to come free.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long the server may take to answer. Its own limits, below, are shorter: this one ends what hangs on the way.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(40);

/// How often a transaction that others were quicker than is tried again.
pub(crate) const RACES_MAX: u32 = 30;

/// What every session sets. A transaction that hangs would keep what it has locked, and all dead rows of the database: of a node that stopped
/// in the middle of one, nobody could take these sagas over, so that it ends well before the node's lease does. Compiling a statement costs more than running it here. Whether commits are on disk when they are answered is not for a later change of settings to decide.
const SESSION: &str = "SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '10s';
    SET default_transaction_isolation = 'read committed'; SET jit = off;
    SELECT set_config(name, CASE setting WHEN 'off' THEN 'on' ELSE setting END, false) FROM pg_settings WHERE name = 'synchronous_commit'";

const ITS_NAME: &str = concat!("SELECT ", session!(), " FROM pg_stat_activity WHERE pid = pg_backend_pid()");

/// What a statement is given.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Connections to one database.
pub(crate) struct Pool {
    pub(crate) url: PostgresUrl,
    slots: Semaphore,
    idle: Mutex<Vec<Session>>,
    pub(crate) health: Writable,
}

/// A connection, with the statements that it has prepared.
struct Session {
    client: Client,
    name: String,
    statements: HashMap<&'static str, Statement>,
}

/// A connection in use. Dropped, it is closed, and the server undoes what it had not committed: only [`Conn::done`] gives it back.
pub(crate) struct Conn<'a> {
    pool: &'a Pool,
    session: Session,
    _slot: SemaphorePermit<'a>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new(mut url: PostgresUrl) -> Self {
        if url.config.get_application_name().is_none() {
            url.config.application_name("amends");
        }
        url.config.connect_timeout(CONNECT_MAX);
        url.config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(ANSWER_MAX);
        Self {
            url,
            slots: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
            health: Writable::default(),
        }
    }

    /// A connection, an idle or a new one.
    pub(crate) async fn take(&self) -> Result<Conn<'_>, Error> {
        let slot = match timeout(CONNECT_MAX, self.slots.acquire()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) | Err(_) => {
                return Err(Error::new(
                    Kind::Unavailable,
                    "all connections to PostgreSQL are busy; try again",
                ));
            }
        };
        let session = match self.pop() {
            Some(session) => session,
            None => self.connect().await?,
        };
        Ok(Conn { pool: self, session, _slot: slot })
    }

    fn pop(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of a server that was restarted are closed.
        idle.retain(|session| !session.client.is_closed());
        idle.pop()
    }

    async fn connect(&self) -> Result<Session, Error> {
        let connected = timeout(CONNECT_MAX, async {
            let (client, connection) = self.url.connect().await?;
            // It ends with its client, and what went wrong is told to whoever asked.
            tokio::spawn(async move { drop(connection.await) });
            let (set, name) = join(client.batch_execute(SESSION), client.query_one(ITS_NAME, &[])).await;
            set?;
            Ok::<_, tokio_postgres::Error>((client, name?.try_get(0)?))
        });
        match connected.await {
            Ok(Ok((client, name))) => Ok(Session { client, name, statements: HashMap::new() }),
            Ok(Err(e)) => Err(store_error(&e, Call::Reads)),
            Err(_) => Err(error::unreachable("it does not answer")),
        }
    }

    /// Runs one statement, in a transaction of its own, and gives its rows.
    ///
    /// # Errors
    /// Of a statement that writes, [`Kind::Indeterminate`] if its answer was lost.
    pub(crate) async fn query(
        &self,
        call: Call,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Error> {
        let done = self.try_query(call, sql, params).await;
        if let Err(error) = &done {
            self.health.note(error);
        }
        done
    }

    async fn try_query(&self, call: Call, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Error> {
        let mut races = 0;
        loop {
            let mut conn = self.take().await?;
            let statement = conn.prepare(sql).await?;
            match timeout(ANSWER_MAX, conn.client().query(&statement, params)).await {
                Ok(Ok(rows)) => {
                    conn.done();
                    return Ok(rows);
                }
                Ok(Err(e)) => {
                    if e.as_db_error().is_some_and(is_answer) {
                        conn.done();
                        if is_race(&e) && races < RACES_MAX {
                            races += 1;
                            continue;
                        }
                    }
                    return Err(store_error(&e, call));
                }
                Err(_) => {
                    return Err(match call {
                        Call::Reads => error::unreachable("it does not answer"),
                        Call::Writes => error::lost("it does not answer"),
                    });
                }
            }
        }
    }

    /// As [`Pool::query`], of which one row is wanted.
    pub(crate) async fn query_opt(
        &self,
        call: Call,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Error> {
        Ok(self.query(call, sql, params).await?.into_iter().next())
    }
}

impl Conn<'_> {
    pub(crate) fn client(&self) -> &Client {
        &self.session.client
    }

    /// What its session is called, as [`session`] says.
    pub(crate) fn session(&self) -> String {
        self.session.name.clone()
    }

    /// The statement, prepared once a connection.
    pub(crate) async fn prepare(&mut self, sql: &'static str) -> Result<Statement, Error> {
        if let Some(known) = self.session.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = timeout(ANSWER_MAX, self.session.client.prepare(sql)).await;
        let statement = match statement {
            Ok(prepared) => prepared.map_err(|e| store_error(&e, Call::Reads))?,
            Err(_) => return Err(error::unreachable("it does not answer")),
        };
        self.session.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Gives the connection back. It must be in no transaction.
    pub(crate) fn done(self) {
        if !self.session.client.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.session);
        }
    }
}
