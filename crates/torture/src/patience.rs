//! Waiting for what must come, without betting on when.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything is waited for. Nothing depends on it but how soon a failure is reported: machines are busy.
pub const LONG: Duration = Duration::from_secs(120);

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Looks again and again until something is there, and gives it.
///
/// # Errors
/// If it is not there within [`LONG`], naming what was waited for; and whatever `look` fails with.
pub async fn until<T, L>(what: &str, mut look: impl FnMut() -> L) -> Result<T>
where
    L: Future<Output = Result<Option<T>>>,
{
    let began = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if began.elapsed() > LONG {
            bail!("waited {} s in vain: {what}", LONG.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
