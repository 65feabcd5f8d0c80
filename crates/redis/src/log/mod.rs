//! The compensation log: intent, undo and effect in one atomic step, for an application that has nothing but Redis.

mod answer;
mod id;
mod intent;
mod keys;
mod library;
mod list;
mod outcome;
mod record;

use redis::Value;

use crate::client::{Client, Error, Function, Library, Options};
use crate::commands;

pub use id::{BusinessId, ID_BYTES_MAX};
pub use intent::{Intent, TIMEOUT_DEFAULT, TIMEOUT_MAX};
pub use library::LOG_LIBRARY;
pub use list::{LIST_MAX, Listed, Which};
pub use outcome::{Answer, Begin, Begun, Commit, Compensate, Reason, Refusal};
pub use record::{Record, Status};

pub(crate) use answer::Words;
pub(crate) use keys::{Index, Shard, shards};
pub(crate) use library::{ADOPT, DUE, POSTPONE, REMOVE};
pub(crate) use list::Page;

/// How often a record is looked at again because another program changed it between looking and acting.
const LOOKS_MAX: u32 = 3;
/// A record that is due within this wakes scanners, which look that often by themselves.
const WAKE_BELOW: std::time::Duration = std::time::Duration::from_secs(30);
/// Where scanners are woken. The message is not read: they look for themselves.
pub(crate) const WAKE_CHANNEL: &str = "compensate_wake";

/// A compensation log. Cheap to clone.
///
/// Everything that changes something is one atomic call, which does all or nothing. A call whose answer was lost is
/// made again: the second gets the first one's answer.
///
/// ```no_run
/// use amends_redis::{Begin, BusinessId, Commands, Commit, Guard, Intent, Log, Options};
///
/// # async fn transfer() -> Result<(), Box<dyn std::error::Error>> {
/// let log = Log::connect("redis://127.0.0.1:6379", Options::default()).await?;
/// let order = BusinessId::new("order:789")?;
/// // Takes 100 now, if there is that much, and says how to give it back: one step.
/// let intent = Intent::new(Commands::parse(["HINCRBY balance:1001 amount 100"])?)
///     .forward(Commands::parse(["HINCRBY balance:1001 amount -100"])?)
///     .forward_guard(vec![Guard::parse(b"MIN balance:1001 amount 100")?]);
/// match log.begin(&order, &intent).await? {
///     Begin::Begun(_) => {}
///     Begin::Different => return Err("order:789 was begun with something else".into()),
///     Begin::Refused(refusal) => return Err(refusal.to_string().into()),
/// }
/// // … call whom else it takes. If it fails: `log.compensate(&order)`. If this process dies: a scanner does it.
/// if let Commit::Compensated { .. } = log.commit(&order).await? {
///     // Too late: its time was over, and it has been undone.
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Log {
    client: Client,
}

impl Log {
    /// Connects with the functions of the log alone.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect(url: &str, options: Options) -> Result<Self, Error> {
        static LIBRARIES: &[&Library] = &[&LOG_LIBRARY];
        Ok(Self::new(Client::connect(url, LIBRARIES, options).await?))
    }

    /// Uses a client that has loaded [`LOG_LIBRARY`].
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Its client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Writes the record as pending and runs the forward commands, in one step. Again with the same content: the same answer, and
    /// nothing is run again; with other content: [`Begin::Different`].
    ///
    /// # Errors
    /// [`crate::ErrorKind::CrossSlot`] before anything is sent, if in a cluster the keys do not share the slot of the record
    /// (give the id the keys' hash tag, as in `order:789:{1001}` for `balance:{1001}`); else any.
    pub async fn begin(&self, id: &BusinessId, intent: &Intent) -> Result<Begin, Error> {
        let answer = self.call(&library::BEGIN, id, &intent.keys(), &intent.arguments()).await?;
        let begin = Begin::read(Words::new(&library::BEGIN, answer)?)?;
        if let Begin::Begun(_) = begin
            && intent.timeout() < WAKE_BELOW
        {
            self.wake().await;
        }
        Ok(begin)
    }

    /// Marks the record as committed: it is never undone then. Again: the same answer. If it was compensated before, that is the answer.
    ///
    /// # Errors
    /// Any.
    pub async fn commit(&self, id: &BusinessId) -> Result<Commit, Error> {
        let answer = self.call(&library::COMMIT, id, &[], &[]).await?;
        Commit::read(Words::new(&library::COMMIT, answer)?)
    }

    /// Runs the rollback and marks the record as compensated, in one step; or changes nothing and says why. Again: the same answer, and
    /// nothing is run again. If it was committed before, that is the answer.
    ///
    /// # Errors
    /// Any.
    pub async fn compensate(&self, id: &BusinessId) -> Result<Compensate, Error> {
        for _ in 0..LOOKS_MAX {
            // The keys must be named by the caller; what they are stands in the record and does not change.
            let Some(record) = self.show(id).await? else { return Ok(Compensate::Absent) };
            if record.is_foreign() && record.status == Status::Pending {
                if let Some(refusal) = self.adopt(id, &record).await? {
                    return Ok(Compensate::Refused(refusal));
                }
                continue;
            }
            let keys: Vec<&[u8]> = record.keys.iter().map(Vec::as_slice).collect();
            let answer = self.call(&library::COMPENSATE, id, &keys, &[]).await?;
            if let Some(outcome) = Compensate::read(Words::new(&library::COMPENSATE, answer)?)? {
                return Ok(outcome);
            }
        }
        Ok(Compensate::Refused(Refusal::new(
            Reason::Malformed,
            "another program changes its rollback all the time",
        )))
    }

    /// The record, if there is one.
    ///
    /// # Errors
    /// Any.
    pub async fn show(&self, id: &BusinessId) -> Result<Option<Record>, Error> {
        let answer = self.client.call(&library::SHOW, &[&id.record_key()], &[]).await?;
        Record::read(Words::new(&library::SHOW, answer)?, id)
    }

    /// Wakes the scanners that listen. If that fails, they look by themselves.
    pub async fn wake(&self) {
        let publish = if self.client.is_cluster() { "SPUBLISH" } else { "PUBLISH" };
        if let Err(e) = self.client.command(redis::cmd(publish).arg(WAKE_CHANNEL).arg("").to_owned()).await {
            tracing::debug!("scanners could not be woken: {e}");
        }
    }

    /// Takes over a record that another program wrote. Gives why its rollback cannot be run.
    async fn adopt(&self, id: &BusinessId, record: &Record) -> Result<Option<Refusal>, Error> {
        let raw = record.rollback_cmd.clone().unwrap_or_default();
        match self.parse_foreign(id, &raw) {
            Ok(commands) => {
                let mut arguments = vec![threshold(TIMEOUT_DEFAULT), raw.clone(), b"commands".to_vec()];
                commands.append_to(&mut arguments);
                self.call(&ADOPT, id, &commands.keys(), &arguments).await?;
                Ok(None)
            }
            Err(why) => Ok(Some(Refusal::new(Reason::Malformed, why))),
        }
    }

    /// Reads the text that another program left as rollback; or says why it cannot be run.
    pub(crate) fn parse_foreign(&self, id: &BusinessId, raw: &[u8]) -> Result<commands::Commands, String> {
        if raw.is_empty() {
            return Err("it has no rollback_cmd".to_owned());
        }
        let command = commands::Command::parse(raw).map_err(|e| e.to_string())?;
        let commands = commands::Commands::new(vec![command]).map_err(|e| e.to_string())?;
        if self.client.is_cluster() {
            let record = id.record_key();
            commands::check_slots(std::iter::once(record.as_slice()).chain(commands.keys()))
                .map_err(|e| e.to_string())?;
        }
        Ok(commands)
    }

    /// Calls a function with the keys of a record, then those of commands.
    pub(crate) async fn call(
        &self,
        function: &Function,
        id: &BusinessId,
        keys: &[&[u8]],
        arguments: &[Vec<u8>],
    ) -> Result<Value, Error> {
        let own = keys::of(id, self.client.is_cluster());
        let keys: Vec<&[u8]> = own.iter().map(Vec::as_slice).chain(keys.iter().copied()).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        self.client.call(function, &keys, &arguments).await
    }
}

/// A length of time as the functions take it: milliseconds.
pub(crate) fn threshold(time: std::time::Duration) -> Vec<u8> {
    time.as_millis().min(TIMEOUT_MAX.as_millis()).to_string().into_bytes()
}
