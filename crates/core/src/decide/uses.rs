//! Which requests use the fact or serial of a step.

use crate::definition::{Body, Operation};
use crate::template::{JsonTemplate, Part, Path, Template};

/// Whether any request of this operation, its query included, uses the fact or serial of `step`.
pub(super) fn uses_fact(operation: &Operation, step: usize) -> bool {
    let query = operation
        .query
        .as_ref()
        .is_some_and(|query| request_uses(&query.path, &query.headers, &query.body, step));
    query || request_uses(&operation.path, &operation.headers, &operation.body, step)
}

fn request_uses(path: &Template, headers: &[(String, Template)], body: &Body, step: usize) -> bool {
    let in_body = match body {
        Body::None => false,
        Body::Json(json) => json_uses(json, step),
        Body::Form(fields) => fields.iter().any(|(_, template)| template_uses(template, step)),
        Body::Redis(commands) => {
            let mut used = false;
            commands.each(&mut |template| used |= template_uses(template, step));
            used
        }
    };
    in_body || template_uses(path, step) || headers.iter().any(|(_, template)| template_uses(template, step))
}

fn json_uses(json: &JsonTemplate, step: usize) -> bool {
    match json {
        JsonTemplate::Value(_) => false,
        JsonTemplate::Text(template) => template_uses(template, step),
        JsonTemplate::Array(items) => items.iter().any(|item| json_uses(item, step)),
        JsonTemplate::Object(members) => members.iter().any(|(_, member)| json_uses(member, step)),
    }
}

fn template_uses(template: &Template, step: usize) -> bool {
    template.parts.iter().any(|part| match part {
        Part::Text(_) => false,
        Part::Path(path) => match path {
            Path::StepSerial { step: of, .. } | Path::StepFact { step: of, .. } => *of == step,
            Path::Id | Path::Input(_) | Path::Key | Path::KeyHash | Path::ActionKey | Path::Serial => false,
        },
    })
}
