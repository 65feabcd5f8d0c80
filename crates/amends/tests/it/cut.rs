//! A way to a database that breaks at a word.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Where the word is when the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server never gets it.
    BeforeTheServer,
    /// The server has answered it, and the answer is lost.
    AfterTheServer,
}

/// Passes one connection on to a local port, until a word comes from the client.
pub(crate) struct CuttingProxy {
    port: u16,
    task: JoinHandle<()>,
}

impl CuttingProxy {
    pub(crate) async fn start(to: u16, word: &'static [u8], cut: Cut) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await.unwrap();
            pass(client, server, word, cut).await;
        });
        Self { port, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, word: &[u8], cut: Cut) {
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => match read {
                Ok(n) if n > 0 => {
                    if asked[..n].windows(word.len()).any(|window| window == word) {
                        if cut == Cut::AfterTheServer {
                            server.write_all(&asked[..n]).await.unwrap();
                            assert!(server.read(&mut answered).await.unwrap() > 0);
                        }
                        return;
                    }
                    server.write_all(&asked[..n]).await.unwrap();
                }
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(n) if n > 0 => client.write_all(&answered[..n]).await.unwrap(),
                _ => return,
            },
        }
    }
}
