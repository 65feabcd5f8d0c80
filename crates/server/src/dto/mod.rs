//! What goes over the wire. Core types never do: every conversion is written out here.

mod definition;
mod group;
mod journal;
mod lock;
mod row;
mod saga;
mod stamp;
mod stats;

pub(crate) use definition::{DefinitionDto, DefinitionItem, DefinitionList, DiagnosticDto};
pub(crate) use group::{GroupDto, GroupList};
pub(crate) use journal::{JournalDto, JournalList};
pub(crate) use lock::{Lease, LeaseRenewed, LockDto, LockHeld, LockReleased};
pub(crate) use row::{RowDto, SagaList};
pub(crate) use saga::{SagaDto, is_frozen, place};
pub(crate) use stamp::Stamp;
pub(crate) use stats::StatsDto;
