//! A proof belongs to the lock that it was made of: it can neither be handed over nor made by hand.

use amends::SagaId;
use amends::locks::{Covered, Held};

async fn handed_over(mine: Held, theirs: Covered) {
    let _ = theirs.release_of(mine).await;
}

fn made_by_calling(mine: Held, saga: SagaId) -> Covered {
    Covered::from((mine, saga))
}

fn main() {}
