//! Node leases, by the server's clock.

use amends_core::Time;
use amends_store::{Error, NodeLease, Nodes};
use async_trait::async_trait;

use super::RedisStore;
use super::library::{JOIN, LEAVE, RENEW};
use super::words::Arguments;

#[async_trait]
impl Nodes for RedisStore {
    async fn join(&self, node: &str, ttl_ms: u64, _now: Time) -> Result<NodeLease, Error> {
        // Whoever joins has nothing in memory: it may take the store as people have accepted it.
        self.link.adopt().await?;
        let mut arguments = Arguments::default();
        arguments.add(node).number(ttl_ms);
        let mut words = self.link.write_here(&JOIN, &arguments).await?;
        let (epoch, expires_at) = (words.number()?, Time(words.number()?));
        Ok(NodeLease { node: node.to_owned(), epoch, expires_at })
    }

    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, _now: Time) -> Result<Option<NodeLease>, Error> {
        let mut arguments = Arguments::default();
        arguments.add(lease.node.as_str()).number(lease.epoch).number(ttl_ms);
        let mut words = self.link.write_here(&RENEW, &arguments).await?;
        if words.text()? == "over" {
            return Ok(None);
        }
        let expires_at = Time(words.number()?);
        self.link.remember().await;
        Ok(Some(NodeLease { expires_at, ..lease.clone() }))
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        let mut arguments = Arguments::default();
        arguments.add(lease.node.as_str()).number(lease.epoch);
        self.link.write_here(&LEAVE, &arguments).await?;
        self.link.remember().await;
        Ok(())
    }
}
