//! One command, or one group of commands, a file.

pub(crate) mod check;
pub(crate) mod dead_letter;
pub(crate) mod definition;
pub(crate) mod doctor;
pub(crate) mod lock;
pub(crate) mod redis;
pub(crate) mod saga;
pub(crate) mod saga_act;
pub(crate) mod saga_view;
pub(crate) mod saga_watch;
pub(crate) mod serve;
