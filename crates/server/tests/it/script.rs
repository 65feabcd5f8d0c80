//! Participants that follow a script.

use std::collections::HashMap;
use std::sync::Mutex;

use amends_core::Answer;
use amends_participants::{Called, Caller, Outgoing};
use async_trait::async_trait;

/// What an operation is answered, by step, operation and whether it is its query: `charge:action`, `charge:action?`.
#[derive(Debug, Default)]
pub(crate) struct Script(Mutex<HashMap<String, Vec<Reply>>>);

/// An answer of the script.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A response with this status and JSON body.
    Json(u16, &'static str),
    /// Sent, and nothing came back.
    Lost,
    /// Nothing was sent.
    NotSent,
    /// No answer while the engine lives.
    Hang,
}

impl Script {
    /// From now on an operation is answered so: each once, in order, the last for ever.
    pub(crate) fn answer(&self, operation: &str, replies: &[Reply]) {
        self.0.lock().unwrap().insert(operation.to_owned(), replies.to_vec());
    }

    /// `done` unless the script says otherwise; queries know nothing.
    fn next(&self, operation: &str) -> Reply {
        let mut all = self.0.lock().unwrap();
        match all.get_mut(operation) {
            Some(replies) if replies.len() > 1 => replies.remove(0),
            Some(replies) => replies[0].clone(),
            None if operation.ends_with('?') => Reply::Json(404, "{}"),
            None => Reply::Json(200, r#"{"no":1.10}"#),
        }
    }
}

#[async_trait]
impl Caller for Script {
    async fn call(&self, outgoing: Outgoing) -> Called {
        let request = &outgoing.request;
        let query = if request.is_query { "?" } else { "" };
        let answer = match self.next(&format!("{}:{}{query}", request.step, request.operation.as_str())) {
            Reply::Json(status, body) => Answer::Response { status, retry_after_ms: None, body: body.into() },
            Reply::Lost => Answer::Lost("the script lost it".into()),
            Reply::NotSent => Answer::NotSent("the script refused the connection".into()),
            Reply::Hang => std::future::pending().await,
        };
        Called::Answered { answer, took_ms: 1 }
    }
}
