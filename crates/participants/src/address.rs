//! A participant's URL taken apart, and paths appended to it.

use std::fmt;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

/// Where a participant is. Its `Display` is safe to show: there is no user or password in it.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// Scheme, host and port, for connecting.
    pub(crate) origin: Uri,
    /// The `Host` header.
    pub(crate) host: HeaderValue,
    pub(crate) is_https: bool,
    prefix: String,
}

impl Address {
    /// Takes a configured URL apart.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let form = || "must be of the form http://host[:port][/path] or https://…".to_owned();
        if url.contains(['?', '#']) {
            return Err("must not have a query or a fragment; definitions append paths to it".into());
        }
        if !url.is_ascii() {
            return Err(
                "must be ASCII; write an international host in its xn-- form, and a path percent-encoded"
                    .into(),
            );
        }
        let uri: Uri = url.parse().map_err(|_| form())?;
        let scheme = uri.scheme().ok_or_else(form)?.clone();
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(form());
        }
        let authority = uri.authority().ok_or_else(form)?.clone();
        if authority.as_str().contains('@') {
            return Err(
                "must not contain a user or password; use headers = { authorization = \"env:…\" }".into()
            );
        }
        if authority.host().is_empty()
            || (authority.as_str() != authority.host() && authority.port_u16().is_none())
        {
            return Err(form());
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        refuse_dot_segments(&prefix)?;
        let is_https = scheme == Scheme::HTTPS;
        let host = host_header(&authority, is_https)?;
        let origin = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query("/")
            .build()
            .map_err(|_| form())?;
        Ok(Self { origin, host, is_https, prefix })
    }

    /// The target of a request: the URL's path with `path` (and its query) appended.
    ///
    /// # Errors
    /// Why the path cannot be sent.
    pub(crate) fn join(&self, path: &str) -> Result<PathAndQuery, String> {
        if !path.starts_with('/') {
            return Err(format!("the path {path:?} must begin with /"));
        }
        // The parser would silently cut it off.
        if path.contains('#') {
            return Err(format!("the path {path:?} must not contain #; write it as %23"));
        }
        let (segments, _query) = path.split_once('?').unwrap_or((path, ""));
        refuse_dot_segments(segments)?;
        let joined = format!("{}{path}", self.prefix);
        PathAndQuery::try_from(joined)
            .map_err(|_| format!("the path {path:?} has characters that must be percent-encoded"))
    }
}

/// `.` and `..` name another resource than the definition meant once a server resolves them; and a substituted value, such as
/// an id of two dots, must not be able to do that.
fn refuse_dot_segments(path: &str) -> Result<(), String> {
    const STEPS: [&str; 6] = [".", "..", "%2e", ".%2e", "%2e.", "%2e%2e"];
    let is_step = |segment: &&str| STEPS.iter().any(|step| segment.eq_ignore_ascii_case(step));
    match path.split('/').find(is_step) {
        Some(segment) => Err(format!(
            "the path {path:?} has the segment {segment:?}, which servers take as a step upwards"
        )),
        None => Ok(()),
    }
}

fn host_header(authority: &Authority, is_https: bool) -> Result<HeaderValue, String> {
    let default_port = if is_https { 443 } else { 80 };
    let text = match authority.port_u16() {
        Some(port) if port != default_port => authority.as_str(),
        Some(_) | None => authority.host(),
    };
    HeaderValue::from_str(text).map_err(|_| "has a host that cannot stand in a header".to_owned())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.origin.authority().map_or("", Authority::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_appended() {
        for (url, path, host, target) in [
            ("http://127.0.0.1:9001", "/charges", "127.0.0.1:9001", "/charges"),
            ("http://127.0.0.1:9001/", "/charges", "127.0.0.1:9001", "/charges"),
            ("http://127.0.0.1:9001/api", "/charges?a=b", "127.0.0.1:9001", "/api/charges?a=b"),
            (
                "https://pay.example/v1/",
                "/c/order:1:charge:action",
                "pay.example",
                "/v1/c/order:1:charge:action",
            ),
            ("https://pay.example:443", "/", "pay.example", "/"),
            ("https://pay.example:80", "/a%2Fb", "pay.example:80", "/a%2Fb"),
            ("http://[::1]:8080/x", "/..a/...", "[::1]:8080", "/x/..a/..."),
        ] {
            let address = Address::parse(url).expect(url);
            assert_eq!(address.host, host);
            assert_eq!(address.join(path).expect(path).as_str(), target);
        }
    }

    #[test]
    fn unusable_urls_are_refused_without_being_repeated() {
        for (url, expected) in [
            ("payment", "must be of the form"),
            ("127.0.0.1:9001", "must be of the form"),
            ("ftp://host/canary", "must be of the form"),
            ("http://", "must be of the form"),
            ("http:///canary", "must be of the form"),
            ("http://host:99999/canary", "must be of the form"),
            ("http://me:canary@host/", "must not contain a user or password"),
            ("http://canary@host/", "must not contain a user or password"),
            ("http://host/?token=canary", "must not have a query"),
            ("http://host/#canary", "must not have a query or a fragment"),
            ("http://h\u{f6}st/canary", "must be ASCII"),
            ("http://host/a/../b", "step upwards"),
        ] {
            let error = Address::parse(url).expect_err(url);
            assert!(error.contains(expected) && !error.contains("canary"), "{url}: {error}");
        }
    }

    #[test]
    fn paths_that_mean_something_else_are_refused() {
        let address = Address::parse("http://host/api").expect("valid");
        for path in [
            "charges",
            "",
            "/users/..",
            "/users/../admin",
            "/users/%2E%2e",
            "/a/./b",
            "/a#b",
            "/a b",
            "/a\nb",
        ] {
            assert!(address.join(path).is_err(), "{path:?}");
        }
    }
}
