//! A transaction of two parts: it looks at what it depends on, locking it, and upon that writes and commits.

use std::time::{Duration, Instant};

use amends_store::{Error, Kind};

use crate::error::{Call, Fault};
use crate::pool::{Connection, Pool, RACES_MAX, RACING_MAX};
use crate::session::{Answer, Limits};
use crate::sql::{Script, Texts};

/// The longest pause before a transaction that lost a race is tried again.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How a transaction ended that did not commit.
#[derive(Debug)]
pub(crate) enum Undone {
    /// Others were quicker, or the connection had been closed while it was idle; it has to be tried again from the start.
    Race(Error),
    /// It failed: nothing is written.
    Failed(Error),
    /// Whether it committed is not known; by this name one can ask whether its session is over.
    Unknown(Error, String),
}

/// Tries once. `look` begins the transaction; `plan` says, by its answers, what is to be written: with nothing, the transaction is given up. Gives what
/// `plan` gave, and the answers to what it wrote. Dropped on its way, it may have committed or not.
pub(crate) async fn attempt<T>(
    pool: &Pool,
    look: &Script,
    plan: impl FnOnce(Vec<Answer>, Limits) -> Result<(T, Texts), Error>,
) -> Result<(T, Vec<Answer>), Undone> {
    let mut connection = pool.take().await.map_err(Undone::Failed)?;
    let looked = match connection.send(look).await {
        Ok(looked) => looked,
        Err(fault) => {
            let error = fault.tell(Call::Reads);
            let again = fault.is_race() || connection.was_closed(&fault);
            connection.roll_back(&fault).await;
            return Err(if again { Undone::Race(error) } else { Undone::Failed(error) });
        }
    };
    let (value, texts) = match plan(looked, connection.limits()) {
        Ok(planned) => planned,
        Err(error) => {
            connection.leave().await;
            return Err(Undone::Failed(error));
        }
    };
    if texts.is_empty() {
        connection.leave().await;
        return Ok((value, Vec::new()));
    }
    let answers = write(connection, texts.committing()).await?;
    Ok((value, answers))
}

/// Sends the scripts, the last statement of which commits.
async fn write(mut connection: Connection<'_>, scripts: Vec<Script>) -> Result<Vec<Answer>, Undone> {
    let mut answers = Vec::new();
    let last = scripts.len().saturating_sub(1);
    for (nth, script) in scripts.iter().enumerate() {
        match connection.send(script).await {
            Ok(some) => answers.extend(some),
            Err(fault) => {
                let is_decided = nth < last || is_before_commit(&fault, script);
                let name = connection.name().to_owned();
                connection.roll_back(&fault).await;
                return Err(if fault.is_race() {
                    Undone::Race(fault.tell(Call::Reads))
                } else if is_decided {
                    // Without its COMMIT it is undone, at the latest with its session.
                    Undone::Failed(fault.tell(Call::Reads))
                } else {
                    Undone::Unknown(fault.lost(), name)
                });
            }
        }
    }
    connection.done();
    Ok(answers)
}

/// Whether the fault is of a statement before the last one: the server has not come to that.
fn is_before_commit(fault: &Fault, script: &Script) -> bool {
    match fault {
        Fault::Said { done, .. } => done + 1 < script.statements(),
        Fault::Lost(_) | Fault::Silent => false,
        Fault::Unsent(_) => true,
    }
}

/// How often one transaction was tried.
#[derive(Debug)]
pub(crate) struct Races {
    count: u32,
    since: Instant,
}

impl Races {
    pub(crate) fn new() -> Self {
        Self { count: 0, since: Instant::now() }
    }

    /// Waits for the next try after one that lost a race.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if there were enough.
    pub(crate) async fn again(&mut self, lost: &Error) -> Result<(), Error> {
        if self.count >= RACES_MAX || self.since.elapsed() > RACING_MAX {
            let tries = self.count + 1;
            let message =
                format!("others were quicker {tries} times, nothing was written; try again ({lost})");
            return Err(Error::new(Kind::Unavailable, message));
        }
        // The first one is over by now; of many, one has got through each time.
        tokio::time::sleep(PAUSE_MAX.min(Duration::from_millis(u64::from(self.count)))).await;
        self.count += 1;
        Ok(())
    }
}

impl Pool {
    /// A whole transaction, tried until others are not quicker.
    ///
    /// # Errors
    /// [`Kind::Indeterminate`] if the answer to its COMMIT was lost.
    pub(crate) async fn transact<T>(
        &self,
        look: &Script,
        mut plan: impl FnMut(Vec<Answer>, Limits) -> Result<(T, Texts), Error>,
    ) -> Result<(T, Vec<Answer>), Error> {
        let mut races = Races::new();
        let error = loop {
            match attempt(self, look, &mut plan).await {
                Ok(done) => return Ok(done),
                Err(Undone::Race(error)) => match races.again(&error).await {
                    Ok(()) => {}
                    Err(error) => break error,
                },
                Err(Undone::Failed(error) | Undone::Unknown(error, _)) => break error,
            }
        };
        self.health.note(&error);
        Err(error)
    }
}
