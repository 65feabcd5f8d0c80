//! Sagas whose journal this node, or another one, could not read: they are looked at again. A later version may know the entry that an
//! earlier one did not, and then takes the saga up by itself.

use std::collections::HashSet;
use std::sync::Arc;

use amends_store::{Cursor, Error, Kind, ListFilter, Row};

use crate::node::Node;
use crate::row::UNREADABLE;
use crate::saga::{Opening, open, saga_of};

/// Groups of dead sagas that are looked through for unreadable ones.
const GROUPS_MAX: usize = 1_000;
/// Rows read at once.
const PAGE: usize = 200;
/// Sagas that are remembered as unreadable. Beyond, they are read in vain once a turn.
const KNOWN_MAX: usize = 10_000;

/// (saga, last entry): what this version cannot read, it need not read twice.
type Known = HashSet<(u64, u64)>;

/// Looks again, as long as the engine lives: at its start, and now and then, since an older node may park some at any time.
pub(crate) async fn run(node: Arc<Node>) {
    let mut known = Known::new();
    loop {
        if node.takes_work()
            && let Err(error) = look(&node, &mut known).await
        {
            tracing::warn!("sagas that could not be read cannot be looked at again: {error}");
        }
        tokio::time::sleep(node.config.times.unreadable_every).await;
    }
}

async fn look(node: &Arc<Node>, known: &mut Known) -> Result<(), Error> {
    let groups = node.store.dead_groups(GROUPS_MAX).await?;
    if !groups.iter().any(|group| is_unreadable(group.error_class.as_deref())) {
        return Ok(());
    }
    let filter = ListFilter { status: vec![Row::DEAD.to_owned()], ..ListFilter::default() };
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = node.store.page(&filter, cursor, PAGE).await?;
        for row in page.rows.iter().filter(|row| is_unreadable(row.error_class.as_deref())) {
            if !node.takes_work() {
                return Ok(());
            }
            again(node, row, known).await?;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn is_unreadable(class: Option<&str>) -> bool {
    class == Some(UNREADABLE)
}

/// Takes a saga up, if it can be read here. It may have been sent anything by who could read it: it goes on as after a crash.
async fn again(node: &Arc<Node>, row: &Row, known: &mut Known) -> Result<(), Error> {
    if known.contains(&(row.rowid, row.seq)) {
        return Ok(());
    }
    if reads(node, row).await? {
        tracing::info!(saga = %row.id, "its journal could not be read, and now can be: it is taken up again");
        // Of several nodes that can read it, the store lets one have it.
        let _ = open(node, &row.id, node.lease(), Opening::Recover);
    } else if known.len() < KNOWN_MAX {
        known.insert((row.rowid, row.seq));
    }
    Ok(())
}

async fn reads(node: &Node, row: &Row) -> Result<bool, Error> {
    let stored = match node.store.load(&row.id).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(false),
        Err(Error { kind: Kind::Corrupt, .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    match node.definition_by_digest(&stored.row.digest).await {
        Ok(Some(definition)) => Ok(saga_of(&definition, &stored.entries).is_ok()),
        Ok(None) => Ok(false),
        Err(Error { kind: Kind::Corrupt, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
