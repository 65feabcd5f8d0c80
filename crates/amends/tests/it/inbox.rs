//! Handlers that keep the inbox in a database of the service's own.

use std::sync::Arc;
use std::time::Duration;

use amends::inbox::{self, Answer, Begun, postgres};
use amends::{Call, Failure, Idempotency, Outcome, Saga, Step, Undone};
use amends_testbed::postgres::Postgres;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::sync::Semaphore;

use crate::support::{Seen, quick_retry, quick_unknown, started};

/// A visit on this day; what goes wrong on its way is in the saga's id.
type Day = String;

#[derive(Debug, Serialize, Deserialize)]
struct Booked {
    day: Day,
}

#[derive(Clone)]
struct Workshop {
    pool: PgPool,
    seen: Seen,
    /// What is late arrives once the test lets it.
    gate: Arc<Semaphore>,
}

impl Workshop {
    async fn open(server: &Postgres) -> Self {
        let pool = PgPool::connect(&server.url()).await.unwrap();
        postgres::install(&pool).await.unwrap();
        server.ask("CREATE TABLE slot (day text PRIMARY KEY, free int NOT NULL)").unwrap();
        server.ask("INSERT INTO slot VALUES ('mon', 100), ('sun', 0)").unwrap();
        Self { pool, seen: Seen::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    async fn book(self, call: Call, day: Day) -> Result<Booked, Failure> {
        if call.saga().as_str().contains("late") {
            self.seen.note("late");
            drop(self.gate.acquire().await?);
        }
        let mut tx = self.pool.begin().await?;
        let begun = postgres::action(&mut tx, &inbox::action(&call, &day)?).await.map_err(inbox::failure)?;
        let answer = match begun {
            Begun::Answered(answer) => answer,
            Begun::First(ticket) => {
                self.seen.note(format!("book {}", call.saga()));
                let take = "UPDATE slot SET free = free - 1 WHERE day = $1 AND free > 0";
                let outcome = match sqlx::query(take).bind(&day).execute(&mut *tx).await?.rows_affected() {
                    0 => inbox::Outcome::rejected("no slot is free"),
                    _ => inbox::done(&Booked { day })?,
                };
                postgres::settle(&mut tx, ticket, outcome).await.map_err(inbox::failure)?
            }
        };
        tx.commit().await?;
        self.seen.note(match &answer {
            Answer::Done(_) => "answered: booked",
            Answer::Rejected { .. } => "answered: refused",
        });
        self.lose_the_first_answer(&call)?;
        inbox::fact(answer)
    }

    async fn unbook(self, call: Call, day: Day) -> Result<Undone, Failure> {
        let mut tx = self.pool.begin().await?;
        let begun = postgres::compensation(&mut tx, &inbox::compensation(&call, &day)?).await;
        let answer = match begun.map_err(inbox::failure)? {
            Begun::Answered(answer) => answer,
            Begun::First(ticket) => {
                self.seen.note(format!("unbook {}", call.saga()));
                let booked: Booked = serde_json::from_value(ticket.fact().clone())?;
                let give = "UPDATE slot SET free = free + 1 WHERE day = $1";
                sqlx::query(give).bind(&booked.day).execute(&mut *tx).await?;
                postgres::settle(&mut tx, ticket, inbox::done(&())?).await.map_err(inbox::failure)?
            }
        };
        tx.commit().await?;
        self.lose_the_first_answer(&call)?;
        inbox::undone(answer)
    }

    async fn look_up(self, call: Call, _: Day) -> Result<amends::Found<Booked>, Failure> {
        let found = postgres::query(&mut *self.pool.acquire().await?, &inbox::Key::new(call.key())?).await;
        inbox::found(found.map_err(inbox::failure)?)
    }

    fn lose_the_first_answer(&self, call: &Call) -> Result<(), Failure> {
        if call.saga().as_str().contains("lost") && call.attempt() == 1 {
            Err("nobody heard of it")?;
        }
        Ok(())
    }

    fn saga(&self) -> Saga<Day> {
        let (book, unbook, look_up, work) = (self.clone(), self.clone(), self.clone(), self.clone());
        let slot = Step::new("slot")
            .action(move |call, day| {
                // What was begun goes on when nobody waits for it any more.
                let booking = tokio::spawn(book.clone().book(call, day));
                async move { booking.await? }
            })
            .fenced_compensation(move |call, day| unbook.clone().unbook(call, day))
            .timeout(Duration::from_millis(500));
        let slot = if self.seen.count("asks") > 0 {
            slot.query(move |call, day| look_up.clone().look_up(call, day))
        } else {
            slot
        };
        let slot = slot.retry(quick_retry()).on_unknown(quick_unknown());
        let repair = Step::new("work")
            .action(move |call: Call, _: Day| {
                work.seen.note(format!("work {}", call.saga()));
                let refused = call.saga().as_str().contains("refused");
                async move { if refused { Err(Failure::rejected("no spare part")) } else { Ok(()) } }
            })
            .idempotency(Idempotency::Replay)
            .pivot();
        Saga::builder("visit", 1).step(slot).step(repair).build().unwrap()
    }

    fn free(&self, server: &Postgres) -> String {
        server.ask("SELECT free FROM slot WHERE day = 'mon'").unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_behind_the_inbox_act_once_and_undo_once_whichever_answers_are_lost() {
    for asks in [false, true] {
        let server = Postgres::start().unwrap();
        let workshop = Workshop::open(&server).await;
        if asks {
            workshop.seen.note("asks");
        }
        let saga = workshop.saga();
        let amends = started(&saga).await;
        let run = async |id: &str, day: &str| {
            amends.submit(&saga, id, &day.to_owned()).await.unwrap().outcome().await.unwrap()
        };
        for id in ["plain", "lost"] {
            assert!(matches!(run(id, "mon").await, Outcome::Completed(_)), "{id}");
        }
        assert_eq!(workshop.free(&server), "98");
        for id in ["refused", "refused and lost"] {
            assert!(matches!(run(id, "mon").await, Outcome::Compensated { .. }), "{id}");
        }
        assert_eq!(workshop.free(&server), "98");
        let Outcome::Compensated { reason } = run("sold out", "sun").await else { panic!() };
        assert!(reason.contains("no slot is free"), "{reason}");
        let seen = workshop.seen;
        for once in
            ["book lost", "work lost", "book refused and lost", "unbook refused and lost", "book sold out"]
        {
            assert_eq!(seen.count(once), 1, "{once}: {:?}", seen.all());
        }
        assert_eq!(seen.count("unbook sold out"), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_is_still_on_its_way_when_it_is_undone_never_happens() {
    let server = Postgres::start().unwrap();
    let workshop = Workshop::open(&server).await;
    let saga = workshop.saga();
    let amends = started(&saga).await;
    let late = inbox::Key::new("late:slot:action").unwrap();
    let handle = amends.submit(&saga, "late", &"mon".to_owned()).await.unwrap();
    workshop.seen.until("late").await;
    handle.cancel("it takes too long").await.unwrap();
    let Outcome::Compensated { .. } = handle.outcome().await.unwrap() else { panic!() };
    workshop.gate.add_permits(1_000);
    let seen = &workshop.seen;
    let (refused, booked) = ("answered: refused", "answered: booked");
    while seen.count(refused) + seen.count(booked) < seen.count("late") {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(seen.count(booked), 0, "each of them found the tombstone");
    assert_eq!((workshop.free(&server).as_str(), seen.count("book late")), ("100", 0));
    let found = postgres::query(&mut workshop.pool.acquire().await.unwrap(), &late).await.unwrap();
    assert!(matches!(found, inbox::Found::Sealed), "{found:?}");
}
