//! After a commit of which nobody knows there is nothing to release or to abandon; and no foreign transaction can say that it was committed.

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

struct Mine;

impl Transaction for Mine {}

fn main() {}
