//! Hears that a caller's transaction has committed, by LISTEN. Nothing depends on it: whoever hears nothing looks twice a second.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use crate::pool::{CONNECT_MAX, Pool};

const LISTEN: &str = "LISTEN amends_submission";

/// How long after a connection was lost another one is made.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// A connection that listens, from the first time somebody wants to hear something.
#[derive(Debug, Default)]
pub(crate) struct Knocks {
    came: Arc<Notify>,
    listener: OnceLock<AbortHandle>,
}

impl Knocks {
    /// Returns when a knock was heard since the last time, or may have been missed.
    pub(crate) async fn heard(&self, pool: &Arc<Pool>) {
        self.listener
            .get_or_init(|| tokio::spawn(listen(Arc::clone(pool), Arc::clone(&self.came))).abort_handle());
        self.came.notified().await;
    }
}

impl Drop for Knocks {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

async fn listen(pool: Arc<Pool>, came: Arc<Notify>) {
    loop {
        match until_lost(&pool, &came).await {
            Ok(()) => tracing::debug!("the connection that listens for submissions was closed"),
            Err(error) => tracing::debug!("submissions are not listened for: {error}"),
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Listens until the connection is lost.
async fn until_lost(pool: &Pool, came: &Notify) -> Result<(), tokio_postgres::Error> {
    let Ok(connected) = timeout(CONNECT_MAX, pool.url.connect()).await else { return Ok(()) };
    let (client, mut wire) = connected?;
    let mut asked = pin!(async {
        client.batch_execute(LISTEN).await?;
        // What came before this was heard by nobody.
        came.notify_one();
        // The connection ends with its client.
        std::future::pending::<Result<(), tokio_postgres::Error>>().await
    });
    let mut messages = pin!(async {
        while let Some(message) = poll_fn(|cx| wire.poll_message(cx)).await {
            // Others are warnings.
            if let AsyncMessage::Notification(_) = message? {
                came.notify_one();
            }
        }
        Ok::<(), tokio_postgres::Error>(())
    });
    tokio::select! {
        ended = &mut messages => ended,
        failed = &mut asked => failed,
    }
}
