//! Who abandons a lock, or hands it to a transaction, has it no more.

use amends::locks::Held;
use amends::{Saga, Transaction};

async fn abandoned(held: Held) -> u64 {
    let _ = held.abandon("nothing was written").await;
    held.token()
}

async fn abandoned_and_submitted<T: Transaction>(held: Held, tx: T, saga: &Saga<()>) {
    let _ = held.abandon("nothing was written").await;
    let _ = held.submit_in(tx, saga, "order:1", &());
}

async fn submitted_and_abandoned<T: Transaction>(held: Held, tx: T, saga: &Saga<()>) {
    let _ = held.submit_in(tx, saga, "order:1", &());
    let _ = held.abandon("nothing was written").await;
}

fn main() {}
