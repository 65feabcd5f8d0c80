//! HTTPS: who is not trusted gets nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use amends_core::request::Request;
use amends_participants::{Called, Caller as _, ParticipantConfig};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::calls::{answer, leased, payment, request, text};
use crate::server::{Server, ok};

/// A certificate for `localhost`, and a file by which it can be trusted.
struct Identity {
    certified: CertifiedKey<KeyPair>,
    _dir: TempDir,
    pem: PathBuf,
}

fn identity() -> Identity {
    let certified = generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a folder");
    let pem = dir.path().join("ca.pem");
    std::fs::write(&pem, certified.cert.pem()).expect("written");
    Identity { certified, _dir: dir, pem }
}

/// Answers each request on each connection; gives its port.
async fn serve(identity: &Identity) -> u16 {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![identity.certified.cert.der().clone()], key)
        .expect("a key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = [0; 4_096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    let _ = stream.write_all(ok("{}").as_bytes()).await;
                }
            });
        }
    });
    port
}

fn trusting(url: String, ca_file: &Path) -> ParticipantConfig {
    ParticipantConfig { ca_file: Some(ca_file.into()), ..ParticipantConfig::new(url) }
}

#[tokio::test]
async fn a_trusted_participant_is_called_and_its_connection_kept() {
    let identity = identity();
    let port = serve(&identity).await;
    let participants = payment(trusting(format!("https://localhost:{port}"), &identity.pem));
    for _ in 0..3 {
        assert_eq!(text(&answer(&participants, request()).await), "200 {}");
    }
    assert_eq!(participants.states()[0].idle_connections, 1);
    let called = participants.call(leased(request(), Arc::new(|| false))).await;
    assert_eq!(called, Called::LeaseLost);
}

#[tokio::test]
async fn whoever_is_not_who_we_mean_gets_nothing() {
    let (theirs, ours) = (identity(), identity());
    let port = serve(&theirs).await;
    // Another's certificate, and the right one under another name.
    for config in [
        trusting(format!("https://localhost:{port}"), &ours.pem),
        trusting(format!("https://127.0.0.1:{port}"), &theirs.pem),
    ] {
        let answer = text(&answer(&payment(config), request()).await);
        assert!(answer.starts_with("not sent: could not connect to https://"), "{answer}");
        assert!(answer.contains("certificate"), "{answer}");
    }
}

#[tokio::test]
async fn a_handshake_that_fails_or_never_ends_is_not_sent() {
    let plain = Server::start(|mut talk| async move {
        talk.say("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let silent = Server::start(|mut talk| async move { talk.closed().await }).await;
    let ca = identity();
    for (server, timeout_ms, expected) in [
        (&plain, 30_000, "not sent: could not connect"),
        (&silent, 200, "not sent: no connection within 200 ms"),
    ] {
        let participants = payment(trusting(format!("https://localhost:{}", server.address.port()), &ca.pem));
        let answer = text(&answer(&participants, Request { timeout_ms, ..request() }).await);
        assert!(answer.starts_with(expected), "{answer}");
        assert_eq!(server.requests(), 0);
    }
}

#[tokio::test]
async fn an_unusable_ca_file_is_a_configuration_fault_that_heals() {
    let identity = identity();
    let port = serve(&identity).await;
    let dir = tempfile::tempdir().expect("a folder");
    let pem = dir.path().join("ca.pem");
    let participants = payment(trusting(format!("https://localhost:{port}"), &pem));
    let fault = text(&answer(&participants, request()).await);
    assert!(fault.starts_with("misconfigured: ") && fault.contains("cannot be read"), "{fault}");
    std::fs::write(&pem, "no certificate").expect("written");
    let fault = text(&answer(&participants, request()).await);
    assert!(fault.contains("has no certificate"), "{fault}");
    std::fs::copy(&identity.pem, &pem).expect("copied");
    assert_eq!(text(&answer(&participants, request()).await), "200 {}");
}
