//! A way to the server that can be cut.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// A port that leads to a server.
pub(crate) struct Way {
    port: u16,
    cut: Arc<Notify>,
    swallow: Arc<Mutex<Option<Swallow>>>,
}

/// Which answer is to be lost.
#[derive(Debug, Clone, Copy)]
struct Swallow {
    /// What it answers holds this.
    command: &'static [u8],
    /// Whether the server has come to the end of what it was asked before the connection is cut.
    whole: bool,
}

impl Way {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Self { port, cut: Arc::default(), swallow: Arc::default() };
        let (cut, swallow) = (Arc::clone(&way.cut), Arc::clone(&way.swallow));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (cut, swallow) = (Arc::clone(&cut), Arc::clone(&swallow));
                tokio::spawn(async move {
                    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    tokio::select! {
                        () = carry(client, server, &swallow) => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        way
    }

    pub(crate) fn url(&self) -> String {
        format!("mysql://amends:amends@127.0.0.1:{}/amends", self.port)
    }

    /// Ends all connections. What the server has read already, it goes on with.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// The answer to the next script that holds this command is lost when the server has carried it out, and its connection with it.
    pub(crate) fn lose_answer_to(&self, command: &'static str) {
        *self.swallow.lock().unwrap() = Some(Swallow { command: command.as_bytes(), whole: true });
    }

    /// As soon as it begins.
    pub(crate) fn lose_beginning_of_answer_to(&self, command: &'static str) {
        *self.swallow.lock().unwrap() = Some(Swallow { command: command.as_bytes(), whole: false });
    }

    /// Whether an answer is still to be lost.
    pub(crate) fn is_waiting(&self) -> bool {
        self.swallow.lock().unwrap().is_some()
    }
}

/// Both ways, until one ends or an answer is swallowed.
async fn carry(mut client: TcpStream, mut server: TcpStream, swallow: &Mutex<Option<Swallow>>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let (lost, losing) = watch::channel(None);
    let asking = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let asked = &buffer[..read];
            let holds = |swallow: &mut Swallow| {
                asked.windows(swallow.command.len()).any(|part| part == swallow.command)
            };
            if let Some(found) = swallow.lock().unwrap().take_if(holds) {
                lost.send(Some(found)).unwrap();
            }
            if to_server.write_all(asked).await.is_err() {
                return;
            }
        }
    };
    let answering = async {
        let mut buffer = vec![0; 64 * 1024];
        let mut swallowed = Vec::new();
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let answer = &buffer[..read];
            let losing = *losing.borrow();
            match losing {
                None => {
                    if to_client.write_all(answer).await.is_err() {
                        return;
                    }
                }
                Some(Swallow { whole: false, .. }) => return,
                Some(Swallow { whole: true, .. }) => {
                    swallowed.extend_from_slice(answer);
                    if is_whole(&swallowed) {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

/// Whether the last packet is an error, or says that a write was the last one.
fn is_whole(mut packets: &[u8]) -> bool {
    const MORE_RESULTS: u8 = 8;
    let mut last: &[u8] = &[];
    while let [a, b, c, _, rest @ ..] = packets {
        let length = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        if rest.len() < length {
            return false;
        }
        (last, packets) = rest.split_at(length);
    }
    // The numbers of rows and of the last one inserted are short here: one byte, or a mark and two.
    let skip = |at: usize| match last.get(at) {
        Some(0xfc) => at + 3,
        Some(_) | None => at + 1,
    };
    match last.first() {
        Some(0xff) => true,
        Some(0) => last.get(skip(skip(1))).is_some_and(|status| status & MORE_RESULTS == 0),
        Some(_) | None => false,
    }
}
