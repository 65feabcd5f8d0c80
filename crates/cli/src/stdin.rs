//! The end of standard input, by which a child process learns that its parent wants it no longer, or is gone.

use tokio::io::AsyncReadExt as _;

/// Returns when standard input ends or breaks. What comes before the end is ignored.
pub(crate) async fn ended() {
    let mut stdin = tokio::io::stdin();
    let mut bytes = [0; 64];
    while matches!(stdin.read(&mut bytes).await, Ok(1..)) {}
}
