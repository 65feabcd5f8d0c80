//! A participant with a little business: what it did is counted, so that doing it twice would show.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use amends_inbox::{
    Action, Answer, Attempts, BoxError, Compensation, Error, Found, Key, Outcome, RequestHash,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

/// What an effect does beside writing to the business tables.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    Succeed,
    /// Writes, then refuses.
    Refuse,
    /// Writes, then fails.
    Fail,
    /// Answers this.
    Answer(Value),
    /// Writes, tells that it did, and waits for the test.
    Wait(Arc<Gate>),
}

/// Where an effect waits for the test.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) entered: Notify,
    go: Semaphore,
    fails: bool,
}

impl Gate {
    /// A gate behind which the effect succeeds, or fails.
    pub(crate) fn new(fails: bool) -> Arc<Self> {
        Arc::new(Self { entered: Notify::new(), go: Semaphore::new(0), fails })
    }

    pub(crate) fn open(&self) {
        self.go.add_permits(1);
    }
}

/// What an effect comes to once it has written.
pub(crate) async fn end(script: &Script) -> Result<Outcome, BoxError> {
    match script {
        Script::Succeed => Ok(Outcome::Done(json!({"serial": 7}))),
        Script::Refuse => Ok(Outcome::rejected("sold out")),
        Script::Fail => Err("planned".into()),
        Script::Answer(fact) => Ok(Outcome::Done(fact.clone())),
        Script::Wait(gate) => {
            gate.entered.notify_one();
            let _go = gate.go.acquire().await?;
            if gate.fails { Err("planned".into()) } else { Ok(Outcome::Done(json!({"serial": 7}))) }
        }
    }
}

/// A participant on one of the databases. Calls run in transactions that are repeated as the database wishes.
pub(crate) trait World: Clone + Send + Sync + 'static {
    /// Carries an action out. It writes a line `act KEY` and takes one piece from the stock.
    fn act(&self, action: Action, script: Script) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Undoes one. It writes a line `undo KEY` and puts the piece back.
    fn undo(
        &self,
        compensation: Compensation,
        script: Script,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    fn query(&self, key: Key) -> impl Future<Output = Result<Found, Error>> + Send;

    fn forget(&self, limit: u16) -> impl Future<Output = u64> + Send;

    /// Runs SQL that is the same everywhere, and gives the first column of its rows as texts.
    fn ask(&self, sql: String) -> impl Future<Output = Vec<String>> + Send;

    /// Lets so many seconds pass for all records.
    fn age(&self, seconds: u32) -> impl Future<Output = ()> + Send;

    /// Returns when another transaction waits for a lock, or at once where that cannot be seen.
    fn somebody_waits(&self) -> impl Future<Output = ()> + Send;
}

/// How many transactions had to be repeated.
pub(crate) type Repeats = Arc<AtomicU32>;

/// Repeats a transaction as long as the database asks for it.
pub(crate) async fn repeated<F: Future<Output = Result<Answer, Error>>>(
    repeats: &Repeats,
    mut once: impl FnMut() -> F,
) -> Result<Answer, Error> {
    let mut attempts = Attempts::default();
    loop {
        match once().await {
            Err(e) => match attempts.pause_after(&e) {
                Some(pause) => {
                    repeats.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                }
                None => return Err(e),
            },
            Ok(answer) => return Ok(answer),
        }
    }
}

/// The part of a world that reads the same with both databases of `sqlx`. It needs fields `pool` and `repeats`, methods `ask_it`, `age_it`,
/// `wait_for_a_waiter`, and a function `write`.
macro_rules! sqlx_world {
    ($world:ident, $database:ident) => {
        impl $world {
            async fn act_once(&self, action: &Action, script: &Script) -> Result<Answer, Error> {
                let mut tx = self.pool.begin().await?;
                let answer = match $database::action(&mut tx, action).await? {
                    Begun::Answered(answer) => answer,
                    Begun::First(ticket) => {
                        write(&mut tx, "act", action.key(), -1).await?;
                        $database::settle(&mut tx, ticket, end(script).await?).await?
                    }
                };
                tx.commit().await?;
                Ok(answer)
            }

            async fn undo_once(&self, undoing: &Compensation, script: &Script) -> Result<Answer, Error> {
                let mut tx = self.pool.begin().await?;
                let answer = match $database::compensation(&mut tx, undoing).await? {
                    Begun::Answered(answer) => answer,
                    Begun::First(ticket) => {
                        assert!(!ticket.fact().is_null());
                        write(&mut tx, "undo", undoing.action_key(), 1).await?;
                        $database::settle(&mut tx, ticket, end(script).await?).await?
                    }
                };
                tx.commit().await?;
                Ok(answer)
            }
        }

        impl World for $world {
            async fn act(&self, action: Action, script: Script) -> Result<Answer, Error> {
                repeated(&self.repeats, || self.act_once(&action, &script)).await
            }

            async fn undo(&self, compensation: Compensation, script: Script) -> Result<Answer, Error> {
                repeated(&self.repeats, || self.undo_once(&compensation, &script)).await
            }

            async fn query(&self, key: Key) -> Result<Found, Error> {
                $database::query(&mut *self.pool.acquire().await?, &key).await
            }

            async fn forget(&self, limit: u16) -> u64 {
                $database::forget(&self.pool, limit).await.unwrap()
            }

            async fn ask(&self, sql: String) -> Vec<String> {
                self.ask_it(sql).await
            }

            async fn age(&self, seconds: u32) {
                self.age_it(seconds).await;
            }

            async fn somebody_waits(&self) {
                self.wait_for_a_waiter().await;
            }
        }
    };
}
pub(crate) use sqlx_world;

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn request() -> RequestHash {
    RequestHash::of(&[b"POST", b"/slots", b"{}"])
}

pub(crate) fn action_of(saga: &str) -> Action {
    Action::new(key(&format!("{saga}:slot:action")), request())
}

pub(crate) fn compensation_of(saga: &str) -> Compensation {
    Compensation::new(
        key(&format!("{saga}:slot:compensation")),
        key(&format!("{saga}:slot:action")),
        request(),
    )
}

/// The lines of a saga's business, in order.
pub(crate) async fn story(world: &impl World, saga: &str) -> Vec<String> {
    world.ask(format!("SELECT what FROM story WHERE what LIKE '% {saga}:slot%' ORDER BY id")).await
}

/// Pieces in stock: 1000 at the beginning.
pub(crate) async fn stock(world: &impl World) -> i64 {
    world.ask("SELECT left_over FROM stock".into()).await[0].parse().unwrap()
}

/// How many records there are.
pub(crate) async fn records(world: &impl World) -> usize {
    world.ask("SELECT state FROM amends_inbox".into()).await.len()
}

pub(crate) fn too_late() -> Answer {
    Answer::Rejected { reason: "it was undone before it arrived".into() }
}

pub(crate) fn done() -> Answer {
    Answer::Done(json!({"serial": 7}))
}

pub(crate) fn undone() -> Answer {
    Answer::Done(json!({"serial": 7, "undone": true}))
}

pub(crate) fn nothing_to_undo() -> Answer {
    Answer::Done(json!({"undone": false}))
}
