//! The port of participants that do not speak HTTP. The binary registers a driver; what it opens carries out the calls.

use std::sync::Arc;

use amends_core::Answer;
use amends_core::request::Request;
use async_trait::async_trait;
use secrecy::SecretString;

use crate::gate::Pass;

/// Where a participant is, as configured. It is asked for each new connection: a variable or a file may have changed. The error
/// says what is missing, in plain words.
pub type UrlSource = Arc<dyn Fn() -> Result<SecretString, String> + Send + Sync>;

/// Opens participants that are reached by `redis://` and `rediss://`, or by a URL that is in a variable or a file.
pub trait Driver: Send + Sync {
    /// Makes ready to call the participant of this name. Connects to nothing, and never fails: what is wrong with the URL is the
    /// answer to its calls. A second call makes a second one, which shares nothing with the first.
    fn open(&self, name: &str, url: UrlSource) -> Arc<dyn Remote>;
}

/// A participant behind a driver.
#[async_trait]
pub trait Remote: Send + Sync {
    /// Carries out one request, whose body is what the driver understands, and answers in the terms of HTTP: the core's tables
    /// read what it means.
    ///
    /// It connects as needed, then asks [`Pass::may_send`] right before the first byte; if that says no, it sends nothing and
    /// what it answers is not looked at. It ends when the caller drops it, which is after the request's time-out, and
    /// then counts as lost if the pass was given.
    async fn exchange(&self, request: &Request, pass: &Pass) -> Answer;
}
