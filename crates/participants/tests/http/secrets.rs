//! What is configured from outside may be missing, wrong or changed; it is never shown.

use amends_core::Answer;
use amends_participants::{ParticipantConfig, Settings, Value};

use crate::calls::{answer, env, outgoing, payment, request, settings, text, with};
use crate::server::{Server, ok};

#[tokio::test]
async fn a_missing_value_is_a_configuration_fault_that_heals() {
    let server = Server::answering(ok("{}")).await;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("secret");
    let participants = payment(ParticipantConfig {
        secret: Some(Value::parse(&format!("file:{}", path.display()))),
        ..ParticipantConfig::new(server.url())
    });
    let expected = format!("participant `payment`: secret: the file {} cannot be read", path.display());
    let said = text(&answer(&participants, request()).await);
    assert!(said.starts_with(&format!("misconfigured: {expected}")), "{said}");
    let fault = participants.states()[0].fault.clone().expect("a fault");
    assert!(fault.starts_with("secret: the file "), "{fault}");
    assert_eq!(server.connections(), 0);

    std::fs::write(&path, "whsec_ not base64").expect("written");
    let said = text(&answer(&participants, request()).await);
    assert!(said.contains("secret: begins with whsec_, but what follows is not base64"), "{said}");

    std::fs::write(&path, "shared").expect("written");
    assert_eq!(text(&answer(&participants, request()).await), "200 {}");
    assert_eq!(participants.states()[0].fault, None);
    assert!(server.seen()[0].header("webhook-signature").is_some());
}

#[tokio::test]
async fn refused_credentials_are_read_again() {
    let server = Server::start(|mut talk| async move {
        while let Some(seen) = talk.request().await {
            match seen.header("authorization") {
                Some("new") => talk.say(ok("{}")).await,
                _ => talk.say("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await,
            }
        }
    })
    .await;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("token");
    std::fs::write(&path, "old").expect("written");
    let mut config = ParticipantConfig::new(server.url());
    config.headers.insert("authorization".into(), Value::parse(&format!("file:{}", path.display())));
    let participants = payment(config);
    assert_eq!(text(&answer(&participants, request()).await), "401 ");
    std::fs::write(&path, "new").expect("written");
    assert_eq!(text(&answer(&participants, request()).await), "200 {}");
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn secrets_are_shown_nowhere() {
    const CANARY: &str = "canary-8731";
    // It answers what it was sent, so that only the client's own words are looked at.
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ncut short").await;
    let environment = env(&[
        ("AUTH", CANARY),
        ("TWO_LINES", "canary-8731\nx"),
        ("NOT_BASE64", "whsec_canary-8731"),
        ("SECRET", CANARY),
    ]);
    let mut shown = Vec::new();
    for (header, secret) in [
        ("env:AUTH", "env:SECRET"),
        ("env:TWO_LINES", "env:SECRET"),
        ("env:AUTH", "env:NOT_BASE64"),
        (CANARY, "env:SECRET"),
    ] {
        let mut config =
            ParticipantConfig { secret: Some(Value::parse(secret)), ..ParticipantConfig::new(server.url()) };
        config.headers.insert("authorization".into(), Value::parse(header));
        shown.push(format!("{config:?} {:?}", config.problems("payment")));
        let participants = with(config, Settings { env: environment.clone(), ..settings() });
        let outgoing = outgoing(amends_core::request::Request { timeout_ms: 200, ..request() });
        shown.push(format!("{outgoing:?}"));
        let answer = answer(&participants, outgoing.request).await;
        assert!(matches!(answer, Answer::Lost(_) | Answer::Misconfigured(_)), "{answer:?}");
        shown.push(format!("{answer:?}"));
        shown.push(format!("{:?}", participants.states()));
    }
    let shown = shown.join("\n");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("headers.authorization: has characters that no header may have"), "{shown}");
    // The canary was in use: the server saw it.
    assert!(server.seen().iter().any(|seen| seen.header("authorization") == Some(CANARY)));
}
