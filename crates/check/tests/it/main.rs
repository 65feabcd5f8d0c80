//! What a check finds in definitions, right and wrong ones, and in machines that break a rule on purpose.

mod corpus;
mod definitions;
mod examples;
mod limits;
mod machines;
mod orders;
mod reports;
mod table;
