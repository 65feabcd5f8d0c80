//! Whether a server may hold a store at all.

use amends_store::{Error, Kind};
use tokio_postgres::Client;

use crate::error::{Call, store_error};

/// The oldest version whose statements are used here. Version 15 is the one that is tested.
const VERSION_MIN: i32 = 130_000;

const SETTINGS: &str = "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('fsync'),
    current_setting('full_page_writes'), (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'), current_setting('server_encoding'),
    current_setting('default_transaction_read_only'), current_setting('synchronous_standby_names')";

/// Refuses a server that would lose what it committed or takes no writes, and warns of risks.
///
/// # Errors
/// [`Kind::Refused`], with all that is wrong and what to do about it.
pub(crate) async fn run(client: &Client) -> Result<(), Error> {
    let found = client.query_one(SETTINGS, &[]).await.map_err(|e| store_error(&e, Call::Reads))?;
    let version: i32 = found.get(0);
    let mut wrong = Vec::new();
    if version < VERSION_MIN {
        wrong.push("its version is below 13: use a later one");
    }
    if found.get(1) {
        wrong.push("it is a replica: name the primary");
    }
    let is = |column: usize, value: &str| found.get::<_, &str>(column) == value;
    if is(2, "off") {
        wrong.push("fsync is off, so that a crash can lose or damage what was committed: set it to on");
    }
    if is(3, "off") {
        wrong.push("full_page_writes is off, so that a crash can damage pages: set it to on");
    }
    if is(4, "off") {
        let remedy = "synchronous_commit is off, so that a crash loses what was committed: set it to on, or for this user alone: \
            ALTER ROLE … SET synchronous_commit = on";
        wrong.push(remedy);
    }
    if !is(5, "UTF8") {
        wrong.push("the database's encoding is not UTF8: make one with ENCODING 'UTF8'");
    }
    if is(6, "on") {
        wrong.push("default_transaction_read_only is on: set it to off for this user");
    }
    if (is(4, "local") || is(4, "remote_write")) && !is(7, "") {
        tracing::warn!(
            "PostgreSQL has synchronous standbys, but synchronous_commit does not wait until they have it on disk: a fail-over can lose \
             what was committed"
        );
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Kind::Refused,
        format!("this PostgreSQL server is no place for a store: {}", wrong.join("; ")),
    ))
}
