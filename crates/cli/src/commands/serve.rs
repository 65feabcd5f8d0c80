//! `amends serve`.
use crate::args::Serve;
use crate::exit::{Exit, Failure};
pub(crate) async fn run(_serve: Serve) -> Result<Exit, Failure> {
    Err(Failure::failed("soon", "wait"))
}
