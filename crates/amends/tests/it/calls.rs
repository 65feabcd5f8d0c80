//! What a handler is told, and participants that are elsewhere.

use std::time::{Duration, SystemTime};

use amends::{Amends, Call, Idempotency, Outcome, ParticipantConfig, Saga, StartError, Step};
use amends_core::OpKind;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Seen, in_memory, started};

#[tokio::test]
async fn a_call_says_whose_it_is_and_how_long_it_may_take() {
    let seen = Seen::default();
    let noting = seen.clone();
    let step = Step::new("act")
        .action(move |call: Call, input: String| {
            let left = call.expires().duration_since(SystemTime::now()).unwrap_or_default();
            assert!(left <= Duration::from_secs(60), "{left:?}");
            assert!(call.epoch() > 0 && !call.is_query() && call.action_key().is_none());
            assert_eq!((call.step(), call.operation(), call.attempt()), ("act", OpKind::Action, 1));
            assert_eq!(call.key_hash().len(), 32);
            noting.note(format!("{} {} {input}", call.saga(), call.key()));
            assert!(call.fact::<u8>("act").is_err(), "its own fact is not there yet");
            async { Ok(()) }
        })
        .without_effect()
        .idempotency(Idempotency::Replay)
        .timeout(Duration::from_secs(60));
    let saga = Saga::<String>::builder("one", 1).step(step).build().unwrap();
    let amends = started(&saga).await;
    let handle = amends.submit(&saga, "a b:1", &"hello".to_owned()).await.unwrap();
    assert!(matches!(handle.outcome().await.unwrap(), Outcome::Completed(_)));
    assert_eq!(seen.all(), ["a b:1 a b:1:act:action hello"]);
}

#[tokio::test]
async fn steps_in_process_and_over_http_share_a_saga() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heard = Seen::default();
    let hearing = heard.clone();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            let request = String::from_utf8(request).unwrap();
            hearing.note(request.rsplit("\r\n").next().unwrap());
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\nconnection: close\r\n\r\n{\"n\": 7}";
            stream.write_all(answer).await.unwrap();
        }
    });
    let saga = Saga::<u32>::builder("mixed", 1)
        .step(Step::new("count").action(|_: Call, n: u32| async move { Ok(n + 1) }).without_effect())
        .participant("mail", json!({ "idempotency": "replay" }))
        .step_tree(json!({
            "name": "tell",
            "effect": "none",
            "action": { "to": "mail", "post": "/messages", "body": { "count": "${steps.count.fact}" } },
        }))
        .step(
            Step::new("check")
                .action(|call: Call, _: u32| async move {
                    Ok(call.fact::<serde_json::Value>("tell")?["n"].clone())
                })
                .without_effect(),
        )
        .build()
        .unwrap();
    let amends =
        in_memory().saga(&saga).participant("mail", ParticipantConfig::new(url)).start().await.unwrap();
    let handle = amends.submit(&saga, "mixed:1", &1).await.unwrap();
    let Outcome::Completed(facts) = handle.outcome().await.unwrap() else { panic!() };
    assert_eq!(facts.get::<u32>("check").unwrap(), 7);
    assert_eq!(heard.all(), [r#"{"count":2}"#]);
    server.abort();
}

#[tokio::test]
async fn a_participant_that_cannot_be_is_refused_at_the_start() {
    let wrong = Amends::builder("memory:").participant("mail", ParticipantConfig::new("ftp://host"));
    assert!(matches!(wrong.start().await.unwrap_err(), StartError::Participants(_)));
    let wrong =
        Amends::builder("memory:").participant("local-mail", ParticipantConfig::new("http://127.0.0.1:1"));
    let error = wrong.start().await.unwrap_err().to_string();
    assert!(error.contains("local-mail") && error.contains("name it otherwise"), "{error}");
}
