//! A TCP proxy between one node and its database. It knows nothing of what goes along it, but where a COMMIT does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// How long nothing more comes after the answer to a COMMIT that is to be lost.
const QUIET: Duration = Duration::from_millis(200);

/// What is done to the connections of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// Everything takes this much longer each way, until it is healed.
    Delay(Duration),
    /// All are reset.
    Reset,
    /// Nothing more gets along those there are, and neither end hears of it, until it is healed: then they are reset.
    HalfOpen,
    /// The next COMMIT gets through, and of its answer nothing; then the connection is reset.
    AnswerLost,
}

impl Harm {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay(_) => "database: connections delayed",
            Self::Reset => "database: connections reset",
            Self::HalfOpen => "database: connections half open",
            Self::AnswerLost => "database: answer to COMMIT lost",
        }
    }
}

/// What all connections do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Weather {
    /// Those begun under a smaller number are reset.
    resets: u32,
    /// Those begun under a smaller number are silent.
    silences: u32,
    delay: Duration,
}

#[derive(Debug, Default)]
struct Met {
    lose_answer: AtomicBool,
    harms: Mutex<BTreeMap<&'static str, u32>>,
}

impl Met {
    fn count(&self, harm: Harm) {
        *self.harms.lock().unwrap_or_else(PoisonError::into_inner).entry(harm.name()).or_default() += 1;
    }
}

/// A proxy. It stops listening when it is dropped.
#[derive(Debug)]
pub struct Wire {
    /// Where the node finds its database.
    pub at: SocketAddr,
    weather: watch::Sender<Weather>,
    met: Arc<Met>,
    accepting: JoinHandle<()>,
}

impl Wire {
    /// Begins to listen for connections to `to`.
    ///
    /// # Errors
    /// If there is no address left.
    pub async fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let (weather, seen) = watch::channel(Weather::default());
        let met: Arc<Met> = Arc::default();
        let accepting = tokio::spawn({
            let met = met.clone();
            async move {
                while let Ok((near, _)) = listener.accept().await {
                    tokio::spawn(carry(near, to, seen.clone(), met.clone()));
                }
            }
        });
        Ok(Self { at, weather, met, accepting })
    }

    /// Harms the connections.
    pub fn harm(&self, harm: Harm) {
        match harm {
            Harm::Delay(by) => self.weather.send_modify(|weather| weather.delay = by),
            Harm::Reset => self.weather.send_modify(|weather| weather.resets += 1),
            Harm::HalfOpen => self.weather.send_modify(|weather| weather.silences += 1),
            // Counted when a COMMIT has met it.
            Harm::AnswerLost => return self.met.lose_answer.store(true, Ordering::SeqCst),
        }
        self.met.count(harm);
    }

    /// Ends all harm. What was silent is reset.
    pub fn heal(&self) {
        self.met.lose_answer.store(false, Ordering::SeqCst);
        self.weather.send_modify(|weather| {
            weather.delay = Duration::ZERO;
            weather.resets += u32::from(weather.silences > 0);
        });
    }

    /// How often each harm was done.
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u32> {
        self.met.harms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection. It ends when either side does.
async fn carry(mut near: TcpStream, to: SocketAddr, mut weather: watch::Receiver<Weather>, met: Arc<Met>) {
    let began = *weather.borrow_and_update();
    let Ok(mut far) = TcpStream::connect(to).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (mut up, mut down) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let (mut commits, mut losing) = (Commits::default(), false);
    loop {
        let now = *weather.borrow();
        if now.resets > began.resets {
            let _ = (near.set_zero_linger(), far.set_zero_linger());
            return;
        }
        if now.silences > began.silences {
            // Both sides stay open, and what they send is not even read.
            if weather.changed().await.is_err() {
                return;
            }
            continue;
        }
        tokio::select! {
            changed = weather.changed() => if changed.is_err() { return },
            read = near.read(&mut up) => {
                let Ok(n @ 1..) = read else { return };
                tokio::time::sleep(now.delay).await;
                losing = losing || commits.begins(&up[..n]) && met.lose_answer.swap(false, Ordering::SeqCst);
                if far.write_all(&up[..n]).await.is_err() {
                    return;
                }
                // All of it gets through before its answer is lost.
                if losing && commits.is_whole(&up[..n]) {
                    swallow(&mut far, &mut down).await;
                    met.count(Harm::AnswerLost);
                    let _ = near.set_zero_linger();
                    return;
                }
            }
            read = far.read(&mut down) => {
                let Ok(n @ 1..) = read else { return };
                tokio::time::sleep(now.delay).await;
                if near.write_all(&down[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Where one connection commits: by the word, or by a statement of PostgreSQL that was prepared and commits by itself.
#[derive(Default)]
struct Commits {
    /// What that statement is called.
    statement: Option<Vec<u8>>,
    /// What began last is that statement, and ends with a message of its own.
    by_statement: bool,
}

impl Commits {
    /// What the statement looks like when it is prepared; before it stands its name (message Parse: name, NUL, text).
    const PREPARED: &[u8] = b"\0SELECT amends.commit_expected(";
    /// The message that ends a request (Sync).
    const END: &[u8] = b"S\0\0\0\x04";

    /// Whether a commit is asked for with these bytes, or begins to be.
    fn begins(&mut self, bytes: &[u8]) -> bool {
        let at = bytes.windows(Self::PREPARED.len()).position(|part| part == Self::PREPARED);
        if let Some(at) = at {
            let digits = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            // The driver calls its statements s and a number.
            self.statement = Some(bytes[at.saturating_sub(digits + 1)..at].to_vec());
        }
        self.by_statement = self.statement.as_ref().is_some_and(|name| {
            // Bind: its length, a portal without a name, the statement.
            let bound = [b"\0", name.as_slice(), b"\0"].concat();
            let found = bytes.windows(bound.len()).enumerate().filter(|(_, part)| *part == bound);
            found.map(|(at, _)| at).any(|at| at >= 5 && bytes[at - 5] == b'B')
        });
        self.by_statement || is_commit(bytes)
    }

    /// Whether what began ends with these bytes.
    fn is_whole(&self, bytes: &[u8]) -> bool {
        !self.by_statement || bytes.ends_with(Self::END)
    }
}

/// Whether something is committed with these bytes: a COMMIT by itself, or behind what it commits, but not behind what was only read.
fn is_commit(bytes: &[u8]) -> bool {
    const COMMIT: &[u8] = b"COMMIT";
    const READ_ONLY: &[u8] = b"READ ONLY";
    let ends = bytes.windows(COMMIT.len()).zip(COMMIT.len()..).filter(|(part, _)| *part == COMMIT);
    // Isolation levels are called READ COMMITTED.
    let commits = ends.map(|(_, end)| bytes.get(end)).any(|next| next != Some(&b'T'));
    commits && !bytes.windows(READ_ONLY.len()).any(|part| part == READ_ONLY)
}

/// Reads the answer, however many pieces it comes in.
async fn swallow(far: &mut TcpStream, down: &mut [u8]) {
    // The first may take as long as a sync does.
    let mut patience = Duration::from_secs(10);
    while let Ok(Ok(1..)) = tokio::time::timeout(patience, far.read(down)).await {
        patience = QUIET;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each chunk by `ok`, and tells what it got when the connection ends.
    async fn server() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (tell, told) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let (mut all, mut chunk) = (Vec::new(), [0; 64]);
                    while let Ok(n @ 1..) = stream.read(&mut chunk).await {
                        all.extend_from_slice(&chunk[..n]);
                        let _ = stream.write_all(b"ok").await;
                    }
                    let _ = tell.send(all);
                });
            }
        });
        (at, told)
    }

    /// What a client gets that says `words` on a connection which was there before `harm`.
    async fn say(words: &[u8], harm: Option<Harm>) -> (std::io::Result<Vec<u8>>, Vec<u8>) {
        let (at, mut told) = server().await;
        let wire = Wire::start(at).await.unwrap();
        let mut client = TcpStream::connect(wire.at).await.unwrap();
        let mut answer = [0; 8];
        client.write_all(b"hi").await.unwrap();
        client.read_exact(&mut answer[..2]).await.unwrap();
        if let Some(harm) = harm {
            wire.harm(harm);
            if harm == Harm::Reset {
                // It is seen at once: what is said afterwards is said to nobody.
                let ended = client.read(&mut answer).await.map(|n| answer[..n].to_vec());
                return (ended, told.recv().await.unwrap());
            }
        }
        client.write_all(words).await.unwrap();
        let wait = tokio::time::timeout(Duration::from_millis(600), client.read(&mut answer));
        let got = match wait.await {
            Ok(read) => read.map(|n| answer[..n].to_vec()),
            Err(_) => Ok(b"silence".to_vec()),
        };
        let met: u32 = wire.met().values().sum();
        assert_eq!(met, u32::from(harm.is_some()), "{harm:?}");
        wire.heal();
        drop(client);
        (got, told.recv().await.unwrap())
    }

    #[test]
    fn a_commit_is_told_from_what_only_looks_like_one() {
        assert!(is_commit(b"COMMIT") && is_commit(b"INSERT ...; COMMIT\0"));
        for other in ["BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN READ ONLY; SELECT 1; COMMIT", "SELECT 1"]
        {
            assert!(!is_commit(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_statement_that_commits_by_itself_is_known_by_its_name() {
        let mut commits = Commits::default();
        let bind = b"B\0\0\0\x20\0s7\0...";
        assert!(!commits.begins(bind));
        assert!(!commits.begins(b"P\0\0\0ss7\0SELECT amends.commit_expected($1)\0S\0\0\0\x04"));
        assert!(!commits.begins(b"B\0\0\0\x20\0s77\0..."));
        assert!(commits.begins(bind) && !commits.is_whole(bind));
        assert!(commits.is_whole(b"...E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"));
    }

    #[tokio::test]
    async fn each_harm_does_what_it_says() {
        let ok = b"ok".to_vec();
        let (got, told) = say(b"COMMIT", None).await;
        assert_eq!((got.unwrap(), told), (ok.clone(), b"hiCOMMIT".to_vec()));
        let (got, told) = say(b"COMMIT", Some(Harm::Delay(Duration::from_millis(20)))).await;
        assert_eq!((got.unwrap(), told), (ok, b"hiCOMMIT".to_vec()));
        let (got, told) = say(b"xCOMMIT", Some(Harm::AnswerLost)).await;
        assert_eq!(got.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(told, b"hixCOMMIT");
        let (got, told) = say(b"more", Some(Harm::HalfOpen)).await;
        assert_eq!((got.unwrap(), told), (b"silence".to_vec(), b"hi".to_vec()));
        let (got, told) = say(b"more", Some(Harm::Reset)).await;
        assert_eq!((got.unwrap_err().kind(), told), (std::io::ErrorKind::ConnectionReset, b"hi".to_vec()));
    }
}
