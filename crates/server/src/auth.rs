//! Who may do what.
//!
//! With tokens, every request to the API carries one. Without, the server listens on loopback only, and what remains
//! to fear is the browser on the same machine: a page elsewhere that resolves its own name to 127.0.0.1 (so the `Host` must
//! be ours) or that sends a form across (so `Origin` must be ours).

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::App;
use crate::config::{Role, ServerConfig};
use crate::problem::{Kind, Problem};

/// What journals call whoever uses a server without tokens.
const ANONYMOUS: &str = "anonymous";

/// What browsers say about where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";

/// Who may do what, ready to be asked.
#[derive(Debug)]
pub(crate) enum Access {
    /// Everybody with one of these.
    Tokens(Vec<Token>),
    /// Everybody on this machine, under these host names.
    Open { anonymous: Arc<str>, hosts: HashSet<String> },
}

/// A token; the secret itself is not kept.
pub(crate) struct Token {
    name: Arc<str>,
    digest: [u8; 32],
    role: Role,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl Access {
    /// Reads the tokens.
    pub(crate) fn new(config: &ServerConfig, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        if config.tokens.is_empty() {
            let hosts = config.public_url.as_deref().and_then(host_of_url).into_iter().collect();
            return Ok(Self::Open { anonymous: ANONYMOUS.into(), hosts });
        }
        let mut tokens: Vec<Token> = Vec::with_capacity(config.tokens.len());
        for token in &config.tokens {
            let wrong = |what: &str| format!("[server] tokens: `{}` {what}", token.name);
            if token.name.is_empty() || token.name.len() > 64 || token.name.chars().any(char::is_control) {
                return Err(wrong(
                    "is no name for a token; use 1 to 64 characters without control characters",
                ));
            }
            if token.name == ANONYMOUS || tokens.iter().any(|other| *other.name == *token.name) {
                return Err(wrong("is taken; names tell people apart in the audit"));
            }
            let secret = token.token.resolve(env).map_err(|why| wrong(&format!("cannot be read: {why}")))?;
            if secret.is_empty() || !secret.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(wrong(&format!(
                    "({}) must be printable ASCII without spaces, and not empty",
                    token.token
                )));
            }
            let digest = digest(secret.as_bytes());
            if tokens.iter().any(|other| other.digest == digest) {
                return Err(wrong("has the same secret as another; people could not be told apart"));
            }
            tokens.push(Token { name: token.name.as_str().into(), digest, role: token.role });
        }
        Ok(Self::Tokens(tokens))
    }

    /// Whether anything but loopback may be listened on.
    pub(crate) fn fits(&self, address: SocketAddr) -> Result<(), String> {
        match self {
            Self::Open { .. } if !address.ip().to_canonical().is_loopback() => Err(format!(
                "{address} can be reached from other machines, and no tokens are configured: listen on 127.0.0.1, or add \
                 `tokens = [{{ name = \"ops\", token = \"env:AMENDS_OPS_TOKEN\", role = \"admin\" }}]` to [server]"
            )),
            Self::Open { .. } | Self::Tokens(_) => Ok(()),
        }
    }

    /// Whether anybody may do anything.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Open { .. } => true,
            Self::Tokens(_) => false,
        }
    }

    /// Who this request is from, if whoever it is may do what `role` may.
    pub(crate) fn admit(&self, parts: &Parts, role: Role) -> Result<Arc<str>, Problem> {
        match self {
            Self::Open { anonymous, hosts } => {
                check_host(&parts.uri, &parts.headers, hosts)?;
                check_origin(&parts.method, &parts.headers)?;
                Ok(Arc::clone(anonymous))
            }
            Self::Tokens(tokens) => {
                let token = find(tokens, &parts.headers)?;
                if token.role < role {
                    return Err(Problem::new(
                        Kind::Forbidden,
                        format!(
                            "the token `{}` has the role {}; this needs the role {}",
                            token.name,
                            token.role.as_str(),
                            role.as_str()
                        ),
                    ));
                }
                Ok(Arc::clone(&token.name))
            }
        }
    }
}

fn find<'t>(tokens: &'t [Token], headers: &HeaderMap) -> Result<&'t Token, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Problem::unauthenticated(
            "send one header `Authorization: Bearer TOKEN` with a token of this server",
        ));
    };
    let bearer =
        value.as_bytes().split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
    let Some((_, secret)) = bearer else {
        return Err(Problem::unauthenticated("the header `Authorization` must be `Bearer TOKEN`"));
    };
    // Digests are compared, and all of them, in constant time: how long it takes says nothing about any secret.
    let given = digest(secret.trim_ascii());
    let mut found = None;
    for token in tokens {
        if bool::from(token.digest.ct_eq(&given)) {
            found = Some(token);
        }
    }
    found.ok_or_else(|| Problem::unauthenticated("this token is none of this server's"))
}

fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Refuses names that are not ours: a page whose name was made to resolve to this machine still sends its own.
fn check_host(uri: &Uri, headers: &HeaderMap, hosts: &HashSet<String>) -> Result<(), Problem> {
    let header = headers.get(HOST).map(|value| value.to_str().unwrap_or_default());
    let Some(authority) = uri.authority().map(|authority| authority.as_str()).or(header) else {
        return Err(Problem::malformed("the header `Host` is missing").at("Host"));
    };
    let host = host_of(authority);
    if is_loopback(host) || hosts.contains(&host.to_ascii_lowercase()) {
        return Ok(());
    }
    Err(Problem::new(
        Kind::Forbidden,
        "the header `Host` names another machine; without tokens this server answers only to loopback names and to \
         the host of `public_url`",
    ))
}

/// Refuses what a page from elsewhere sends: browsers say where a request comes from, other clients say nothing.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let foreign_site = headers.get(FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none");
    let foreign_origin = headers.get(ORIGIN).is_some_and(|origin| {
        let origin =
            origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
        let own = headers.get(HOST).and_then(|host| host.to_str().ok());
        origin.is_none() || origin != own
    });
    if foreign_site || foreign_origin {
        return Err(Problem::new(Kind::Forbidden, "requests sent by a page of another origin are refused"));
    }
    Ok(())
}

/// The host of `host[:port]`, without the brackets of an IPv6 address.
fn host_of(authority: &str) -> &str {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn host_of_url(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.authority().map(|authority| host_of(authority.as_str()).to_ascii_lowercase())
}

/// Whoever reads.
pub(crate) struct Viewer;

/// Whoever submits and acts: the name of the token.
pub(crate) struct Operator(pub(crate) Arc<str>);

/// Whoever registers definitions.
pub(crate) struct Admin;

impl FromRequestParts<App> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.access().admit(parts, Role::Viewer).map(|_| Self)
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.access().admit(parts, Role::Operator).map(Self)
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.access().admit(parts, Role::Admin).map(|_| Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(text: &str) -> Result<Access, String> {
        let config: ServerConfig = toml::from_str(text).unwrap();
        let env = |name: &str| match name {
            "OPS" => Some("ops-secret".to_owned()),
            "VIEW" => Some("view-secret".to_owned()),
            "SPACED" => Some("two words".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        Access::new(&config, &env)
    }

    fn request(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri("/v1/sagas");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const TWO: &str = r#"tokens = [{ name = "ops", token = "env:OPS", role = "operator" },
                                   { name = "view", token = "env:VIEW", role = "viewer" }]"#;

    #[test]
    fn roles_include_the_ones_before_them() {
        let access = access(TWO).unwrap();
        let may = |secret: &str, role| {
            let admitted =
                access.admit(&request("GET", &[("authorization", &format!("Bearer {secret}"))]), role);
            admitted.map(|who| who.to_string()).map_err(|problem| format!("{problem:?}"))
        };
        assert_eq!(may("view-secret", Role::Viewer).unwrap(), "view");
        assert!(may("view-secret", Role::Operator).unwrap_err().contains("Forbidden"));
        assert_eq!(may("ops-secret", Role::Viewer).unwrap(), "ops");
        assert_eq!(may("ops-secret", Role::Operator).unwrap(), "ops");
        assert!(may("ops-secret", Role::Admin).unwrap_err().contains("Forbidden"));
        for wrong in ["", "ops-secre", "ops-secret1", "OPS-SECRET"] {
            assert!(may(wrong, Role::Viewer).unwrap_err().contains("Unauthenticated"), "{wrong}");
        }
    }

    #[test]
    fn only_one_bearer_token_counts() {
        let access = access(TWO).unwrap();
        let refused =
            |headers: &[(&str, &str)]| access.admit(&request("GET", headers), Role::Viewer).is_err();
        assert!(refused(&[]));
        assert!(refused(&[("authorization", "ops-secret")]));
        assert!(refused(&[("authorization", "Basic ops-secret")]));
        assert!(refused(&[("authorization", "Bearer ops-secret"), ("authorization", "Bearer view-secret")]));
        assert!(!refused(&[("authorization", "bearer  ops-secret")]));
    }

    #[test]
    fn tokens_that_cannot_work_are_refused_by_name() {
        let token = |name: &str, secret: &str| {
            let text = format!(
                "tokens = [{{ name = \"ops\", token = \"env:OPS\", role = \"admin\" }}, {{ name = \"{name}\", token = \"{secret}\", role = \"viewer\" }}]"
            );
            access(&text).unwrap_err()
        };
        assert!(token("ops", "env:VIEW").contains("`ops` is taken"));
        assert!(token("anonymous", "env:VIEW").contains("is taken"));
        assert!(token("", "env:VIEW").contains("is no name"));
        assert!(token("b", "env:NONE").contains("variable NONE is not set"));
        assert!(token("b", "env:EMPTY").contains("not empty"));
        assert!(token("b", "env:OPS").contains("same secret"));
        let spaced = token("b", "env:SPACED");
        assert!(spaced.contains("without spaces") && !spaced.contains("two words"), "{spaced}");
    }

    #[test]
    fn without_tokens_only_loopback_may_be_listened_on() {
        let open = access("").unwrap();
        for (address, fits) in [
            ("127.0.0.1:7070", true),
            ("127.9.9.9:1", true),
            ("[::1]:7070", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:7070", false),
            ("[::]:7070", false),
            ("192.168.0.1:80", false),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(open.fits(address).is_ok(), fits, "{address}");
            assert!(access(TWO).unwrap().fits(address).is_ok());
        }
        assert!(open.fits("0.0.0.0:1".parse().unwrap()).unwrap_err().contains("tokens"));
    }

    #[test]
    fn foreign_hosts_are_refused_without_tokens() {
        let open = access("public_url = \"http://Amends.Example:8080/x\"").unwrap();
        for (host, fits) in [
            ("localhost", true),
            ("LOCALHOST:7070", true),
            ("127.0.0.1:7070", true),
            ("127.1.2.3", true),
            ("[::1]:7070", true),
            ("amends.example", true),
            ("amends.example:9999", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:7070", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(open.admit(&request("GET", &[("host", host)]), Role::Viewer).is_ok(), fits, "{host}");
        }
        assert!(open.admit(&request("GET", &[]), Role::Viewer).is_err());
    }

    #[test]
    fn pages_of_other_origins_cannot_change_anything() {
        let open = access("").unwrap();
        let post = |headers: &[(&str, &str)]| {
            let mut all = vec![("host", "localhost:7070")];
            all.extend_from_slice(headers);
            open.admit(&request("POST", &all), Role::Admin).is_ok()
        };
        assert!(post(&[]));
        assert!(post(&[("origin", "http://localhost:7070"), ("sec-fetch-site", "same-origin")]));
        assert!(post(&[("sec-fetch-site", "none")]));
        assert!(!post(&[("origin", "http://localhost:3000")]));
        assert!(!post(&[("origin", "https://evil.example")]));
        assert!(!post(&[("origin", "null")]));
        assert!(!post(&[("sec-fetch-site", "cross-site")]));
        assert!(!post(&[("sec-fetch-site", "same-site")]));
    }
}
