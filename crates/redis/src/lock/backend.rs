//! The port of locks over Redis.

use amends_store::Kind;
use amends_store::locks::{Acquired, Ask, Because, Hold, LockName, LockView, Locks, Release, Renewal, Ttl};
use async_trait::async_trait;
use redis::Value;

use super::answer;
use super::library::{ACQUIRE, LIBRARIES, RELEASE, RENEW, SHOW, key};
use crate::client::{Client, Error, ErrorKind, Function, Options};
use crate::doctor::{self, Durability};

/// Locks on one server, a primary with replicas, or a cluster. Leases are measured on the server's clock. Cheap to clone.
///
/// After a fail-over that lost writes a lock may have two holders for a moment; the later one has the higher token, as far as the clocks of
/// both servers agree. What the lock protects has to refuse the lower one.
#[derive(Debug, Clone)]
pub struct RedisLocks {
    client: Client,
}

impl RedisLocks {
    /// Connects, looks at the server's settings, and loads the functions.
    ///
    /// # Errors
    /// As [`Client::connect`]; [`ErrorKind::Refused`] if the server would forget locks by its settings, such as an eviction policy.
    pub async fn connect(url: &str, options: Options) -> Result<Self, Error> {
        let client = Client::connect(url, LIBRARIES, options).await?;
        match doctor::check(&client, Durability::Kept).await {
            Ok(findings) => doctor::refuse(&findings)?,
            // Who may use locks need not be one who may look at the server.
            Err(e) if e.kind == ErrorKind::Denied => {
                tracing::warn!("the settings of the server cannot be looked at: {e}");
            }
            Err(e) => return Err(e),
        }
        Ok(Self { client })
    }

    async fn call<T>(
        &self,
        function: &Function,
        name: &LockName,
        args: &[&str],
        read: impl FnOnce(&Function, &Value) -> Result<T, Error>,
    ) -> Result<T, amends_store::Error> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let answer = self.client.call(function, &[&key(name)], &args).await;
        answer.and_then(|answer| read(function, &answer)).map_err(|error| to_store(name, &error))
    }
}

/// What an error of the client means to a caller of the port.
fn to_store(name: &LockName, error: &Error) -> amends_store::Error {
    let kind = match error.kind {
        ErrorKind::Unknown => Kind::Indeterminate,
        ErrorKind::Unreachable | ErrorKind::Busy => Kind::Unavailable,
        ErrorKind::OutOfMemory | ErrorKind::Unwritable => Kind::Unwritable,
        ErrorKind::Unreadable => Kind::Corrupt,
        ErrorKind::Unauthenticated
        | ErrorKind::Denied
        | ErrorKind::CrossSlot
        | ErrorKind::NoFunction
        | ErrorKind::Refused => Kind::Refused,
    };
    amends_store::Error::new(kind, format!("the lock {name}: {error}"))
}

fn owner_of(hold: &Hold) -> &str {
    hold.owner.as_ref().map_or("", |owner| owner.as_str())
}

#[async_trait]
impl Locks for RedisLocks {
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, amends_store::Error> {
        let args = [ask.owner.as_str(), &ask.ttl.ms().to_string(), ask.label.as_str()];
        self.call(&ACQUIRE, &ask.name, &args, answer::acquired).await
    }

    async fn renew(&self, hold: &Hold, ttl: Ttl) -> Result<Renewal, amends_store::Error> {
        let args = [owner_of(hold), &hold.token.to_string(), &ttl.ms().to_string()];
        self.call(&RENEW, &hold.name, &args, answer::renewal).await
    }

    async fn release(&self, hold: &Hold, because: &Because) -> Result<Release, amends_store::Error> {
        let (kind, text) = because.parts();
        let args = [owner_of(hold), &hold.token.to_string(), kind, text];
        self.call(&RELEASE, &hold.name, &args, answer::release).await
    }

    async fn show(&self, name: &LockName) -> Result<LockView, amends_store::Error> {
        self.call(&SHOW, name, &[], answer::view).await
    }
}
