//! What a store's URL says: where the database is, and how connections to it are protected.

use std::path::Path;

use amends_store::{Error, Kind};
use rustls::ClientConfig;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tls::{self, Trust};

/// Where a database is, and how it is reached. Made of `postgres://user:password@host:5432/database`, with
/// `?sslmode=disable|prefer|require|verify-ca|verify-full` and `&sslrootcert=FILE` behind it if wanted.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(crate) config: Config,
    tls: ClientConfig,
}

impl std::fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It may hold a password.
        f.debug_struct("PostgresUrl").finish_non_exhaustive()
    }
}

/// A connection that is still to be driven.
pub(crate) type Wire =
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>;

impl PostgresUrl {
    /// Reads a URL. What it says is not repeated in the error beyond `sslmode` and `sslrootcert`: it may hold a password.
    ///
    /// # Errors
    /// [`Kind::Refused`]: it is none, or names certificates that cannot be read.
    pub fn read(url: &str) -> Result<Self, Error> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut others) = (None, None, Vec::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => roots = Some(decoded(value)?),
                Some(_) | None => others.push(option),
            }
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let mut config: Config = format!("{address}{rest}").parse().map_err(|_| refused("cannot be read"))?;
        if config.get_dbname().is_none() {
            return Err(refused("names no database"));
        }
        // "system" is what libpq calls the authorities that the machine trusts.
        let file = roots.as_deref().filter(|file| *file != "system").map(Path::new);
        let (mode, trust) = match (mode.as_deref(), &roots) {
            (Some("disable"), _) => (SslMode::Disable, Trust::Anybody),
            (None | Some("prefer"), _) => (SslMode::Prefer, Trust::Anybody),
            (Some("require"), None) => (SslMode::Require, Trust::Anybody),
            // As everywhere else: whoever names an authority wants it looked at.
            (Some("require"), Some(_)) | (Some("verify-ca"), _) => (SslMode::Require, Trust::Chain),
            (Some("verify-full"), _) => (SslMode::Require, Trust::ChainAndName),
            (Some(_), _) => {
                return Err(refused(
                    "has an sslmode that is none of disable, prefer, require, verify-ca, verify-full",
                ));
            }
        };
        config.ssl_mode(mode);
        Ok(Self { config, tls: tls::config(trust, file)? })
    }

    /// Connects. Whoever asks drives the connection, and sees to it that this does not take for ever.
    pub(crate) async fn connect(&self) -> Result<(Client, Wire), tokio_postgres::Error> {
        self.config.connect(MakeRustlsConnect::new(self.tls.clone())).await
    }
}

fn refused(why: &str) -> Error {
    let message = format!("the store's URL {why}; write postgres://user:password@host:5432/database");
    Error::new(Kind::Refused, message)
}

/// A value of the query as it was meant.
fn decoded(value: &str) -> Result<String, Error> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| refused("has an sslrootcert that is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        PostgresUrl::read(url).unwrap().config.get_ssl_mode()
    }

    #[test]
    fn modes_are_those_of_libpq() {
        for (query, expected) in [
            ("", SslMode::Prefer),
            ("?sslmode=prefer", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=require", SslMode::Require),
            ("?sslmode=verify-full", SslMode::Require),
            ("?application_name=x&sslmode=verify-ca&connect_timeout=3", SslMode::Require),
        ] {
            assert_eq!(mode(&format!("postgres://u:p@host/db{query}")), expected, "{query}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, why) in [
            ("postgres://u:hunter2@host/db?sslmode=verify", "verify-full"),
            ("postgres://u:hunter2@host/db?sslmode=require&sslrootcert=/no/such%20file", "/no/such file"),
            ("postgres://u:hunter2@host/db?nonsense=1", "cannot be read"),
            ("postgres://u:hunter2@host", "names no database"),
        ] {
            let error = PostgresUrl::read(url).unwrap_err();
            assert!(
                error.kind == Kind::Refused
                    && error.message.contains(why)
                    && !error.message.contains("hunter2"),
                "{error}"
            );
        }
        let shown = format!("{:?}", PostgresUrl::read("postgres://u:hunter2@host/db").unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
