//! Which `${…}` operations have, and whether an input has what a definition needs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Body, Definition, Operation, Query};
use crate::SagaId;
use crate::template::{Missing, Path, Scope, Template, Why, descend};

/// The most bytes of a claim.
pub const CLAIM_BYTES_MAX: usize = 512;

impl Operation {
    /// Calls `visit` with each path of its own request; its query's are those of [`Query::each_path`].
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        each_path(&self.path, &self.headers, &self.body, visit);
    }
}

impl Query {
    /// Calls `visit` with each path of its request.
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        each_path(&self.path, &self.headers, &self.body, visit);
    }
}

impl Definition {
    /// Calls `visit` with each path of the definition: claims, operations and queries.
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        self.claims.iter().flat_map(Template::paths).for_each(&mut *visit);
        for op in self.operations() {
            op.each_path(visit);
            if let Some(query) = &op.query {
                query.each_path(visit);
            }
        }
    }

    /// The paths into the input that the definition uses, such as `input.sku`; sorted, each once.
    #[must_use]
    pub fn input_paths(&self) -> Vec<String> {
        let mut paths = BTreeSet::new();
        self.each_path(&mut |path| {
            if let Path::Input(_) = path {
                paths.insert(path.to_string());
            }
        });
        paths.into_iter().collect()
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.steps.iter().flat_map(|step| [&step.action, &step.compensation]).flatten()
    }
}

fn each_path<'a>(
    path: &'a Template,
    headers: &'a [(String, Template)],
    body: &'a Body,
    visit: &mut dyn FnMut(&'a Path),
) {
    path.paths().for_each(&mut *visit);
    headers.iter().flat_map(|(_, value)| value.paths()).for_each(&mut *visit);
    match body {
        Body::None => {}
        Body::Json(template) => template.each_path(visit),
        Body::Form(fields) => fields.iter().flat_map(|(_, value)| value.paths()).for_each(visit),
        Body::Redis(commands) => commands.each_path(visit),
    }
}

/// Checks that an input has all that the definition will ever substitute, and renders the claims: in the order of the
/// definition, each once.
///
/// What is checked here cannot fail later: a saga whose compensation lacks an input would be found out when it is too late.
///
/// # Errors
/// [`Missing`] names the first path that the input lacks, that cannot stand in the URL, header or Redis command where it is used, or the
/// claim that is empty, too long or has control characters.
pub fn check_input(definition: &Definition, id: &SagaId, input: &Value) -> Result<Vec<String>, Missing> {
    let mut missing = None;
    definition.each_path(&mut |path| {
        if let Path::Input(at) = path
            && missing.is_none()
            && descend(input, at).is_none()
        {
            missing = Some(Missing { path: path.to_string(), why: Why::Absent });
        }
    });
    if let Some(missing) = missing {
        return Err(missing);
    }
    let scope = Scope { id: id.as_str(), input, key: None, action_key: None, serial: None, step: &|_| None };
    for op in definition.operations() {
        check_places(&op.path, &op.headers, &scope)?;
        if let Some(query) = &op.query {
            check_places(&query.path, &query.headers, &scope)?;
        }
        if let Body::Redis(commands) = &op.body {
            commands.check_known(&scope, is_known_at_submission)?;
        }
    }
    render_claims(definition, &scope)
}

/// Checks that values of the input can stand in a URL and in headers, where nothing else stands beside them.
fn check_places(path: &Template, headers: &[(String, Template)], scope: &Scope<'_>) -> Result<(), Missing> {
    if is_known_at_submission(path) {
        path.render_url(scope)?;
    }
    for (_, value) in headers.iter().filter(|(_, value)| is_known_at_submission(value)) {
        value.render_header(scope)?;
    }
    Ok(())
}

/// Whether it has paths, and all of them lead into what is known when a saga is submitted.
fn is_known_at_submission(template: &Template) -> bool {
    let known = |path: &Path| match path {
        Path::Id | Path::Input(_) => true,
        Path::Key
        | Path::KeyHash
        | Path::ActionKey
        | Path::Serial
        | Path::StepSerial { .. }
        | Path::StepFact { .. } => false,
    };
    template.paths().next().is_some() && template.paths().all(known)
}

fn render_claims(definition: &Definition, scope: &Scope<'_>) -> Result<Vec<String>, Missing> {
    let mut claims: Vec<String> = Vec::with_capacity(definition.claims.len());
    for (i, template) in definition.claims.iter().enumerate() {
        let claim = template.render_text(scope)?;
        if claim.is_empty() || claim.len() > CLAIM_BYTES_MAX || claim.contains(char::is_control) {
            return Err(Missing { path: format!("claims[{i}]"), why: Why::Claim });
        }
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }
    Ok(claims)
}
