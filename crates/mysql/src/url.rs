//! A store's URL.

use std::time::Duration;

use amends_store::{Error, Kind};
use mysql_async::{Opts, OptsBuilder, UrlError};

/// Where a store is, and who asks. It may hold a password, and shows none.
#[derive(Clone)]
pub struct MySqlUrl {
    pub(crate) opts: Opts,
}

impl std::fmt::Debug for MySqlUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MySqlUrl").finish_non_exhaustive()
    }
}

impl MySqlUrl {
    /// Reads a URL: `mysql://user:password@host:3306/database`, or `mariadb://…`. What it says is not repeated in the error: it may hold a password.
    ///
    /// # Errors
    /// [`Kind::Refused`].
    pub fn read(url: &str) -> Result<Self, Error> {
        let refuse = |why: &str| {
            let message = format!("the store's URL {why}; write mysql://user:password@host:3306/database");
            Error::new(Kind::Refused, message)
        };
        let url =
            url.strip_prefix("mariadb://").map_or_else(|| url.to_owned(), |rest| format!("mysql://{rest}"));
        let opts = Opts::from_url(&url).map_err(|error| match error {
            UrlError::FeatureRequired { .. }
            | UrlError::UnknownParameter { .. }
            | UrlError::InvalidParamValue { .. } => {
                refuse("has a parameter that is unknown, or whose value is")
            }
            UrlError::Invalid
            | UrlError::InvalidPoolConstraints { .. }
            | UrlError::Parse(_)
            | UrlError::UnsupportedScheme { .. } => refuse("cannot be read"),
        })?;
        if opts.db_name().is_none_or(str::is_empty) {
            return Err(refuse("names no database"));
        }
        if opts.ssl_opts().is_some() {
            return Err(refuse("asks for TLS, which this build cannot do"));
        }
        let opts = OptsBuilder::from_opts(opts)
            // The server may be behind something that listens at the address that was given.
            .prefer_socket(false)
            .tcp_keepalive(Some(Duration::from_secs(30)))
            // A write tells how many rows it found, whether or not they changed.
            .client_found_rows(true)
            // Each session asks the server itself.
            .max_allowed_packet(Some(1 << 30))
            .wait_timeout(Some(28_800))
            .stmt_cache_size(0)
            .connect_attribute("program_name", "amends");
        Ok(Self { opts: opts.into() })
    }
}
