//! A lock that is held, or whose saga is not committed yet, has no release.

use amends::locks::Held;
use amends::{Pending, Transaction};

async fn held(held: Held) {
    let _ = held.release().await;
}

async fn pending<T: Transaction>(pending: Pending<T>) {
    let _ = pending.release().await;
}

fn main() {}
