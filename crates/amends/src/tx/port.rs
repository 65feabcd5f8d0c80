//! What a transaction of a driver has to be able to do.

use super::{CommitFailed, NotSubmitted, Pending, Submission, SubmitError};
use crate::locks::{Covered, Held};

/// A transaction in which sagas can be submitted: of sqlx or rusqlite, behind the features of this crate. It cannot be implemented elsewhere: a proof
/// is worth what its maker does.
pub trait Transaction: sealed::Sealed + Sized {
    /// How it answers: at once where the driver blocks, with a future where it does not.
    type Answer<'a, R: 'a>
    where
        Self: 'a;

    #[doc(hidden)]
    fn submit(
        &mut self,
        submission: Result<Submission, SubmitError>,
    ) -> Self::Answer<'_, Result<(), SubmitError>>;

    #[doc(hidden)]
    fn submit_held<'a>(
        self,
        held: Held,
        submission: Result<Submission, SubmitError>,
    ) -> Self::Answer<'a, Result<Pending<Self>, NotSubmitted>>
    where
        Self: 'a;

    #[doc(hidden)]
    fn commit_pending<'a>(pending: Pending<Self>) -> Self::Answer<'a, Result<Covered, CommitFailed>>
    where
        Self: 'a;

    #[doc(hidden)]
    fn roll_back_pending<'a>(pending: Pending<Self>) -> Self::Answer<'a, Held>
    where
        Self: 'a;
}

pub(crate) mod sealed {
    /// Implemented here only.
    pub trait Sealed {}
}
