//! Single faults, each with its expected result.

mod callbacks;
mod changes;
mod connections;
mod database;
mod disk;
mod hostile;
mod lives;
mod overtaking;
mod people;
mod redis;
mod shared;
mod starts;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use futures_util::future::BoxFuture;
use tokio::runtime::Runtime;

use crate::servers::Kind;
use crate::store::StoreUrl;

/// A fault.
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// What is expected of amends.
    pub expected: &'static str,
    happen: fn(StoreUrl) -> BoxFuture<'static, Result<()>>,
}

impl Fault {
    /// Lets it happen, on a store of this kind.
    ///
    /// # Errors
    /// If amends did not do what is expected of it, or the fault could not happen.
    pub fn run(&self, store: &StoreUrl) -> Result<()> {
        runtime()?.block_on((self.happen)(store.clone())).context(self.name)
    }
}

/// A runtime for participants and clients.
///
/// # Errors
/// If the system has no threads left.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

macro_rules! fault {
    ($name:ident, $file:ident, $expected:expr) => {
        Fault { name: stringify!($name), expected: $expected, happen: |store| Box::pin($file::$name(store)) }
    };
}

/// Those that happen to Redis where it is the store.
pub const REDIS: &[Fault] = &[
    fault!(
        redis_is_killed_and_stopped,
        redis,
        "503 or waiting meanwhile; what was acknowledged is there, nothing is lost or doubled"
    ),
    fault!(functions_are_flushed_under_load, redis, "functions are loaded again; no failure is seen outside"),
    fault!(redis_runs_out_of_memory, redis, "refused as a whole, no half log; it goes on when there is room"),
    fault!(
        an_old_snapshot_is_restored,
        redis,
        "the regression is noticed, work pauses with an alarm until somebody accepts the loss"
    ),
    fault!(
        a_replica_is_promoted,
        redis,
        "with wait=1 nothing that was acknowledged is lost, and work goes on"
    ),
];

/// Those that happen to PostgreSQL alone.
pub const POSTGRES: &[Fault] = &[fault!(
    databases_disk_is_full,
    database,
    "503 with the reason, ready again by itself when there is room; nothing acknowledged is lost"
)];

/// Those that happen to a database where it is the store, and to nodes that share it.
pub const SHARED: &[Fault] = &[
    fault!(
        database_is_killed_and_stopped,
        database,
        "503 or waiting meanwhile, the lease lapses; what was acknowledged is there, nothing is lost or doubled"
    ),
    fault!(
        answers_to_commits_are_lost,
        database,
        "each is read again by its nonce; no transition happens twice, none is lost"
    ),
    fault!(
        any_node_answers_for_any_saga,
        shared,
        "looked at, waited for, cancelled, retried, submitted again at the node that does not have it: the same answer"
    ),
    fault!(
        a_revived_node_loses_what_it_had,
        shared,
        "what it had is taken over; it says that its lease is over, writes nothing under it, and joins anew"
    ),
    fault!(
        a_newer_version_writes_what_this_one_does_not_know,
        shared,
        "those sagas are parked, visible, with what to do, and no others; who can read them takes them up"
    ),
];

/// All of them that can happen on any store.
pub const ALL: &[Fault] = &[
    fault!(
        reply_is_dropped_after_the_commit,
        connections,
        "the outcome is unknown, then asked or repeated under its key; one effect, going forward and undoing"
    ),
    fault!(connection_is_delayed, connections, "slow is not failed; one effect"),
    fault!(connection_is_reset, connections, "unknown, whether the request got through or not; one effect"),
    fault!(connection_is_half_open, connections, "half a request does nothing; one effect"),
    fault!(connection_is_one_way, connections, "requests or answers vanish; one effect"),
    fault!(connection_is_refused, connections, "not executed: tried again, nothing is asked; one effect"),
    fault!(answer_is_cut_at_any_byte, connections, "an answer that is not whole is no answer; one effect"),
    fault!(
        killed_between_the_record_and_the_send,
        lives,
        "no step is lost and none happens twice, also where the participant knows no keys"
    ),
    fault!(
        stopped_past_the_lease,
        lives,
        "what it was doing counts as unknown, nothing is sent under the old lease; all ends well"
    ),
    fault!(wall_clock_jumps_an_hour, lives, "the lease holds; no timer is missed, fires early or twice"),
    fault!(
        compensation_overtakes_the_action,
        overtaking,
        "a tombstone; the action that arrives later is refused, and nothing is left"
    ),
    fault!(
        compensation_of_what_never_ran,
        overtaking,
        "the undo succeeds without an effect; the step is skipped"
    ),
    fault!(
        fifty_starts_of_one_id,
        starts,
        "one saga and fifty answers of the same saga; another input is refused"
    ),
    fault!(
        fifty_starts_while_the_engine_dies,
        starts,
        "one saga, acknowledged to everybody, each effect once"
    ),
    fault!(
        callbacks_come_five_times_and_reversed,
        callbacks,
        "each operation is settled once; a verdict that disagrees is a contradiction and moves nothing"
    ),
    fault!(
        callback_comes_before_the_answer,
        callbacks,
        "it is durable when it is acknowledged: after a kill the operation is settled, and not sent again"
    ),
    fault!(
        compensation_fails_for_ever,
        people,
        "unknown, then dead, listed, its claims frozen; others go on; it survives a restart; a person ends it"
    ),
    fault!(skip_races_retry, people, "exactly one of two people wins, and is in the journal"),
    fault!(
        disk_is_full,
        disk,
        "503 with the reason, ready again by itself when there is room; nothing acknowledged is lost"
    ),
    fault!(disk_fails, disk, "503 until a restart; nothing acknowledged is lost"),
    fault!(file_is_read_only, disk, "it does not start, and says which file and why; afterwards it goes on"),
    fault!(
        hostile_definitions,
        hostile,
        "each is refused with what is wrong, where, and what to do; nothing is kept"
    ),
    fault!(
        hostile_ids_and_numbers,
        hostile,
        "refused, or carried through participants, store and API to the letter"
    ),
    fault!(
        hostile_answers,
        hostile,
        "no redirect is followed; endless and slow bodies cost neither memory nor time"
    ),
    fault!(
        definition_changes_mid_flight,
        changes,
        "a saga keeps the version it began with, also across a kill"
    ),
    fault!(cancel_races_the_last_success, changes, "each saga ends one way, and its effects with it"),
];

/// Those that can happen on this store.
pub fn of(store: &StoreUrl) -> impl Iterator<Item = &'static Fault> {
    let (own, shared): (&[Fault], &[Fault]) = match store.servers().map(|servers| servers.kind) {
        Some(Kind::Redis) => (REDIS, &[]),
        Some(Kind::Postgres) => (POSTGRES, SHARED),
        Some(Kind::MariaDb) => (&[], SHARED),
        None => (&[], &[]),
    };
    ALL.iter().chain(own).chain(shared)
}

/// The table for people.
#[must_use]
pub fn table() -> String {
    let mut out = String::from("named faults:\n");
    for Fault { name, expected, .. } in ALL.iter().chain(REDIS).chain(POSTGRES).chain(SHARED) {
        let _ = writeln!(out, "  {name}\n      expected: {expected}");
    }
    out
}
