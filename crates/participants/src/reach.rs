//! How a participant is reached, told by its configured URL.

use std::fmt;

use http::Uri;

use crate::address::Address;
use crate::value::Value;

/// The schemes that a driver serves.
const DRIVEN: [&str; 2] = ["redis", "rediss"];

/// How a participant is reached.
pub(crate) enum Reach {
    /// Over HTTP.
    Http(Address),
    /// Through the driver.
    Driven(Value),
}

impl Reach {
    /// Takes a configured URL: `http://…`, `https://…`, `redis://…`, `rediss://…`, or, for the driver, `env:NAME` or `file:PATH`
    /// where the whole URL is.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let value = Value::parse(url);
        match (&value, url.split_once("://")) {
            (Value::Env(_) | Value::File(_), _) => Ok(Self::Driven(value)),
            (Value::Literal(_), Some((scheme, _))) if DRIVEN.contains(&scheme) => {
                check_driven(url)?;
                Ok(Self::Driven(value))
            }
            (Value::Literal(_), _) => Address::parse(url).map(Self::Http),
        }
    }
}

fn check_driven(url: &str) -> Result<(), String> {
    let form = || "must be of the form redis://[user@]host[:port][/database] or rediss://…".to_owned();
    let uri: Uri = url.parse().map_err(|_| form())?;
    let authority = uri.authority().ok_or_else(form)?;
    if authority.host().is_empty() {
        return Err(form());
    }
    let user = authority.as_str().rsplit_once('@').map_or("", |(user, _)| user);
    if user.contains(':') || uri.query().is_some() {
        return Err(
            "must not contain a password; write the whole URL as url = \"env:NAME\" or \"file:PATH\"".into(),
        );
    }
    Ok(())
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(address) => write!(f, "{address}"),
            Self::Driven(value @ (Value::Env(_) | Value::File(_))) => write!(f, "{value:?}"),
            Self::Driven(Value::Literal(_)) => f.write_str("[a server behind a driver]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_tells_how_it_is_reached() {
        for (url, expected) in [
            ("http://127.0.0.1:9001/api", "http://127.0.0.1:9001"),
            ("redis://127.0.0.1:6379/0", "[a server behind a driver]"),
            ("rediss://app@redis.example", "[a server behind a driver]"),
            ("env:WALLET_URL", "env:WALLET_URL"),
            ("file:/run/secrets/wallet", "file:/run/secrets/wallet"),
        ] {
            assert_eq!(format!("{:?}", Reach::parse(url).expect(url)), expected);
        }
        for (url, expected) in [
            ("redis://app:canary@host", "must not contain a password"),
            ("redis://:canary@host", "must not contain a password"),
            ("redis://host/?password=canary", "must not contain a password"),
            ("redis://", "must be of the form redis://"),
            ("redis:///0", "must be of the form redis://"),
            ("memcached://host", "must be of the form http://"),
        ] {
            let said = Reach::parse(url).expect_err(url);
            assert!(said.contains(expected) && !said.contains("canary"), "{url}: {said}");
        }
    }
}
