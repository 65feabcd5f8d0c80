//! An order end to end: lock → local transaction with business rows, state and saga → release → remote steps → compensation.
//!
//! `cargo run -p amends --example order --features rusqlite`. It is the code of `docs/locks.md`, and a test runs it.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use amends::locks::{Locks, ReleaseOutcome};
use amends::{Amends, Call, CommitFailed, Failure, Idempotency, Outcome, Saga, Step};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    order: String,
    amount: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Charged {
    charge: String,
}

/// What comes after the local transaction. The reservation was made in that, so that the first step only knows how to undo it.
fn order_saga(database: &Path) -> Result<Saga<Order>, amends::Invalid> {
    let (undo, finish) = (database.to_owned(), database.to_owned());
    Saga::builder("order", 1)
        .claim("order:${input.order}")
        .step(
            Step::new("reserved")
                .action(|_: Call, _: Order| async { Ok(()) })
                .compensation(move |_: Call, order: Order, ()| {
                    let database = undo.clone();
                    async move { in_state(&database, &order.order, "RESERVED", "CANCELED", "stock = stock + 1") }
                })
                .idempotency(Idempotency::Replay)
                .reaches("RESERVED"),
        )
        .step(
            Step::new("charge")
                .action(charge)
                .compensation(|_: Call, _: Order, _: Charged| async { Ok(()) })
                .idempotency(Idempotency::Replay)
                .reaches("PAID"),
        )
        .step(
            Step::new("finish")
                .action(move |_: Call, order: Order| {
                    let database = finish.clone();
                    async move { in_state(&database, &order.order, "RESERVED", "DONE", "stock = stock") }
                })
                .idempotency(Idempotency::Replay)
                .pivot()
                .reaches("DONE"),
        )
        .build()
}

/// Stands for the payment service: it declines large amounts.
async fn charge(call: Call, order: Order) -> Result<Charged, Failure> {
    if order.amount > 100 {
        return Err(Failure::rejected("card declined"));
    }
    Ok(Charged { charge: call.key_hash() })
}

/// Moves an order from one state to another, once, whoever calls how often: no row means that it was moved before.
fn in_state(database: &Path, order: &str, from: &str, to: &str, stock: &str) -> Result<(), Failure> {
    let mut connection = open(database)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let moved = tx.execute(
        "UPDATE orders SET state = ?3, version = version + 1 WHERE id = ?1 AND state = ?2",
        (order, from, to),
    )?;
    if moved == 1 {
        tx.execute(&format!("UPDATE stock SET {stock} WHERE sku = 'tea'"), ())?;
    }
    tx.commit()?;
    Ok(())
}

// docs: begin take_order
/// Takes an order. What it leaves behind is a saga that finishes or undoes it, or nothing.
async fn take_order(
    locks: &Locks,
    connection: &mut Connection,
    saga: &Saga<Order>,
    order: &Order,
) -> Result<ReleaseOutcome, Box<dyn Error>> {
    let held = locks.acquire(format!("order:{}", order.order), Duration::from_secs(30)).await?;

    // 1. Business rows and state. Whatever fails here, nothing was committed.
    let tx = match reserve(connection, order) {
        Ok(Some(tx)) => tx,
        Ok(None) => return Ok(held.abandon("sold out, or the order was moved by somebody else").await),
        Err(error) => {
            let (error, _release) = held.abandon_after(error, "the local transaction failed").await;
            return Err(error.into());
        }
    };

    // 2. The saga, in the same transaction, which also checks the lock's fencing token.
    let id = format!("order-run:{}", order.order);
    let pending = match held.submit_in(tx, saga, id, order) {
        Ok(pending) => pending,
        Err(not) => {
            let (error, _release) = not.held.abandon_after(not.error, "the saga was not submitted").await;
            return Err(error.into());
        }
    };

    // 3. Only a commit makes something that can be released.
    match pending.commit() {
        Ok(covered) => Ok(covered.release().await),
        Err(CommitFailed::RolledBack(not)) => {
            let (error, _release) = not.held.abandon_after(not.error, "rolled back").await;
            Err(error.into())
        }
        // Neither released nor abandoned: the lease ends by itself, and the scan finds the saga if it is there.
        Err(CommitFailed::Unknown(unsure)) => Err(unsure.into()),
    }
}

/// Reserves by conditional updates: on what is in stock, and on (id, state, version). No row means that it is not to be.
fn reserve<'c>(connection: &'c mut Connection, order: &Order) -> rusqlite::Result<Option<Transaction<'c>>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken = tx.execute("UPDATE stock SET stock = stock - 1 WHERE sku = 'tea' AND stock > 0", ())?;
    let moved = tx.execute(
        "UPDATE orders SET state = 'RESERVED', version = version + 1 WHERE id = ?1 AND state = 'INIT' AND version = 0",
        [&order.order],
    )?;
    Ok((taken == 1 && moved == 1).then_some(tx))
}
// docs: end take_order

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}

/// What the business sees of an order: its state, its version, and what is in stock.
fn look(database: &Path, order: &str) -> rusqlite::Result<(String, i64, i64)> {
    let sql = "SELECT state, version, (SELECT stock FROM stock WHERE sku = 'tea') FROM orders WHERE id = ?1";
    open(database)?.query_row(sql, [order], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// Takes two orders, of which the second is declined and undone.
pub(crate) async fn run(database: &Path) -> Result<(), Box<dyn Error>> {
    let saga = order_saga(database)?;
    let amends = Amends::builder(format!("sqlite://{}", database.display())).saga(&saga).start().await?;
    let mut connection = open(database)?;
    connection.execute_batch(
        "CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL, version INTEGER NOT NULL) STRICT;
         CREATE TABLE stock (sku TEXT PRIMARY KEY, stock INTEGER NOT NULL CHECK (stock >= 0)) STRICT;
         INSERT INTO orders VALUES ('1', 'INIT', 0), ('2', 'INIT', 0), ('3', 'INIT', 0);
         INSERT INTO stock VALUES ('tea', 2)",
    )?;
    for (order, amount, ends_as) in [("1", 20, "DONE"), ("2", 2_000, "CANCELED"), ("3", 30, "DONE")] {
        let order = Order { order: order.to_owned(), amount };
        let released = take_order(amends.locks(), &mut connection, &saga, &order).await?;
        assert!(matches!(released, ReleaseOutcome::Released), "{released}");
        let run = amends.handle(&saga, format!("order-run:{}", order.order))?;
        let outcome = run.outcome().await?;
        match ends_as {
            "DONE" => assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}"),
            _ => assert_eq!(outcome, Outcome::Compensated { reason: "charge: card declined".into() }),
        }
        let (state, version, _) = look(database, &order.order)?;
        assert_eq!((state.as_str(), version), (ends_as, 2));
    }
    assert_eq!(look(database, "3")?.2, 0, "two are sold, and what was declined is back in stock");
    amends.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    run(&folder.path().join("orders.db")).await
}
