//! One server: a connection that is made anew when it broke. Nothing is sent twice.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Value};
use tokio::sync::Mutex;

use super::{Error, ErrorKind, Options};

pub(super) struct One {
    client: Client,
    config: AsyncConnectionConfig,
    current: Mutex<Current>,
}

/// The connection that calls go over, and how many there have been.
#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    nth: u64,
}

impl One {
    pub(super) fn new(info: ConnectionInfo, options: Options) -> Result<Self, Error> {
        let client = Client::open(info).map_err(|e| {
            Error::new(ErrorKind::Refused, format!("the URL of the Redis server: {}", e.category()))
        })?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.answer_timeout));
        Ok(Self { client, config, current: Mutex::default() })
    }

    pub(super) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn send(&self, command: Cmd) -> Result<Value, Error> {
        let (mut connection, nth) = self.connection().await?;
        match connection.send_packed_command(&command).await {
            Ok(value) => value.extract_error().map_err(|e| Error::from_reply(&e)),
            Err(e) => {
                if e.is_unrecoverable_error() || e.is_connection_dropped() {
                    self.forget(nth).await;
                }
                Err(Error::from_reply(&e))
            }
        }
    }

    /// Sends a command and, over the same connection, `WAIT`: how many replicas have what this connection wrote up to then. Over another
    /// connection `WAIT` would answer for nothing.
    pub(super) async fn send_and_wait(&self, command: Cmd, wait: Cmd) -> Result<(Value, Value), Error> {
        let (mut connection, nth) = self.connection().await?;
        let mut both = redis::Pipeline::with_capacity(2);
        both.add_command(command).add_command(wait);
        match connection.send_packed_commands(&both, 0, 2).await {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                let (Some(answer), Some(waited), None) = (answers.next(), answers.next(), answers.next())
                else {
                    return Err(Error::new(ErrorKind::Unknown, "redis gave not two answers to two commands"));
                };
                let answer = answer.extract_error().map_err(|e| Error::from_reply(&e))?;
                // The call was carried out: what `WAIT` says is a matter of its own.
                let waited = waited.extract_error().map_err(|e| Error::from_reply(&e).after_the_call())?;
                Ok((answer, waited))
            }
            Err(e) => {
                if e.is_unrecoverable_error() || e.is_connection_dropped() {
                    self.forget(nth).await;
                }
                Err(Error::from_reply(&e))
            }
        }
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), Error> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok((connection.clone(), current.nth));
        }
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await
            .map_err(|e| Error::while_connecting(&self.address(), &e))?;
        current.nth += 1;
        current.connection = Some(connection.clone());
        Ok((connection, current.nth))
    }

    /// The connection broke; unless somebody made a new one meanwhile, the next call does.
    async fn forget(&self, nth: u64) {
        let mut current = self.current.lock().await;
        if current.nth == nth {
            current.connection = None;
        }
    }
}

impl std::fmt::Debug for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The connection's information holds a password.
        f.debug_struct("One").field("address", &self.address()).finish_non_exhaustive()
    }
}
