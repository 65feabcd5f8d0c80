//! What the tests of the machine share.

pub mod table;
pub mod words;
