//! A TCP proxy between the engine and one participant that harms connections on purpose.
//!
//! It reads requests only to tell where one ends, and which of them a [`Rule`] means; what it does to them it does to bytes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amends_shop::Draw;
use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::patience::until;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// The largest request passed on: far more than any definition here makes.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// No more drawn troubles in a row than this: with five failures in a row the engine leaves a participant alone for a while, and
/// what is shown here is what happens when it does not.
const ROW_MAX: u32 = 2;

/// What is done to a connection when a request comes along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Request and answer each take this much longer.
    Delay(Duration),
    /// The connection is reset; nothing of the request gets through.
    Reset,
    /// The request gets through; the connection is reset when its answer comes.
    ResetAtAnswer,
    /// The request gets through; of its answer the first bytes, then the connection is closed.
    AnswerCut(usize),
    /// The first bytes of the request get through, then the participant's side is closed and the engine's left open.
    HalfOpen(usize),
    /// One way: nothing more gets through to the participant. The engine's side stays open.
    NoRequests,
    /// One way: nothing more comes back. Requests get through.
    NoAnswers,
    /// The request is kept, and delivered this much later, whatever became of whoever sent it.
    Late(Duration),
}

impl Trouble {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay(_) => "connection delayed",
            Self::Reset => "connection reset",
            Self::ResetAtAnswer => "connection reset at the answer",
            Self::AnswerCut(_) => "answer cut",
            Self::HalfOpen(_) => "connection half open",
            Self::NoRequests => "one way: no requests",
            Self::NoAnswers => "one way: no answers",
            Self::Late(_) => "request delivered late",
        }
    }

    fn draw(draw: &mut Draw) -> Self {
        let ms = |n: u32| Duration::from_millis(n.into());
        let bytes = |n: u32| usize::try_from(n).unwrap_or_default();
        match draw.below(8) {
            0 => Self::Delay(ms(draw.below(300))),
            1 => Self::Reset,
            2 => Self::ResetAtAnswer,
            3 => Self::AnswerCut(bytes(draw.below(200))),
            4 => Self::HalfOpen(bytes(draw.below(400))),
            5 => Self::NoRequests,
            6 => Self::NoAnswers,
            _ => Self::Late(ms(400 + draw.below(1_200))),
        }
    }
}

/// Which requests meet which trouble.
#[derive(Debug, Clone)]
pub struct Rule {
    /// A text that stands in the request, such as `POST /charges `.
    pub about: String,
    /// What happens to it.
    pub trouble: Trouble,
    /// How many of them.
    pub times: u32,
}

impl Rule {
    /// The first so many requests in which `about` stands.
    #[must_use]
    pub fn new(about: &str, trouble: Trouble, times: u32) -> Self {
        Self { about: about.to_owned(), trouble, times }
    }
}

/// Troubles drawn for any request.
#[derive(Debug, Clone)]
struct Chance {
    seed: u64,
    rate: f64,
    name: String,
}

/// A proxy. It stops listening when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where the engine finds the participant.
    pub at: SocketAddr,
    shared: Arc<Shared>,
    open: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    to: SocketAddr,
    state: Mutex<State>,
    /// Requests on their way that were kept.
    kept: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    chance: Option<Chance>,
    row: u32,
    requests: u64,
    met: BTreeMap<&'static str, u32>,
    late_answers: Vec<String>,
}

impl Proxy {
    /// Begins to listen for connections to `to`.
    ///
    /// # Errors
    /// If there is no address left.
    pub async fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let shared = Arc::new(Shared { to, state: Mutex::default(), kept: AtomicUsize::new(0) });
        let (open, is_open) = watch::channel(true);
        let accepting = tokio::spawn(accept(listener, at, is_open, shared.clone()));
        Ok(Self { at, shared, open, accepting })
    }

    /// From now on these requests meet this trouble, before all others.
    pub fn rule(&self, rule: Rule) {
        self.shared.lock().rules.push(rule);
    }

    /// From now on this share of all requests meets troubles drawn from the seed.
    pub fn draw(&self, name: &str, seed: u64, rate: f64) {
        self.shared.lock().chance = Some(Chance { seed, rate, name: name.to_owned() });
    }

    /// Whether connections are accepted; if not they are refused, as if nobody listened.
    pub fn accept(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Ends all troubles. What was kept still arrives.
    pub fn calm(&self) {
        let mut state = self.shared.lock();
        state.rules.clear();
        state.chance = None;
        drop(state);
        self.accept(true);
    }

    /// How often each trouble was met.
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u32> {
        self.shared.lock().met.clone()
    }

    /// Returns when everything that was kept has been delivered; gives the first lines of the participant's answers.
    ///
    /// # Errors
    /// If that takes for ever.
    pub async fn delivered(&self) -> Result<Vec<String>> {
        until("what was kept on its way is delivered", || async {
            Ok((self.shared.kept.load(Ordering::SeqCst) == 0).then_some(()))
        })
        .await?;
        Ok(self.shared.lock().late_answers.clone())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to a request.
    fn trouble(&self, request: &[u8]) -> Option<Trouble> {
        let mut state = self.lock();
        state.requests += 1;
        let text = String::from_utf8_lossy(request);
        let ruled = state.rules.iter_mut().find(|rule| rule.times > 0 && text.contains(&rule.about));
        let trouble = match ruled {
            Some(rule) => {
                rule.times -= 1;
                Some(rule.trouble)
            }
            None => state.drawn(),
        };
        if let Some(trouble) = trouble {
            *state.met.entry(trouble.name()).or_default() += 1;
        }
        trouble
    }
}

impl State {
    fn drawn(&mut self) -> Option<Trouble> {
        let Chance { seed, rate, name } = self.chance.as_ref()?;
        let mut draw = Draw::new(*seed, &format!("{name} {}", self.requests));
        if self.row >= ROW_MAX || !draw.happens(*rate) {
            self.row = 0;
            return None;
        }
        self.row += 1;
        Some(Trouble::draw(&mut draw))
    }
}

/// Accepts connections while it may.
async fn accept(
    listener: TcpListener,
    at: SocketAddr,
    mut is_open: watch::Receiver<bool>,
    shared: Arc<Shared>,
) {
    let mut listener = Some(listener);
    loop {
        let Some(listening) = listener.take() else {
            if is_open.wait_for(|open| *open).await.is_err() {
                return;
            }
            // Nobody else takes the port meanwhile but for a moment: it is tried again.
            match TcpListener::bind(at).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
            continue;
        };
        tokio::select! {
            accepted = listening.accept() => {
                if let Ok((near, _)) = accepted {
                    tokio::spawn(link(near, shared.clone()));
                }
                listener = Some(listening);
            }
            closed = is_open.wait_for(|open| !*open) => if closed.is_err() { return },
        }
    }
}

/// What becomes of answers.
enum Answers {
    Pass,
    After(Duration),
    Cut(usize),
    Reset,
    Swallow,
}

/// One connection of the engine. It ends when either side does.
async fn link(mut near: TcpStream, shared: Arc<Shared>) {
    let Ok(mut far) = TcpStream::connect(shared.to).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let mut coming = Vec::new();
    let (mut up, mut down) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut answers = Answers::Pass;
    loop {
        tokio::select! {
            read = near.read(&mut up) => {
                let Ok(n @ 1..) = read else { return };
                coming.extend_from_slice(&up[..n]);
                while let Some(bytes) = whole_request(&coming) {
                    let request: Vec<u8> = coming.drain(..bytes).collect();
                    let trouble = shared.trouble(&request);
                    match trouble {
                        None => answers = Answers::Pass,
                        Some(Trouble::Delay(by)) => {
                            answers = Answers::After(by);
                            tokio::time::sleep(by).await;
                        }
                        Some(Trouble::Reset) => return reset(near),
                        Some(Trouble::ResetAtAnswer) => answers = Answers::Reset,
                        Some(Trouble::AnswerCut(left)) => answers = Answers::Cut(left),
                        Some(Trouble::NoAnswers) => answers = Answers::Swallow,
                        Some(Trouble::HalfOpen(bytes)) => {
                            let _ = far.write_all(&request[..bytes.min(request.len().saturating_sub(1))]).await;
                            drop(far);
                            return stay_silent(near).await;
                        }
                        Some(Trouble::NoRequests) => {
                            // The participant's side stays open too: neither end hears of it.
                            stay_silent(near).await;
                            return drop(far);
                        }
                        Some(Trouble::Late(by)) => {
                            tokio::spawn(deliver(request, by, Kept::one_more(&shared)));
                            return stay_silent(near).await;
                        }
                    }
                    if far.write_all(&request).await.is_err() {
                        return;
                    }
                }
                if coming.len() > REQUEST_BYTES_MAX {
                    return;
                }
            }
            read = far.read(&mut down) => {
                let Ok(n @ 1..) = read else { return };
                let bytes = &down[..n];
                let passed = match &mut answers {
                    Answers::Pass => near.write_all(bytes).await,
                    Answers::After(by) => {
                        tokio::time::sleep(*by).await;
                        near.write_all(bytes).await
                    }
                    Answers::Swallow => Ok(()),
                    Answers::Reset => return reset(near),
                    Answers::Cut(left) if *left <= n => {
                        let _ = near.write_all(&bytes[..*left]).await;
                        return;
                    }
                    Answers::Cut(left) => {
                        *left -= n;
                        near.write_all(bytes).await
                    }
                };
                if passed.is_err() {
                    return;
                }
            }
        }
    }
}

/// How many bytes the first request has, if it is there as a whole.
fn whole_request(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let head = bytes.windows(END.len()).position(|window| window == END)? + END.len();
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let whole = head.checked_add(length.unwrap_or(0))?;
    (bytes.len() >= whole).then_some(whole)
}

/// Closes a connection by a reset: what its peer has not read yet is lost.
fn reset(near: TcpStream) {
    let _ = near.set_zero_linger();
}

/// Says nothing until the other side gives up.
async fn stay_silent(mut near: TcpStream) {
    let mut swallowed = [0; 1024];
    while matches!(near.read(&mut swallowed).await, Ok(1..)) {}
}

/// A request that is still on its way.
struct Kept(Arc<Shared>);

impl Kept {
    fn one_more(shared: &Arc<Shared>) -> Self {
        shared.kept.fetch_add(1, Ordering::SeqCst);
        Self(shared.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.kept.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Delivers a request that nobody waits for any more.
async fn deliver(request: Vec<u8>, by: Duration, kept: Kept) {
    tokio::time::sleep(by).await;
    let Ok(mut far) = TcpStream::connect(kept.0.to).await else { return };
    if far.write_all(&request).await.is_err() {
        return;
    }
    let mut answer = vec![0; CHUNK_BYTES];
    if let Ok(n) = far.read(&mut answer).await {
        let text = String::from_utf8_lossy(&answer[..n]);
        let line = text.lines().next().unwrap_or_default().to_owned();
        kept.0.lock().late_answers.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_body_is_there() {
        let request = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\n";
        assert_eq!(whole_request(request), Some(42));
        assert_eq!(whole_request(&request[..41]), None);
        assert_eq!(whole_request(&request[42..]), Some(19));
        assert_eq!(whole_request(b"GET /b HTTP/1.1\r\n"), None);
    }

    /// What a client gets that sends `request` through a proxy with this trouble, and what the server got.
    async fn through(
        trouble: Option<Trouble>,
        request: &[u8],
    ) -> (Result<Vec<u8>, std::io::ErrorKind>, Vec<u8>) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap()).await.unwrap();
        if let Some(trouble) = trouble {
            proxy.rule(Rule::new("POST", trouble, 1));
        }
        let serving = tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut got = vec![0; 1024];
            let mut all = Vec::new();
            loop {
                let wait = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut got));
                match wait.await {
                    Ok(Ok(n @ 1..)) => {
                        all.extend_from_slice(&got[..n]);
                        if whole_request(&all).is_some() {
                            let _ = stream.write_all(b"0123456789").await;
                        }
                    }
                    Ok(_) | Err(_) => return all,
                }
            }
        });
        let mut client = TcpStream::connect(proxy.at).await.unwrap();
        client.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let mut chunk = [0; 64];
        let answered = loop {
            match tokio::time::timeout(Duration::from_millis(600), client.read(&mut chunk)).await {
                Ok(Ok(0)) | Err(_) => break Ok(answer),
                Ok(Ok(n)) => answer.extend_from_slice(&chunk[..n]),
                Ok(Err(e)) => break Err(e.kind()),
            }
        };
        let got = serving.await.unwrap();
        proxy.delivered().await.unwrap();
        (answered, got)
    }

    #[tokio::test]
    async fn each_trouble_does_what_it_says() {
        let request = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi";
        let whole = request.to_vec();
        let all = Ok(b"0123456789".to_vec());
        for (trouble, answered, got) in [
            (None, all.clone(), whole.clone()),
            (Some(Trouble::Delay(Duration::from_millis(10))), all, whole.clone()),
            (Some(Trouble::Reset), Err(std::io::ErrorKind::ConnectionReset), Vec::new()),
            (Some(Trouble::ResetAtAnswer), Err(std::io::ErrorKind::ConnectionReset), whole.clone()),
            (Some(Trouble::AnswerCut(3)), Ok(b"012".to_vec()), whole.clone()),
            (Some(Trouble::HalfOpen(4)), Ok(Vec::new()), b"POST".to_vec()),
            (Some(Trouble::NoRequests), Ok(Vec::new()), Vec::new()),
            (Some(Trouble::NoAnswers), Ok(Vec::new()), whole),
        ] {
            assert_eq!(through(trouble, request).await, (answered, got), "{trouble:?}");
        }
    }

    #[tokio::test]
    async fn closed_it_refuses_and_opened_it_is_at_the_same_place() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap()).await.unwrap();
        let connects = async |expected: bool| {
            until("the proxy is as it should be", || async {
                Ok((TcpStream::connect(proxy.at).await.is_ok() == expected).then_some(()))
            })
            .await
            .unwrap();
        };
        connects(true).await;
        proxy.accept(false);
        connects(false).await;
        proxy.calm();
        connects(true).await;
    }
}
