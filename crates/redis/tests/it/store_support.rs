//! A way to the server that can be cut, turned to another server, or made to lose answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A port that leads to a server.
pub(crate) struct Way {
    port: u16,
    to: Arc<AtomicU16>,
    swallows: Arc<AtomicBool>,
}

impl Way {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (to, swallows) = (Arc::new(AtomicU16::new(port)), Arc::new(AtomicBool::new(false)));
        let (target, swallow) = (Arc::clone(&to), Arc::clone(&swallows));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (target, swallow) = (target.load(Ordering::SeqCst), Arc::clone(&swallow));
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await {
                        carry(client, server, swallow).await;
                    }
                });
            }
        });
        Self { port: own, to, swallows }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// New connections lead there; those that are open end with their server.
    pub(crate) fn turn_to(&self, port: u16) {
        self.to.store(port, Ordering::SeqCst);
    }

    /// The next answer is lost, and its connection with it.
    pub(crate) fn lose_the_next_answer(&self) {
        self.swallows.store(true, Ordering::SeqCst);
    }
}

/// Both ways, until one ends or an answer is swallowed.
async fn carry(mut client: TcpStream, mut server: TcpStream, swallows: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let answering = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 || swallows.swap(false, Ordering::SeqCst) {
                return Ok::<_, std::io::Error>(());
            }
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::select! {
        _ = asking => {}
        _ = answering => {}
    }
}
