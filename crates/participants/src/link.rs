//! One connection to a participant, driven by the call that uses it.
//!
//! The connection is not a task of its own: it moves only while a call polls it. So the request is written in the very poll that
//! follows the lease check, no wake-up of another task lies between answer and caller, and an idle connection costs nothing
//! but its socket.

use std::error::Error;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service as _;

use crate::address::Address;
use crate::gate::{Gate, Keyhole, Pass};

/// The most bytes of an answer's status line and headers, and of what is buffered while its body is read.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Makes TCP connections, and TLS ones where the URL asks for it. Cloned for each connection.
pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// A connection that serves one call at a time.
pub(crate) struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once it is closed. Boxed, for it is large and the link moves between pool and calls.
    connection: Option<Box<Connection<Gate<Stream>, Full<Bytes>>>>,
    keyhole: Keyhole,
}

/// A complete answer.
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Link {
    /// Connects. Nothing of any request is sent by this.
    ///
    /// # Errors
    /// Why there is no connection: refused, no such host, TLS failed.
    pub(crate) async fn open(mut connector: Connector, address: &Address) -> Result<Self, String> {
        let cannot = |why: String| format!("could not connect to {address}: {why}");
        let stream = connector.call(address.origin.clone()).await.map_err(|error| cannot(chain(&*error)))?;
        let plain = matches!(stream, MaybeHttpsStream::Http(_));
        let (gate, keyhole) = Gate::new(stream, plain);
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .handshake(gate)
            .await
            .map_err(|error| cannot(chain(&error)))?;
        Ok(Self { sender, connection: Some(Box::new(connection)), keyhole })
    }

    /// Whether it can serve another call, as far as can be seen from this side. To be asked once a call's answer is complete.
    pub(crate) async fn is_usable(&mut self) -> bool {
        // Polling it reads what else is there, such as the end of the stream, and only then is it ready for the next request.
        std::future::poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        })
        .await;
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Sends a request and reads the whole answer. The pass tells afterwards whether anything was written.
    ///
    /// Dropping the future closes the connection with it, since the link is then of no further use.
    ///
    /// # Errors
    /// Why there is no complete answer.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        pass: Arc<Pass>,
        body_bytes_max: usize,
    ) -> Result<Received, String> {
        self.keyhole.insert(pass);
        let received = self.receive(request, body_bytes_max).await;
        self.keyhole.clear();
        received
    }

    async fn receive(
        &mut self,
        request: Request<Full<Bytes>>,
        body_bytes_max: usize,
    ) -> Result<Received, String> {
        let (parts, mut incoming) = self.response(request).await?.into_parts();
        let oversized =
            || format!("the answer's body has more than answer_bytes_max ({body_bytes_max}) bytes");
        if incoming.size_hint().lower() > body_bytes_max as u64 {
            return Err(oversized());
        }
        let mut body = Vec::with_capacity(usize::try_from(incoming.size_hint().lower()).unwrap_or(0));
        while let Some(chunk) = self.chunk(&mut incoming).await? {
            if chunk.len() > body_bytes_max - body.len() {
                return Err(oversized());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Received { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    async fn response(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let connection = &mut self.connection;
        std::future::poll_fn(|cx| {
            // The connection first: it writes the request and reads what the other future then yields.
            drive(connection, cx);
            answer.as_mut().poll(cx)
        })
        .await
        .map_err(|error| chain(&error.into_error()))
    }

    async fn chunk(&mut self, incoming: &mut Incoming) -> Result<Option<Bytes>, String> {
        loop {
            let frame = std::future::poll_fn(|cx| {
                // Asking for a frame tells the connection that it is wanted; only then does it read on.
                if let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(cx) {
                    return Poll::Ready(frame);
                }
                self.drive(cx);
                Pin::new(&mut *incoming).poll_frame(cx)
            })
            .await;
            match frame.transpose().map_err(|error| chain(&error))?.map(hyper::body::Frame::into_data) {
                None => return Ok(None),
                Some(Ok(chunk)) => return Ok(Some(chunk)),
                // Trailers: nothing in them is of interest.
                Some(Err(_)) => {}
            }
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }
}

/// Lets the connection read and write what it can. Once it has ended it is dropped, which makes whatever waits for it end too:
/// a request that it had not begun to write comes back unsent.
fn drive(connection: &mut Option<Box<Connection<Gate<Stream>, Full<Bytes>>>>, cx: &mut Context<'_>) {
    if let Some(open) = connection
        && Pin::new(open).poll(cx).is_ready()
    {
        *connection = None;
    }
}

/// An error with its causes. Causes that only repeat what was said are left out.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}
