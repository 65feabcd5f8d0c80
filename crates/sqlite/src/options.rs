//! How a store is opened. The defaults are right for one engine on a local disk.

use std::time::Duration;

/// Limits and habits of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections for reads that may run at once.
    pub reader_max: usize,
    /// Requests that may wait for the writer; more callers wait before they are let in.
    pub queue_max: usize,
    /// A file of at most this many bytes is checked for corruption when it is opened; 0 checks none.
    pub check_bytes_max: u64,
    /// Pages in the write-ahead log at which they are copied into the database. Large, because a copy costs most by
    /// being made often: at SQLite's own 1,000 it is half of the slowest hundredth of all commits.
    pub checkpoint_pages: u32,
    /// How often the store looks whether it is idle, to empty its log and give its room back to the disk.
    pub idle_interval: Duration,
    /// Memory of the writer's page cache, in KiB.
    pub writer_cache_kib: u32,
    /// Pages of 4 KiB the database may have; `None`: what the disk holds.
    pub page_max: Option<u32>,
    /// How long after finding the disk full the store looks whether it has room again.
    pub probe_interval: Duration,
    /// Whether to open a file on a network filesystem, where locks and syncs may not hold what they promise.
    pub allow_network_filesystem: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reader_max: 4,
            queue_max: 4_096,
            check_bytes_max: 64 << 20,
            checkpoint_pages: 16_000,
            idle_interval: Duration::from_secs(10),
            writer_cache_kib: 32 << 10,
            page_max: None,
            probe_interval: Duration::from_secs(5),
            allow_network_filesystem: false,
        }
    }
}
