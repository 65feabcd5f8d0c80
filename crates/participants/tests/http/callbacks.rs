//! Whose signature a callback carries.

use std::collections::BTreeMap;

use amends_participants::signature::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use amends_participants::{
    CallbackUrl, ParticipantConfig, Participants, Settings, SigningKey, Unverified, Value,
};
use http::HeaderMap;

use crate::calls::{NOW, env, settings};

fn participants(secrets: &[(&str, Option<&str>)]) -> Participants {
    let configs: BTreeMap<String, ParticipantConfig> = secrets
        .iter()
        .map(|(name, secret)| {
            let secret = secret.map(|variable| Value::parse(&format!("env:{variable}")));
            ((*name).to_owned(), ParticipantConfig { secret, ..ParticipantConfig::new("http://127.0.0.1:1") })
        })
        .collect();
    let env = env(&[("A", "first"), ("B", "second")]);
    Participants::new(configs, Settings { env, ..settings() }).expect("a valid configuration")
}

fn signed(secret: &str, body: &[u8]) -> HeaderMap {
    let now_s = NOW.0 / 1_000;
    let signature = SigningKey::parse(&secret.into()).expect("a key").sign("e-1", now_s, body);
    HeaderMap::from_iter([
        (WEBHOOK_ID, "e-1".parse().expect("a value")),
        (WEBHOOK_TIMESTAMP, now_s.into()),
        (WEBHOOK_SIGNATURE, signature.parse().expect("a value")),
    ])
}

#[tokio::test]
async fn a_signature_names_those_who_can_have_made_it() {
    let all = participants(&[
        ("bank", Some("B")),
        ("inventory", None),
        ("lost", Some("NOT_SET")),
        ("payment", Some("A")),
        ("wallet", Some("A")),
    ]);
    assert_eq!(all.signed_by(&signed("first", b"{}"), b"{}"), Ok(vec!["payment", "wallet"]));
    assert_eq!(all.signed_by(&signed("second", b"{}"), b"{}"), Ok(vec!["bank"]));
    assert_eq!(all.signed_by(&signed("third", b"{}"), b"{}"), Err(Unverified::Signature));
    assert_eq!(all.signed_by(&signed("first", b"{}"), b"{} "), Err(Unverified::Signature));
    assert_eq!(all.signed_by(&HeaderMap::new(), b"{}"), Err(Unverified::Missing(WEBHOOK_ID)));
}

#[tokio::test]
async fn without_secrets_nothing_is_anybodys() {
    let none = participants(&[("inventory", None)]);
    assert_eq!(none.signed_by(&signed("first", b"{}"), b"{}"), Err(Unverified::Signature));
}

#[test]
fn the_callback_url_is_derived_from_the_public_one() {
    assert_eq!(CallbackUrl::new("http://127.0.0.1:7070"), CallbackUrl::new("http://127.0.0.1:7070/"));
    for bad in ["127.0.0.1:7070", "http://user:pw@host", "http://host/?a=b", ""] {
        assert!(CallbackUrl::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_wrong_configuration_is_refused_with_every_problem() {
    let configs = BTreeMap::from([
        ("Payment".to_owned(), ParticipantConfig::new("http://127.0.0.1:1")),
        ("bank".to_owned(), ParticipantConfig { max_concurrency: 0, ..ParticipantConfig::new("ftp://x") }),
    ]);
    let Err(problems) = Participants::new(configs, settings()) else { panic!("accepted") };
    let fields: Vec<_> =
        problems.iter().map(|problem| format!("{}.{}", problem.participant, problem.field)).collect();
    assert_eq!(fields, ["Payment.name", "bank.url", "bank.max_concurrency"]);
}
