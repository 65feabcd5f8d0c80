//! `amends doctor`.
use crate::args::Doctor;
use crate::exit::{Exit, Failure};
use crate::output::Output;
pub(crate) async fn run(_doctor: &Doctor, _server: &str, _output: Output) -> Result<Exit, Failure> {
    Err(Failure::failed("soon", "wait"))
}
