//! An order that is taken in one transaction of PostgreSQL: business rows, state and the saga that finishes or undoes it.
//!
//! `cargo run -p amends --example local_transaction --features postgres,sqlx-postgres -- postgres://user@host/database`, in an empty database.
//! It is the code of `docs/local-transactions.md`, and a test runs it.

use std::error::Error;

use amends::{Amends, Call, Failure, Idempotency, Outcome, Saga, Step};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Row as _};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    order: i64,
    amount: i64,
}

// docs: begin take_order
/// Takes an order: reserves in this database, and begins the saga that charges, finishes, or undoes. False: it is not to be had.
async fn take_order(pool: &PgPool, saga: &Saga<Order>, order: &Order) -> Result<bool, Box<dyn Error>> {
    let mut tx = pool.begin().await?;
    let moved = sqlx::query(
        "UPDATE orders SET state = 'RESERVED', version = version + 1 WHERE id = $1 AND state = 'INIT' AND version = 1",
    );
    let moved = moved.bind(order.order).execute(&mut *tx).await?.rows_affected();
    let taken = sqlx::query("UPDATE stock SET free = free - 2 WHERE sku = 'tea' AND free >= 2");
    let taken = taken.execute(&mut *tx).await?.rows_affected();
    if (moved, taken) != (1, 1) {
        tx.rollback().await?;
        return Ok(false);
    }
    amends::submit_in(&mut tx, saga, format!("order:{}", order.order), order).await?;
    tx.commit().await?; // from here on the saga will end, whatever dies
    Ok(true)
}
// docs: end take_order

/// What comes after the transaction, which has reserved: the first step only knows how to undo that.
fn order_saga(pool: &PgPool) -> Result<Saga<Order>, amends::Invalid> {
    let (release, finish) = (pool.clone(), pool.clone());
    let reserve = Step::new("reserve")
        .action(|_: Call, _: Order| async { Ok(()) })
        .compensation(move |_: Call, order: Order, ()| {
            let pool = release.clone();
            async move {
                let mut tx = pool.begin().await?;
                let back = "UPDATE orders SET state = 'CANCELED', version = version + 1 WHERE id = $1 AND state = 'RESERVED'";
                if sqlx::query(back).bind(order.order).execute(&mut *tx).await?.rows_affected() == 1 {
                    sqlx::query("UPDATE stock SET free = free + 2 WHERE sku = 'tea'").execute(&mut *tx).await?;
                }
                tx.commit().await?;
                Ok(())
            }
        });
    let charge = Step::new("charge")
        .action(|call: Call, order: Order| async move {
            if order.amount > 100 { Err(Failure::rejected("card declined")) } else { Ok(call.key_hash()) }
        })
        .compensation(|_: Call, _: Order, _charge: String| async { Ok(()) });
    let finish = Step::new("finish").pivot().action(move |_: Call, order: Order| {
        let pool = finish.clone();
        async move {
            let done = "UPDATE orders SET state = 'DONE', version = version + 1 WHERE id = $1 AND state = 'RESERVED'";
            sqlx::query(done).bind(order.order).execute(&pool).await?;
            Ok(())
        }
    });
    Saga::builder("order", 1)
        .claim("${id}")
        .step(reserve.idempotency(Idempotency::Replay).reaches("RESERVED"))
        .step(charge.idempotency(Idempotency::Replay).reaches("PAID"))
        .step(finish.idempotency(Idempotency::Replay).reaches("DONE"))
        .build()
}

/// Takes three orders: one is finished, one is declined and undone, and for the last nothing is left.
pub(crate) async fn run(database: &str) -> Result<(), Box<dyn Error>> {
    let pool = PgPool::connect(database).await?;
    let saga = order_saga(&pool)?;
    let amends = Amends::builder(database).saga(&saga).start().await?;
    for sql in [
        "CREATE TABLE orders (id bigint PRIMARY KEY, state text NOT NULL, version bigint NOT NULL)",
        "CREATE TABLE stock (sku text PRIMARY KEY, free bigint NOT NULL CHECK (free >= 0))",
        "INSERT INTO orders VALUES (1, 'INIT', 1), (2, 'INIT', 1), (3, 'INIT', 1), (4, 'INIT', 1)",
        "INSERT INTO stock VALUES ('tea', 5)",
    ] {
        sqlx::query(sql).execute(&pool).await?;
    }
    for (order, amount, is_taken, ends_as) in
        [(1, 20, true, "DONE"), (2, 2_000, true, "CANCELED"), (3, 30, true, "DONE"), (4, 40, false, "INIT")]
    {
        let taken = take_order(&pool, &saga, &Order { order, amount }).await?;
        assert_eq!(taken, is_taken);
        if taken {
            let outcome = amends.handle(&saga, format!("order:{order}"))?.outcome().await?;
            match ends_as {
                "DONE" => assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}"),
                _ => assert_eq!(outcome, Outcome::Compensated { reason: "charge: card declined".into() }),
            }
        }
        let row = sqlx::query("SELECT state FROM orders WHERE id = $1").bind(order).fetch_one(&pool).await?;
        assert_eq!(row.get::<String, _>(0), ends_as);
    }
    let row = sqlx::query("SELECT free FROM stock").fetch_one(&pool).await?;
    assert_eq!(row.get::<i64, _>(0), 1, "two orders of two are sold, and what was declined is back");
    amends.shutdown(std::time::Duration::from_secs(5)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = std::env::args().nth(1).ok_or("name an empty database: postgres://user@host/database")?;
    run(&database).await
}
