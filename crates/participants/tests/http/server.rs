//! A server of raw sockets: each test says byte by byte how it behaves.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Method, target, version.
    pub(crate) line: String,
    /// `name: value`, as sent.
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .filter_map(|line| line.split_once(": "))
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }
}

#[derive(Default)]
struct Records {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
}

/// A server that runs until the test ends.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    records: Arc<Records>,
}

impl Server {
    /// Serves each connection as `serve` says.
    pub(crate) async fn start<F, Fut>(serve: F) -> Self
    where
        F: Fn(Talk) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let records = Arc::new(Records::default());
        tokio::spawn({
            let records = records.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    records.connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(Talk { stream, read: Vec::new(), records: records.clone() }));
                }
            }
        });
        Self { address, records }
    }

    /// Answers every request with these bytes and keeps the connection.
    pub(crate) async fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::start(move |mut talk| {
            let bytes = bytes.clone();
            async move {
                while talk.request().await.is_some() {
                    talk.say(&bytes).await;
                }
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many whole requests arrived.
    pub(crate) fn requests(&self) -> usize {
        self.records.seen.lock().expect("no panic").len()
    }

    /// The requests that arrived, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.records.seen.lock().expect("no panic").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.records.connections.load(Ordering::SeqCst)
    }
}

/// One connection, seen from the server.
pub(crate) struct Talk {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
    records: Arc<Records>,
}

impl Talk {
    /// Reads a whole request; `None` once the client has closed.
    pub(crate) async fn request(&mut self) -> Option<Seen> {
        let head_len = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8(self.read.drain(..head_len).collect()).expect("an ASCII head");
        let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
        let line = lines.next().expect("a request line");
        let mut seen = Seen { line, headers: lines.collect(), body: Vec::new() };
        let body_len = seen.header("content-length").map_or(0, |len| len.parse().expect("a length"));
        while self.read.len() < body_len {
            self.fill().await?;
        }
        seen.body = self.read.drain(..body_len).collect();
        self.records.seen.lock().expect("no panic").push(seen.clone());
        Some(seen)
    }

    async fn fill(&mut self) -> Option<()> {
        (self.stream.read_buf(&mut self.read).await.ok()? > 0).then_some(())
    }

    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        // The client may have had enough of an endless answer.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Answers with nothing else than the end of the connection by force.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("a socket option");
    }

    /// Waits until the client closes.
    pub(crate) async fn closed(&mut self) {
        while self.fill().await.is_some() {}
    }
}

/// A JSON answer.
pub(crate) fn ok(json: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
        json.len()
    )
}
