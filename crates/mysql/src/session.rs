//! One session of the server: what it has set, and scripts on it.

use std::time::{Duration, Instant};

use amends_store::Error;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, Row};
use tokio::time::timeout;
use uuid::Uuid;

use crate::error::{self, Call, Fault};
use crate::rows;
use crate::sql::{Script, fill};

/// How long a connection may take to be made, or to come free.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long the server may take to answer. Its own limits, below, are shorter: this one ends what hangs on the way.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// A session that was idle for longer is looked at before it is used: the server may be another process by now.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// What every session sets, whatever the server's settings are. READ COMMITTED: otherwise ranges are locked against insertion. The mode makes
/// a value that does not fit an error. Times are asked for in UTC, where no hour comes twice. A transaction that hangs would keep what it has locked:
/// of a node that stopped in the middle of one, nobody could take these sagas over, so that it ends well before the node's lease does. MySQL has
/// no such limit, but one for all that is idle. Without `unique_checks`, constraints would decide nothing.
const SETTINGS: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, \
    unique_checks = 1, sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = DEFAULT, innodb_lock_wait_timeout = 10, lock_wait_timeout = 10, \
    wait_timeout = 60 /*!80000 , wait_timeout = 10, max_execution_time = 30000 */ \
    /*M!100600 , idle_transaction_timeout = 10, max_statement_time = 30 */";

const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

/// A lock of the server's that it keeps as long as the session lasts: by its name anybody can ask whether the session is over.
const NAME: &str = "SELECT GET_LOCK(?, 0)";

const LIMITS: &str = "SELECT @@max_allowed_packet, @@auto_increment_increment";

/// What the server answered to one statement.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The rows it found.
    pub(crate) rows: Vec<Row>,
    /// How many rows a write matched.
    pub(crate) affected: u64,
    /// The number that the first inserted row was given.
    pub(crate) number: u64,
}

/// What the server allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes that it takes at once.
    pub(crate) packet_max: usize,
    /// How far apart the numbers are that it gives to rows.
    pub(crate) step: u64,
}

/// A session.
pub(crate) struct Session {
    conn: Conn,
    /// What its lock is called.
    name: String,
    limits: Limits,
    used_at: Instant,
}

impl Session {
    /// Connects.
    pub(crate) async fn connect(opts: Opts) -> Result<Self, Error> {
        let connected = timeout(CONNECT_MAX, async {
            let conn = Conn::new(opts).await.map_err(|e| Fault::new(e, 0))?;
            let name = format!("amends.{}", Uuid::new_v4().simple());
            let limits = Limits { packet_max: 0, step: 1 };
            let mut session = Self { conn, name, limits, used_at: Instant::now() };
            let name = fill(NAME, &[(&session.name).into()]);
            let answers = session.run(&Script::of(&[SETTINGS, ISOLATION, &name, LIMITS])).await?;
            Ok::<_, Fault>((session, answers))
        });
        match connected.await {
            Ok(Ok((mut session, answers))) => {
                let limits = answers.last().and_then(|answer| answer.rows.first());
                let limits = limits.ok_or_else(|| error::unreachable("it does not say what it allows"))?;
                let packet_max = usize::try_from(rows::number(limits, 0)?).unwrap_or(usize::MAX);
                session.limits = Limits { packet_max, step: rows::number(limits, 1)? };
                Ok(session)
            }
            Ok(Err(fault)) => Err(fault.tell(Call::Reads)),
            Err(_) => Err(error::unreachable("it does not answer")),
        }
    }

    /// Whether it can be used again, after it was idle.
    pub(crate) async fn is_alive(&mut self) -> bool {
        self.idle_for() < TRUSTED_FOR
            || timeout(CONNECT_MAX, self.conn.ping()).await.is_ok_and(|answer| answer.is_ok())
    }

    /// How long it was idle.
    pub(crate) fn idle_for(&self) -> Duration {
        self.used_at.elapsed()
    }

    /// What its lock is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the server allows.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Sends a script, and gives an answer for each of its statements.
    ///
    /// # Errors
    /// The first that failed: no statement after it was carried out.
    pub(crate) async fn send(&mut self, script: &Script) -> Result<Vec<Answer>, Fault> {
        let answers = match timeout(ANSWER_MAX, self.run(script)).await {
            Ok(answers) => answers,
            Err(_) => Err(Fault::Silent),
        };
        self.used_at = Instant::now();
        answers
    }

    async fn run(&mut self, script: &Script) -> Result<Vec<Answer>, Fault> {
        let mut answers = Vec::with_capacity(script.statements());
        let mut result = self.conn.query_iter(script.text()).await.map_err(|e| Fault::new(e, 0))?;
        for nth in 0..script.statements() {
            // Once its rows are read, the next statement's answer is there, or its error.
            let (affected, number) = (result.affected_rows(), result.last_insert_id().unwrap_or(0));
            let rows = result.collect().await.map_err(|e| Fault::new(e, nth + 1))?;
            answers.push(Answer { rows, affected, number });
        }
        Ok(answers)
    }
}
