//! What takes part in a transaction.

use amends_store::Error;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::last_seq::LastSeqs;
use super::tally::Tally;

/// An open transaction, with what the writer remembers.
pub(crate) struct Tx<'w> {
    /// The connection; its transaction is begun and committed by the group alone.
    pub(crate) conn: &'w Connection,
    /// Last entries of sagas in flight.
    pub(crate) seqs: &'w mut LastSeqs,
    /// Changes of the counts, written at the end of the transaction.
    pub(crate) tally: &'w mut Tally,
}

/// A request of one or more parts, each all or none, and independent of each other.
pub(crate) trait Job: Send {
    /// How many there are.
    fn parts(&self) -> usize;

    /// Does one and keeps its answer. It checks first and writes then: after an error the whole transaction is undone, and
    /// the part may be asked to run again. Parts run in their order.
    fn run(&mut self, part: usize, tx: &mut Tx<'_>) -> rusqlite::Result<()>;

    /// One was not written, or it is not known; replaces its answer.
    fn fail(&mut self, part: usize, error: Error);

    /// Sends the answers. A caller that does not wait any more is no error.
    fn answer(self: Box<Self>);

    /// Holds the request's place in the queue until it is answered.
    fn keep(&mut self, permit: OwnedSemaphorePermit);
}

/// A job of one part, made of a function.
pub(crate) struct Call<T, F> {
    call: F,
    result: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl<T, F> Call<T, F> {
    pub(crate) fn new(call: F, reply: oneshot::Sender<Result<T, Error>>) -> Self {
        Self { call, result: None, reply, permit: None }
    }
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send,
{
    fn parts(&self) -> usize {
        1
    }

    fn run(&mut self, _part: usize, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        self.result = Some(Ok((self.call)(tx)?));
        Ok(())
    }

    fn fail(&mut self, _part: usize, error: Error) {
        self.result = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            let _ = self.reply.send(result);
        }
    }

    fn keep(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }
}
