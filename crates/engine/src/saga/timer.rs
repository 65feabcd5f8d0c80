//! The short waits of a saga in memory; the long ones are in the store's due index.

use std::sync::Arc;

use amends_core::Time;
use futures_util::future::BoxFuture;

use crate::steady::Steady;

/// One timer, set anew only when its time changes: most sagas have one deadline for all their life.
#[derive(Default)]
pub(crate) struct Timer(Option<(Time, BoxFuture<'static, ()>)>);

impl Timer {
    pub(crate) fn set(&mut self, at: Option<Time>, clock: &Arc<Steady>) {
        if self.0.as_ref().map(|(set, _)| *set) == at {
            return;
        }
        self.0 = at.map(|at| {
            let clock = clock.clone();
            let sleep: BoxFuture<'static, ()> = Box::pin(async move { clock.sleep_until(at).await });
            (at, sleep)
        });
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Returns when its time has come, and is then unset. Never, if it is not set.
    pub(crate) async fn rings(&mut self) {
        match &mut self.0 {
            Some((_, sleep)) => sleep.await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }
}
