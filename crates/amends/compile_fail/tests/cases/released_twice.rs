//! A release takes the lock.

use amends::locks::Covered;

async fn twice(covered: Covered) {
    let _ = covered.release().await;
    let _ = covered.release().await;
}

async fn cloned(covered: Covered) {
    let _ = covered.clone().release().await;
}

fn main() {}
