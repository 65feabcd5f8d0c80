//! A way to the server that can be cut.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What comes after an answer that is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Ends,
    /// Nothing, and neither end hears of it.
    Silence,
}

/// What an answer holds that is to be lost, and what comes then.
type Lost = Mutex<Option<(&'static [u8], Then)>>;

/// A port that leads to a server.
pub(crate) struct Way {
    port: u16,
    cut: Arc<Notify>,
    swallow: Arc<Lost>,
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
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Ends all connections. What the server has read already, it goes on with.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// The next answer to this command is lost, and its connection with it.
    pub(crate) fn lose_answer_to(&self, command: &'static str) {
        *self.swallow.lock().unwrap() = Some((command.as_bytes(), Then::Ends));
    }

    /// The next answer to this command does not come, nor anything else on its connection.
    pub(crate) fn hold_answer_to(&self, command: &'static str) {
        *self.swallow.lock().unwrap() = Some((command.as_bytes(), Then::Silence));
    }
}

/// Both ways, until one ends or an answer is swallowed.
async fn carry(mut client: TcpStream, mut server: TcpStream, swallow: &Lost) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async { drop(tokio::io::copy(&mut from_client, &mut to_server).await) };
    let answering = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let answer = &buffer[..read];
            let lost = swallow
                .lock()
                .unwrap()
                .take_if(|(command, _)| answer.windows(command.len()).any(|part| part == *command));
            if lost.is_some_and(|(_, then)| then == Then::Silence) {
                std::future::pending::<()>().await;
            }
            if lost.is_some() || to_client.write_all(answer).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}
