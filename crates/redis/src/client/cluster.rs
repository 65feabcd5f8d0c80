//! A cluster: every call goes to the primary of its slot.

use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{Cmd, ConnectionInfo, Value};

use super::error::text;
use super::{Error, ErrorKind, Options};

/// How often a call is sent again when a connection broke or a slot moved.
const RETRIES: u32 = 3;

#[derive(Clone)]
pub(super) struct Cluster {
    connection: ClusterConnection,
    seed: String,
}

impl Cluster {
    pub(super) async fn connect(info: ConnectionInfo, options: Options) -> Result<Self, Error> {
        let seed = info.addr().to_string();
        let failed = |e: redis::RedisError| Error::while_connecting(&seed, &e);
        let client = ClusterClient::builder([info])
            .retries(RETRIES)
            .connection_timeout(options.connect_timeout)
            .response_timeout(options.answer_timeout)
            .build()
            .map_err(failed)?;
        let connection = client.get_async_connection().await.map_err(failed)?;
        Ok(Self { connection, seed })
    }

    pub(super) async fn send(&self, command: Cmd) -> Result<Value, Error> {
        let mut connection = self.connection.clone();
        let sent = redis::aio::ConnectionLike::req_packed_command(&mut connection, &command).await;
        sent.map_err(|e| Error::from_reply(&e))
    }

    /// To the primary of a key, or to any.
    pub(super) async fn send_to(&self, command: Cmd, key: Option<&[u8]>) -> Result<Value, Error> {
        let to = match key {
            Some(key) => SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master)),
            None => SingleNodeRoutingInfo::RandomPrimary,
        };
        self.route(command, RoutingInfo::SingleNode(to)).await
    }

    /// To all primaries; all must succeed.
    pub(super) async fn on_primaries(&self, command: Cmd) -> Result<Value, Error> {
        let to = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::AllSucceeded));
        self.route(command, RoutingInfo::MultiNode(to)).await
    }

    pub(super) async fn on_each_primary(&self, command: Cmd) -> Result<Vec<(String, Value)>, Error> {
        let to = (MultipleNodeRoutingInfo::AllMasters, None);
        match self.route(command, RoutingInfo::MultiNode(to)).await? {
            Value::Map(answers) => {
                Ok(answers.into_iter().map(|(node, answer)| (text(&node), answer)).collect())
            }
            other => Err(Error::unreadable("a command to all primaries", &other)),
        }
    }

    pub(super) async fn on_primary(&self, address: &str, command: Cmd) -> Result<Value, Error> {
        let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = parts else {
            return Err(Error::new(ErrorKind::Refused, format!("{address:?} is no address of a server")));
        };
        let to = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
        self.route(command, RoutingInfo::SingleNode(to)).await
    }

    async fn route(&self, command: Cmd, to: RoutingInfo) -> Result<Value, Error> {
        let mut connection = self.connection.clone();
        let answer = connection.route_command(command, to).await.map_err(|e| Error::from_reply(&e))?;
        answer.extract_error().map_err(|e| Error::from_reply(&e))
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("seed", &self.seed).finish_non_exhaustive()
    }
}
