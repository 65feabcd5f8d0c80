//! What the tests of the machine share.

pub(crate) mod table;
pub(crate) mod words;
