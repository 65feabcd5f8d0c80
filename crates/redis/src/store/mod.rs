//! A store on one Redis server, or on a primary with replicas.
//!
//! A batch is one function call, decided first and written then; every write says which store, run and mark its node knows, so that a store
//! that went back in time is never written. See `docs/adr/0008-redis-store-layout.md` for what lives where and why.

mod call;
mod encode;
mod error;
mod health;
mod journal;
mod library;
mod link;
mod lists;
mod nodes;
mod options;
mod records;
mod seen;
mod watch;
mod words;
mod work;

use std::sync::Arc;

use amends_store::{Error, Gauge, Health, Kind, Loss};
use tokio::sync::Mutex;

use crate::client::{Client, Options};
use crate::doctor::{self, Durability, Severity};

pub use library::STORE_LIBRARIES;
pub use options::{StoreOptions, Wait};

use error::{Call, store_error};
use library::ACCEPT_LOSS;
use link::Link;
use seen::SeenFile;

/// A store in Redis, which several engines may share.
#[derive(Debug)]
pub struct RedisStore {
    link: Arc<Link>,
    /// The numbers of the next request of each kind whose answer must not get lost.
    claiming: Mutex<u64>,
    taking_over: Mutex<u64>,
}

impl RedisStore {
    /// Opens a store, making it if there is none. `url`: `redis://[user:password@]host[:port][/db]`, `rediss://` over TLS; with
    /// `?wait=1&wait_timeout=500ms` a commit is answered when so many replicas have it.
    ///
    /// # Errors
    /// [`Kind::Refused`] for a URL that is none, a cluster, a store of a later version, or one that went back in time since this node saw it;
    /// [`Kind::Unavailable`] if the server cannot be reached; [`Kind::Unwritable`] if it takes no writes. The message says what to do.
    pub async fn open(url: &str, mut options: StoreOptions) -> Result<Self, Error> {
        let client = connect(url, &mut options).await?;
        check_settings(&client).await?;
        let file = options.data.as_deref().map(SeenFile::in_folder).transpose()?;
        let link = Link::open(client, options.wait, file).await?;
        Ok(Self { link: Arc::new(link), claiming: Mutex::new(1), taking_over: Mutex::new(1) })
    }

    /// Says, for people, that what the store has lost is lost, and why they go on. The store gets a new epoch, all leases end, and the node
    /// whose data folder this is takes the store as it is now. Gives the epoch. A second call for the same loss changes nothing.
    ///
    /// # Errors
    /// As [`RedisStore::open`], but not because of the loss; [`Kind::Refused`] without a reason.
    pub async fn accept_loss(
        url: &str,
        mut options: StoreOptions,
        reason: &str,
        by: &str,
    ) -> Result<u64, Error> {
        if reason.trim().is_empty() || reason.len() > REASON_MAX {
            let message = format!("a reason is needed, of up to {REASON_MAX} bytes: it is kept in the store");
            return Err(Error::new(Kind::Refused, message));
        }
        let client = connect(url, &mut options).await?;
        let file = options.data.as_deref().map(SeenFile::in_folder).transpose()?;
        let found = link::look(&client, true).await?.ok_or_else(|| {
            Error::new(Kind::Unavailable, "the store went away while it was looked at: try again")
        })?;
        let known = file.as_ref().map(SeenFile::read).transpose()?.flatten();
        if let Some(known) = &known
            && known.loss(Some(&found)).is_none()
        {
            let message = "nothing is lost, as far as this node knows: there is nothing to accept";
            return Err(Error::new(Kind::Refused, message));
        }
        let seen = &found.seen;
        let epoch = seen.epoch.to_string();
        let keys = library::KEYS.map(str::as_bytes);
        let args = [&epoch, &seen.run, reason, by].map(str::as_bytes);
        let answer = client.call(&ACCEPT_LOSS, &keys, &args).await;
        let mut words =
            words::Words::read(ACCEPT_LOSS.name, answer.map_err(|e| store_error(e, Call::Writes))?)?;
        words.next()?;
        let epoch = words.number()?;
        if let Some(file) = file {
            file.write(&seen::Seen { epoch, ..found.seen })?;
        }
        Ok(epoch)
    }
}

/// Bytes of a reason.
const REASON_MAX: usize = 4_096;

async fn connect(url: &str, options: &mut StoreOptions) -> Result<Client, Error> {
    let url = options.read_url(url)?;
    let client =
        Client::connect(&url, STORE_LIBRARIES, Options::default()).await.map_err(|e| match e.kind {
            crate::ErrorKind::Refused => Error::new(Kind::Refused, e.message),
            _ => store_error(e, Call::Reads),
        })?;
    if client.is_cluster() {
        let message = "the server belongs to a Redis cluster, and a store needs one server, or a primary with replicas: sagas that claim the \
             same resource must be decided in one place. The compensation log, the participant and the locks work on a cluster";
        return Err(Error::new(Kind::Refused, message));
    }
    Ok(client)
}

/// Refuses a server whose settings would lose what it acknowledged, and warns of risks.
async fn check_settings(client: &Client) -> Result<(), Error> {
    let findings = doctor::check(client, Durability::Kept).await.map_err(|e| store_error(e, Call::Reads))?;
    doctor::refuse(&findings).map_err(|e| Error::new(Kind::Refused, e.message))?;
    for finding in findings.iter().filter(|finding| finding.severity == Severity::Warn) {
        tracing::warn!("{finding}");
    }
    Ok(())
}

impl Health for RedisStore {
    fn health(&self) -> Result<(), Error> {
        self.link.health.takes_work()
    }

    fn loss(&self) -> Option<Loss> {
        self.link.loss()
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, help, value| Gauge { name, help, value };
        let (calls, items) = self.link.committed();
        vec![
            gauge("commits_total", "Function calls that committed items since the store was opened.", calls),
            gauge("commit_items_total", "Items that they consisted of.", items),
            gauge(
                "redis_mark",
                "The store's count of its commits, as this node saw it last.",
                self.link.mark(),
            ),
            gauge(
                "redis_store_epoch",
                "Grows when people accept that the store lost data.",
                self.link.epoch(),
            ),
        ]
    }
}
