//! A connection to one server or a cluster, and calls of functions over it.

mod cluster;
mod error;
mod library;
mod one;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, IntoConnectionInfo, Value};

pub(crate) use error::text;
pub use error::{Error, ErrorKind};
pub use library::{Function, Library};

use cluster::Cluster;
use one::One;

/// How often one call loads the functions before it gives up: each time somebody took them away right after.
const LOADS_MAX: u32 = 5;

/// How long a client waits.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// For a connection.
    pub connect_timeout: Duration,
    /// For an answer. After it nobody knows whether the call was carried out: [`ErrorKind::Unknown`].
    pub answer_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(2), answer_timeout: Duration::from_secs(5) }
    }
}

/// A client of one server, or of a cluster if the server belongs to one. Cheap to clone; clones share their connections, over
/// which many calls are on their way at once.
///
/// It connects again by itself. On one server it sends nothing twice; a cluster's client sends a call again, up to
/// three times, when a connection broke or a slot moved. That is why every function of amends that writes gives a second call the
/// first one's answer.
#[derive(Debug, Clone)]
pub struct Client {
    link: Link,
    /// Functions may not be loaded or called here: their code is sent as scripts.
    as_scripts: Arc<AtomicBool>,
    libraries: &'static [&'static Library],
}

#[derive(Debug, Clone)]
enum Link {
    One(Arc<One>),
    Cluster(Cluster),
}

impl Link {
    /// To every primary; all must succeed.
    async fn on_primaries(&self, command: Cmd) -> Result<Value, Error> {
        match self {
            Self::One(one) => one.send(command).await,
            Self::Cluster(cluster) => cluster.on_primaries(command).await,
        }
    }
}

impl Client {
    /// Connects, finds out whether the server belongs to a cluster, and loads the libraries on every primary.
    ///
    /// `url` is `redis://[[user]:password@]host[:port][/db]`, or `rediss://` for TLS. A later loss of the functions (flush, fail-over,
    /// a new primary) is noticed at the next call, which loads them again.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the URL is none, [`ErrorKind::Unreachable`], or what the server says. No error repeats the URL: it
    /// may hold a password.
    pub async fn connect(
        url: &str,
        libraries: &'static [&'static Library],
        options: Options,
    ) -> Result<Self, Error> {
        let info = url.into_connection_info().map_err(|_| {
            let example = "redis://127.0.0.1:6379, or rediss://user:password@host:port/0";
            Error::new(ErrorKind::Refused, format!("this is no URL of a Redis server; write {example}"))
        })?;
        let one = One::new(info.clone(), options)?;
        let link = if is_cluster(&one).await? {
            Link::Cluster(Cluster::connect(info, options).await?)
        } else {
            Link::One(Arc::new(one))
        };
        let client = Self { link, as_scripts: Arc::default(), libraries };
        client.load().await?;
        Ok(client)
    }

    /// Loads the libraries on every primary, unless they are there. Without the permission for functions, calls go as scripts from
    /// then on. A second call changes nothing.
    ///
    /// # Errors
    /// If a primary cannot be reached or refuses.
    pub async fn load(&self) -> Result<(), Error> {
        for library in self.libraries {
            match load_on(&self.link, library).await {
                Ok(()) => {}
                Err(e) if e.kind == ErrorKind::Denied => {
                    tracing::info!("functions may not be loaded here ({e}); their code is sent as scripts");
                    self.as_scripts.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Calls a function. All keys must share a hash slot where there is a cluster: if they do not, nothing is sent.
    ///
    /// # Errors
    /// Any; [`ErrorKind::Unknown`] means that it may have been carried out.
    pub async fn call(&self, function: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Result<Value, Error> {
        if let Link::Cluster(_) = self.link
            && let Some(first) = keys.first()
            && let Some(other) = keys.iter().find(|key| slot(key) != slot(first))
        {
            return Err(Error::cross_slot(first, other));
        }
        let first = keys.first().copied();
        self.call_over(function, keys, args, |command| self.send_to(command, first)).await
    }

    /// Calls a function by what sends a command: as a function, or as a script where functions are not permitted.
    async fn call_over<T, F>(
        &self,
        function: &Function,
        keys: &[&[u8]],
        args: &[&[u8]],
        send: impl Fn(Cmd) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut loads = 0;
        while !self.sends_scripts() {
            match send(library::call(function, keys, args)).await {
                // Nothing was carried out. Somebody may take the functions away again meanwhile.
                Err(e) if e.kind == ErrorKind::NoFunction && loads < LOADS_MAX => {
                    loads += 1;
                    self.load().await?;
                }
                Err(e) if e.kind == ErrorKind::Denied && e.message.contains("fcall") => {
                    self.as_scripts.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        let script = function.script();
        match send(library::evalsha(&script, keys, args)).await {
            Err(e) if e.kind == ErrorKind::NoFunction => send(library::eval(&script, keys, args)).await,
            other => other,
        }
    }

    /// Calls a function on one server, and waits until so many replicas have what it wrote. Gives how many had it in time.
    ///
    /// # Errors
    /// As [`Client::call`]; [`ErrorKind::Refused`] in a cluster.
    pub(crate) async fn call_and_wait(
        &self,
        function: &Function,
        keys: &[&[u8]],
        args: &[&[u8]],
        replicas: u32,
        timeout: Duration,
    ) -> Result<(Value, i64), Error> {
        let Link::One(one) = &self.link else {
            return Err(Error::new(ErrorKind::Refused, "WAIT is for one server with replicas"));
        };
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(timeout.as_millis().to_string());
        let send = |command| one.send_and_wait(command, wait.clone());
        match self.call_over(function, keys, args, send).await? {
            (answer, Value::Int(count)) => Ok((answer, count)),
            (_, other) => Err(Error::unreadable("WAIT", &other)),
        }
    }

    /// Sends one command: in a cluster to the primary of its first key.
    ///
    /// # Errors
    /// Any; [`ErrorKind::Unknown`] means that it may have been carried out.
    pub async fn command(&self, command: Cmd) -> Result<Value, Error> {
        match &self.link {
            Link::One(one) => one.send(command).await,
            Link::Cluster(cluster) => cluster.send(command).await,
        }
    }

    /// Sends one command to every primary, and gives each one's address and answer.
    ///
    /// # Errors
    /// If one of them fails.
    pub async fn on_each_primary(&self, command: Cmd) -> Result<Vec<(String, Value)>, Error> {
        match &self.link {
            Link::One(one) => Ok(vec![(one.address(), one.send(command).await?)]),
            Link::Cluster(cluster) => cluster.on_each_primary(command).await,
        }
    }

    /// Sends one command to the primary with this address, as [`Client::on_each_primary`] gave it.
    ///
    /// # Errors
    /// Any; [`ErrorKind::Unreachable`] if it is none of the cluster any more.
    pub async fn on_primary(&self, address: &str, command: Cmd) -> Result<Value, Error> {
        match &self.link {
            Link::One(one) => one.send(command).await,
            Link::Cluster(cluster) => cluster.on_primary(address, command).await,
        }
    }

    /// Whether it talks to a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self.link, Link::Cluster(_))
    }

    /// Whether code is sent as scripts, because functions are not permitted here.
    #[must_use]
    pub fn sends_scripts(&self) -> bool {
        self.as_scripts.load(Ordering::Relaxed)
    }

    async fn send_to(&self, command: Cmd, key: Option<&[u8]>) -> Result<Value, Error> {
        match &self.link {
            Link::One(one) => one.send(command).await,
            Link::Cluster(cluster) => cluster.send_to(command, key).await,
        }
    }
}

/// Loads a library, unless it is there with the same code.
async fn load_on(link: &Link, library: &Library) -> Result<(), Error> {
    match link.on_primaries(library::load(library, false)).await {
        Err(e) if e.message.contains("already exists") => {}
        other => return other.map(drop),
    }
    // A name stands for one behaviour: other code under it is an earlier text of the same.
    link.on_primaries(library::load(library, true)).await.map(drop)
}

async fn is_cluster(one: &One) -> Result<bool, Error> {
    let mut info = redis::cmd("INFO");
    info.arg("cluster");
    match one.send(info).await {
        Ok(value) => Ok(error::text(&value).contains("cluster_enabled:1")),
        // Who may not ask is on a server of his own.
        Err(e) if e.kind == ErrorKind::Denied => Ok(false),
        Err(e) => Err(e),
    }
}

/// How many hash slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// The hash slot of a key: of what stands between the first `{` and the next `}`, if that is anything, else of the whole.
///
/// Source: the Redis cluster specification, "Hash tags".
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        Some(&rest[..close])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_that_of_the_hash_tag() {
        // As `CLUSTER KEYSLOT` says.
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"a{foo}b"), 12_182);
        assert_eq!(slot(b"{foo}{bar}"), 12_182);
        assert_eq!(slot(b"{}foo"), crc16::State::<crc16::XMODEM>::calculate(b"{}foo") % SLOTS);
        assert_eq!(slot(b"{{foo}}"), slot(b"{foo"));
        assert_eq!(slot(b"foo{"), crc16::State::<crc16::XMODEM>::calculate(b"foo{") % SLOTS);
    }
}
