//! Messages that wake a scanner. They may be lost: then it looks when its interval is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::cluster::ClusterClient;
use redis::{AsyncConnectionConfig, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError};
use tokio::sync::Notify;

use crate::log::WAKE_CHANNEL;

/// What a subscription reports. Any number of messages is one wake-up.
#[derive(Debug, Default)]
struct Heard {
    message: Notify,
    is_over: AtomicBool,
}

/// A connection that is kept for as long as messages are wanted: dropped, it ends.
type Listening = Box<dyn std::any::Any + Send + Sync>;

/// A subscription that is made again when it broke.
pub(super) struct Wake {
    url: Option<String>,
    is_cluster: bool,
    heard: Arc<Heard>,
    listening: Option<Listening>,
}

impl Wake {
    pub(super) fn new(url: Option<String>, is_cluster: bool) -> Self {
        Self { url, is_cluster, heard: Arc::default(), listening: None }
    }

    /// Subscribes, unless it has.
    pub(super) async fn listen(&mut self) {
        if self.heard.is_over.load(Ordering::Relaxed) {
            self.listening = None;
        }
        let (Some(url), None) = (&self.url, &self.listening) else { return };
        self.heard = Arc::default();
        let subscribed =
            if self.is_cluster { in_cluster(url, &self.heard).await } else { on_one(url, &self.heard).await };
        match subscribed {
            Ok(listening) => self.listening = Some(listening),
            // The error's category alone: the whole may repeat the URL.
            Err(e) => tracing::debug!("no messages wake the scanner: {}", e.category()),
        }
    }

    /// Waits for a message.
    pub(super) async fn woken(&self) {
        self.heard.message.notified().await;
    }
}

fn hear(heard: &Arc<Heard>) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    let heard = heard.clone();
    move |push| {
        match push.kind {
            PushKind::Message | PushKind::SMessage => heard.message.notify_one(),
            PushKind::Disconnection => heard.is_over.store(true, Ordering::Relaxed),
            _ => {}
        }
        Ok(())
    }
}

async fn on_one(url: &str, heard: &Arc<Heard>) -> Result<Listening, RedisError> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let client = redis::Client::open(info.set_redis_settings(settings))?;
    let config = AsyncConnectionConfig::new().set_push_sender(hear(heard));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    connection.subscribe(WAKE_CHANNEL).await?;
    Ok(Box::new(connection))
}

/// In a cluster by a sharded channel, which only the nodes of its slot pass on.
async fn in_cluster(url: &str, heard: &Arc<Heard>) -> Result<Listening, RedisError> {
    let builder = ClusterClient::builder([url]).use_protocol(ProtocolVersion::RESP3);
    let mut connection = builder.push_sender(hear(heard)).build()?.get_async_connection().await?;
    connection.ssubscribe(WAKE_CHANNEL).await?;
    Ok(Box::new(connection))
}
