//! The request of an operation or a query: participant, method, path, headers and body.

use std::collections::BTreeSet;

use super::builder::{Builder, Owner};
use super::diagnostic::Place;
use super::fields::{At, Fields};
use super::tree::Kind;
use super::{Body, Method};
use crate::template::{BadTemplate, JsonTemplate, Part, Template};

/// The most headers of a request.
pub const HEADERS_MAX: usize = 64;

pub(super) const METHODS: [(&str, Method); 5] = [
    ("get", Method::Get),
    ("post", Method::Post),
    ("put", Method::Put),
    ("patch", Method::Patch),
    ("delete", Method::Delete),
];

/// Headers that belong to one connection, or that whoever sends the request works out itself.
const HEADERS_OF_THE_WIRE: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What operations and queries have in common.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) to: String,
    pub(super) method: Method,
    pub(super) path: Template,
    pub(super) headers: Vec<(String, Template)>,
    pub(super) body: Body,
}

impl Call {
    /// Stands for a request that could not be read, or that is none.
    pub(super) fn nothing(method: Method) -> Self {
        Self { to: String::new(), method, path: plain(String::new()), headers: Vec::new(), body: Body::None }
    }
}

impl Builder<'_> {
    /// Reads a request. `to_default` is the participant where none is named.
    pub(super) fn read_call(
        &mut self,
        fields: &mut Fields<'_>,
        to_default: Option<&str>,
        owner: Owner,
    ) -> Call {
        let to = self.read_to(fields, to_default);
        if let Some(at) = fields.get("guard") {
            self.report.problem(
                &at.place,
                "`guard` says what must hold before Redis commands run, and there is no `redis` here",
                "remove `guard`, or write the operation as `redis`",
            );
        }
        let (method, path) = self.read_method(fields, owner);
        let headers = fields.get("headers").map(|at| self.read_headers(&at, owner)).unwrap_or_default();
        let body = self.read_body(fields, owner);
        Call { to, method, path, headers, body }
    }

    pub(super) fn read_to(&mut self, fields: &mut Fields<'_>, to_default: Option<&str>) -> String {
        match (fields.get("to"), to_default) {
            (Some(at), _) => {
                let to = at.text("payment", &mut self.report).unwrap_or_default();
                if matches!(at.node.kind, Kind::Text(_)) {
                    self.participants.check_named(to, &at.place, &mut self.report);
                }
                to.to_owned()
            }
            (None, Some(to)) => to.to_owned(),
            (None, None) => {
                self.report.problem(
                    &fields.place,
                    "`to` is missing: which participant is called?",
                    "name one of [participants], as in `to = \"payment\"`",
                );
                String::new()
            }
        }
    }

    fn read_method(&mut self, fields: &mut Fields<'_>, owner: Owner) -> (Method, Template) {
        let nothing = (Method::Get, plain(String::new()));
        let mut found: Vec<_> =
            METHODS.iter().filter_map(|(name, method)| Some((name, *method, fields.get(name)?))).collect();
        if let [(first, ..), .., (last, _, at)] = found.as_slice() {
            self.report.problem(
                &at.place,
                format!("there are both `{first}` and `{last}`: a request has one method"),
                "keep one of get, post, put, patch, delete",
            );
        }
        if found.is_empty() {
            self.report.problem(
                &fields.place,
                "there is no request: one of get, post, put, patch, delete is missing",
                "add it with its path, as in `post = \"/charges\"`",
            );
            return nothing;
        }
        let (_, method, at) = found.swap_remove(0);
        let Some(text) = at.text("/charges", &mut self.report) else { return nothing };
        match self.read_template(text, &at, owner) {
            Some(path) => {
                self.check_url(text, &path, &at.place);
                (method, path)
            }
            None => nothing,
        }
    }

    /// Checks what stands literally in a path.
    fn check_url(&mut self, text: &str, path: &Template, at: &Place) {
        if text.contains("://") && !text.starts_with('/') {
            self.report.problem(
                at,
                "this is a URL: definitions name participants, never where they are",
                "write the path only, and the participant's URL in amends.toml",
            );
            return;
        }
        if !matches!(path.parts.first(), Some(Part::Text(text)) if text.starts_with('/')) {
            self.report.problem(
                at,
                "a path starts with `/`",
                "put a `/` in front; the participant's URL comes before it",
            );
        }
        for part in &path.parts {
            let Part::Text(text) = part else { continue };
            if let Some(odd) = text.chars().find(|c| !may_stand_in_url(*c)) {
                self.report.problem(
                    at,
                    format!("{odd:?} cannot stand in a path"),
                    "percent-encode it; the values of `${…}` are encoded without your doing",
                );
            }
            let escapes_end = |after: &str| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
            if !text.split('%').skip(1).all(escapes_end) {
                self.report.problem(
                    at,
                    "a `%` is not followed by two hexadecimal digits",
                    "write `%25` for a percent sign",
                );
            }
        }
        let segments = text.split('?').next().unwrap_or_default().split('/');
        if segments
            .map(|segment| segment.to_ascii_lowercase().replace("%2e", "."))
            .any(|s| s == "." || s == "..")
        {
            self.report.problem(at, "`.` and `..` are no segments of a path", "write the path that is meant");
        }
    }

    fn read_headers(&mut self, at: &At<'_>, owner: Owner) -> Vec<(String, Template)> {
        let example = "headers = { x-request-id = \"${key_hash}\" }";
        let mut names = BTreeSet::new();
        let mut headers = Vec::new();
        let members = at.members("headers", example, &mut self.report).unwrap_or_default();
        if members.len() > HEADERS_MAX {
            self.report.problem(
                &at.place,
                format!("{} headers are more than the {HEADERS_MAX} there may be", members.len()),
                "send the rest in the body",
            );
            return headers;
        }
        for (name, at) in members {
            let name = name.to_ascii_lowercase();
            self.check_header_name(&name, &at.place);
            if !names.insert(name.clone()) {
                self.report.problem(
                    &at.place,
                    format!("the header `{name}` is given twice"),
                    "keep one of the two; upper and lower case are the same",
                );
            }
            let Some(text) = at.text("${key_hash}", &mut self.report) else { continue };
            if text.contains(char::is_control) {
                self.report.problem(&at.place, "a header cannot carry control characters", "remove them");
            }
            if let Some(value) = self.read_template(text, &at, owner) {
                headers.push((name, value));
            }
        }
        headers.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        headers
    }

    fn check_header_name(&mut self, name: &str, at: &Place) {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(token) {
            let shown: String = name.chars().take(64).collect();
            self.report.problem(
                at,
                format!("{shown:?} is no name of a header"),
                "use letters, digits and `-`",
            );
        } else if name.starts_with("amends-") || name.starts_with("webhook-") {
            self.report.problem(
                at,
                format!("the header `{name}` is sent by amends itself"),
                "remove it, or choose a name that starts neither with `amends-` nor with `webhook-`",
            );
        } else if HEADERS_OF_THE_WIRE.contains(&name) {
            self.report.problem(
                at,
                format!("the header `{name}` belongs to the connection, not to the request"),
                "remove it; it is set where it is needed",
            );
        }
    }

    fn read_body(&mut self, fields: &mut Fields<'_>, owner: Owner) -> Body {
        match (fields.get("body"), fields.get("form")) {
            (None, None) => Body::None,
            (Some(at), None) => Body::Json(self.read_json_template(&at, owner)),
            (None, Some(at)) => Body::Form(self.read_form(&at, owner)),
            (Some(_), Some(at)) => {
                self.report.problem(
                    &at.place,
                    "there are both `body` and `form`: a request has one body",
                    "keep `body` for JSON or `form` for a form",
                );
                Body::None
            }
        }
    }

    fn read_form(&mut self, at: &At<'_>, owner: Owner) -> Vec<(String, Template)> {
        let mut form = Vec::new();
        for (name, at) in at
            .members("texts", "form = { amount = \"${input.amount}\" }", &mut self.report)
            .unwrap_or_default()
        {
            let value = match &at.node.kind {
                Kind::Text(text) => self.read_template(text, &at, owner),
                Kind::Bool(value) => Some(plain(value.to_string())),
                Kind::Number(number) => Some(plain(number.to_string())),
                Kind::Unreadable | Kind::Null | Kind::List(_) | Kind::Table(_) => {
                    at.misfit(
                        "a text, number or boolean",
                        "form = { amount = \"${input.amount}\" }",
                        &mut self.report,
                    );
                    None
                }
            };
            form.extend(value.map(|value| (name.to_owned(), value)));
        }
        form.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        form
    }

    fn read_json_template(&mut self, at: &At<'_>, owner: Owner) -> JsonTemplate {
        match &at.node.kind {
            Kind::Unreadable | Kind::Null | Kind::Bool(_) | Kind::Number(_) => {
                JsonTemplate::Value(at.node.to_value())
            }
            Kind::Text(text) => match self.read_template(text, at, owner) {
                Some(template) => JsonTemplate::text(template),
                None => JsonTemplate::Value(at.node.to_value()),
            },
            Kind::List(_) => {
                let items = at.one_or_many();
                JsonTemplate::array(items.iter().map(|item| self.read_json_template(item, owner)).collect())
            }
            Kind::Table(_) => {
                let members = at.members("", "", &mut self.report).unwrap_or_default();
                let member =
                    |(name, at): (&str, At<'_>)| (name.to_owned(), self.read_json_template(&at, owner));
                JsonTemplate::object(members.into_iter().map(member).collect())
            }
        }
    }

    /// Reads a text with `${…}` and keeps its paths, to be checked once all steps are known.
    pub(super) fn read_template(&mut self, text: &str, at: &At<'_>, owner: Owner) -> Option<Template> {
        match Template::parse(text, &|name| self.steps.get(name).copied()) {
            Ok(template) => {
                self.keep_uses(&template, &at.place, owner);
                Some(template)
            }
            Err(error) => {
                let mut remedy = error.remedy();
                if let BadTemplate::UnknownStep { name, .. } = &error
                    && let Some(near) = self.nearest_step(name)
                {
                    remedy = format!("did you mean the step `{near}`?");
                }
                self.report.problem(&at.place, error.to_string(), remedy);
                None
            }
        }
    }
}

fn plain(text: String) -> Template {
    Template { parts: if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] } }
}

/// The characters of RFC 3986 that a path and a query string have.
fn may_stand_in_url(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?@!$&'()*+,;=%".contains(c)
}
