//! `amends lock …`: lease locks from scripts and for people. What a lock protects has to check the token.

use std::time::Duration;

use amends_store::locks::{LockName, Owner, Ttl};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::args::{duration, saga_id};
use crate::client::{Api, Payload, encode};
use crate::commands::saga_view::text;
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};
use crate::table::tame;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take a lock that nobody holds; exit code 4 if somebody does
    Acquire {
        /// Its name, such as order:789
        #[arg(value_parser = name)]
        name: String,
        /// How long it is held without renewal
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = ttl)]
        ttl: Ttl,
        /// A random text of your own: repeating the command with the same one is harmless
        #[arg(long, value_name = "TEXT", value_parser = owner)]
        owner: Option<String>,
    },
    /// Hold it longer; exit code 4 if it is yours no more
    Renew {
        #[command(flatten)]
        hold: Hold,
        /// For how long from now
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = ttl)]
        ttl: Ttl,
    },
    /// Let it go, because a saga recovers what is half done; it must have the lock's name as its id or among its claims
    Release {
        #[command(flatten)]
        hold: Hold,
        /// The saga's id
        #[arg(long, value_name = "ID", value_parser = saga_id)]
        saga: String,
    },
    /// Let it go, because there is nothing to recover
    Abandon {
        #[command(flatten)]
        hold: Hold,
        /// Why; kept in the lock's record
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Show who holds it, its last token and its last release
    Show {
        /// Its name
        #[arg(value_parser = name)]
        name: String,
    },
}

/// What a holder shows.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// Its name
    #[arg(value_parser = name)]
    name: String,
    /// The token that it was acquired under
    #[arg(long, value_name = "N")]
    token: u64,
    /// The owner that acquired it; without it the token alone is checked
    #[arg(long, value_name = "TEXT", value_parser = owner)]
    owner: Option<String>,
}

impl Hold {
    fn body(&self) -> Value {
        let mut body = json!({ "token": self.token });
        if let Some(owner) = &self.owner {
            body["owner"] = owner.clone().into();
        }
        body
    }
}

fn name(text: &str) -> Result<String, String> {
    LockName::new(text).map(|name| name.as_str().to_owned()).map_err(|bad| bad.message)
}

fn owner(text: &str) -> Result<String, String> {
    Owner::new(text).map(|owner| owner.as_str().to_owned()).map_err(|bad| bad.message)
}

fn ttl(text: &str) -> Result<Ttl, String> {
    Ttl::new(duration(text)?).map_err(|bad| bad.message)
}

/// Runs one of the commands.
pub(crate) async fn run(command: Command, api: &Api, output: Output) -> Result<Exit, Failure> {
    let shown = |ttl: Ttl| amends_core::definition::show_duration(ttl.ms());
    match command {
        Command::Acquire { name, ttl, owner } => {
            let mut body = json!({ "ttl": shown(ttl) });
            if let Some(owner) = owner {
                body["owner"] = owner.into();
            }
            let lease = send(api, Method::POST, &name, &body).await?;
            output.one(&lease, || format!("token {}\nowner {}\n", lease["token"], text(&lease["owner"])))?;
            if !output.is_for_programs() {
                say(&format!("{} is yours for {}", tame(&name), text(&lease["lease"])));
            }
        }
        Command::Renew { hold, ttl } => {
            let mut body = hold.body();
            body["ttl"] = shown(ttl).into();
            let lease = send(api, Method::PUT, &hold.name, &body).await?;
            output
                .one(&lease, || format!("{} is yours for {}\n", tame(&hold.name), text(&lease["lease"])))?;
        }
        Command::Release { hold, saga } => let_go(api, &hold, "saga", saga, output).await?,
        Command::Abandon { hold, reason } => let_go(api, &hold, "abandon", reason, output).await?,
        Command::Show { name } => {
            let lock = api.get(&path(&name)).await.map_err(of_lock)?.body;
            output.one(&lock, || whole(&lock))?;
        }
    }
    Ok(Exit::Done)
}

async fn let_go(api: &Api, hold: &Hold, why: &str, reason: String, output: Output) -> Result<(), Failure> {
    let mut body = hold.body();
    body[why] = reason.into();
    let released = send(api, Method::DELETE, &hold.name, &body).await?;
    output.one(&released, || format!("{} is free\n", tame(&hold.name)))
}

async fn send(api: &Api, method: Method, name: &str, body: &Value) -> Result<Value, Failure> {
    let answer = api.send(method, &path(name), Some(Payload::json(body)), None, Duration::ZERO).await;
    Ok(answer.map_err(of_lock)?.body)
}

/// What to do next about a refusal, where it is another thing than for a saga.
fn of_lock(mut failure: Failure) -> Failure {
    if failure.exit == Exit::Conflict {
        failure.next = "`amends lock show NAME` shows who holds it and how it was let go last".to_owned();
    }
    failure
}

fn path(name: &str) -> String {
    format!("/v1/locks/{}", encode(name))
}

/// A lock, as people read it.
fn whole(lock: &Value) -> String {
    let mut out = match &lock["held"] {
        Value::Null => format!("{}  free\n", text(&lock["name"])),
        held => format!(
            "{}  held by {} since {}, for {} at least\n",
            text(&lock["name"]),
            text(&held["holder"]),
            text(&held["since"]),
            text(&held["lease"]),
        ),
    };
    if let Some(token) = lock["token"].as_u64() {
        out.push_str(&format!("token {token}\n"));
    }
    let last = &lock["last_release"];
    if !last.is_null() {
        let why = match last["saga"].as_str() {
            Some(saga) => format!("saga {}", tame(saga)),
            None => format!("abandoned: {}", text(&last["abandon"])),
        };
        let (outcome, at) = (text(&last["outcome"]), text(&last["at"]));
        out.push_str(&format!("last release: {outcome} under token {} at {at} ({why})\n", last["token"]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_before_anything_is_sent() {
        assert!(name("order:7").is_ok() && name("").is_err() && name("a\nb").is_err());
        assert!(ttl("30s").is_ok() && ttl("99ms").is_err() && ttl("25h").is_err() && ttl("soon").is_err());
        assert!(owner("x").is_ok() && owner("").is_err());
    }

    #[test]
    fn a_lock_is_shown_in_words() {
        let free = json!({ "name": "a", "token": null, "held": null, "last_release": null });
        assert_eq!(whole(&free), "a  free\n");
        let lock = json!({
            "name": "a", "token": 7, "held": { "holder": "otto", "since": "S", "lease": "30s" },
            "last_release": { "token": 6, "outcome": "released", "saga": null, "abandon": "why", "at": "T" },
        });
        let expected = "a  held by otto since S, for 30s at least\ntoken 7\nlast release: released under token 6 at T (abandoned: why)\n";
        assert_eq!(whole(&lock), expected);
    }
}
