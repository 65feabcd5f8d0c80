//! Only a commit makes a proof: another one's cannot be rewritten.

use amends::SagaId;
use amends::locks::Covered;

fn rewritten(theirs: Covered, saga: SagaId) -> Covered {
    Covered { saga, ..theirs }
}

fn main() {}
