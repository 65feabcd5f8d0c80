//! After a commit of which nobody knows there is nothing to release or to abandon, and nothing is committed twice.

use amends::{Pending, Transaction, Unsure};

async fn released(unsure: Unsure) {
    let _ = unsure.release().await;
}

async fn abandoned(unsure: Unsure) {
    let _ = unsure.abandon("nothing was written").await;
}

async fn committed_twice<T: Transaction>(pending: Pending<T>) {
    let _ = pending.commit();
    let _ = pending.commit();
}

fn main() {}
