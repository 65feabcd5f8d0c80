//! Looks after a store that takes no work, until it does again.

use std::sync::Arc;
use std::time::Duration;

use amends_store::Error;

use super::health::Ailment;
use super::library::TOUCH;
use super::link::Link;
use super::words::Arguments;

/// How often it is tried: soon enough for nobody to wait long, rarely enough to cost nothing.
const EVERY: Duration = Duration::from_millis(500);

impl Link {
    /// Begins to look after the store. Ends when it is well, or nobody uses it any more.
    pub(super) fn watch(self: &Arc<Self>) {
        let link = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(link) = link.upgrade() else { return };
                let Some(ailment) = link.health.ailment() else { return };
                match link.try_again(ailment).await {
                    Ok(()) => link.health.is_well(ailment),
                    Err(error) => tracing::debug!("the store takes no work yet: {error}"),
                }
            }
        });
    }

    async fn try_again(self: &Arc<Self>, ailment: Ailment) -> Result<(), Error> {
        match ailment {
            Ailment::Unwritable => self.write(&TOUCH, &Arguments::default()).await.map(drop),
            Ailment::Lost => self.look_again().await.map(drop),
        }
    }
}
