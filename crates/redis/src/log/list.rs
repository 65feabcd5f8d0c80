//! What there is, by index.

use crate::client::Error;

use super::{BusinessId, DUE, Index, Log, Shard, Words, shards};

/// The most that a list gives.
pub const LIST_MAX: usize = 1_000;
/// How many one call gives: the bound of the function.
const PAGE: usize = 100;

/// Which records are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Pending ones that scanners look after, by the time at which they do next.
    Pending,
    /// Dead letters: pending ones that need a person, by the time since when.
    Parked,
    /// Committed and compensated ones that have not been removed, by the time at which they were settled.
    Settled,
}

impl Which {
    fn index(self) -> Index {
        match self {
            Self::Pending => Index::Due,
            Self::Parked => Index::Parked,
            Self::Settled => Index::Settled,
        }
    }
}

/// One of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its business id.
    pub id: BusinessId,
    /// The time that it is ordered by, in milliseconds of Unix time on the server's clock.
    pub at_ms: u64,
}

/// A page of an index.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) listed: Vec<Listed>,
    /// The server's time.
    pub(crate) now_ms: u64,
    /// When the next becomes old enough.
    pub(crate) next_ms: Option<u64>,
}

impl Log {
    /// The oldest records of a kind, at most `limit` and [`LIST_MAX`]. In a cluster every slot is asked.
    ///
    /// # Errors
    /// Any.
    pub async fn list(&self, which: Which, limit: usize) -> Result<Vec<Listed>, Error> {
        let limit = limit.min(LIST_MAX);
        let mut all = Vec::new();
        for shard in shards(self.client.is_cluster()) {
            let mut skip = 0;
            while skip < limit {
                let page = self.page(shard, which.index(), None, skip).await?;
                let last = page.listed.len() < PAGE;
                skip += page.listed.len();
                all.extend(page.listed);
                if last {
                    break;
                }
            }
        }
        all.sort_by(|a, b| (a.at_ms, &a.id).cmp(&(b.at_ms, &b.id)));
        all.truncate(limit);
        Ok(all)
    }

    /// Up to a hundred of an index, the oldest first: those at least `age_ms` old, or all.
    pub(crate) async fn page(
        &self,
        shard: Shard,
        index: Index,
        age_ms: Option<u64>,
        skip: usize,
    ) -> Result<Page, Error> {
        let age = age_ms.map_or_else(|| "all".to_owned(), |age| age.to_string());
        let (skip, limit) = (skip.to_string(), PAGE.to_string());
        let arguments = [age.as_bytes(), skip.as_bytes(), limit.as_bytes()];
        let answer = self.client.call(&DUE, &[&shard.key(index)], &arguments).await?;
        let mut words = Words::new(&DUE, answer)?;
        if words.next()? != b"due" {
            return Err(words.unreadable());
        }
        let mut page = Page { listed: Vec::new(), now_ms: words.number()?, next_ms: None };
        page.next_ms = words.text()?.parse().ok();
        while !words.is_empty() {
            let at_ms = words.number()?;
            // What no function wrote there is passed over.
            if let Ok(id) = BusinessId::new(words.next()?) {
                page.listed.push(Listed { id, at_ms });
            }
        }
        Ok(page)
    }
}
