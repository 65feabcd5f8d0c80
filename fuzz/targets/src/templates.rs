//! `${…}`.

use amends_core::template::{JsonTemplate, Part, Scope, StepFacts, Template};
use amends_core::{Key, OpKind, SagaId};
use serde_json::{Value, json};

/// How much longer than its text a rendering may be: each `${…}` of six bytes can become the longest value in the scope, each byte
/// of it percent-encoded.
const GROWTH_MAX: usize = 4_096;

/// A text with `${…}`, and the same in a JSON tree.
///
/// # Panics
/// If the parser does what it must not.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let steps = ["reserve", "charge"];
    let index = |name: &str| steps.iter().position(|step| *step == name);
    match Template::parse(text, &index) {
        Ok(template) => {
            let printed = print(&template);
            let again = Template::parse(&printed, &index).unwrap_or_else(|e| panic!("{printed:?}: {e}"));
            assert_eq!(again, template, "{text:?} is printed as {printed:?}");
            render(text, &template);
        }
        Err(bad) => {
            assert!(bad.to_string().len() < 1_000 && !bad.remedy().is_empty(), "{bad}");
        }
    }
    if let Ok(tree) = serde_json::from_slice::<Value>(data)
        && amends_core::json::can_be_kept(&tree)
        && let Ok(template) = JsonTemplate::parse(&tree, &index)
    {
        in_scope(|scope| {
            let _ = template.render(scope);
        });
    }
}

fn print(template: &Template) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.replace('$', "$$"),
        Part::Path(path) => format!("${{{path}}}"),
    };
    template.parts.iter().map(part).collect()
}

fn render(text: &str, template: &Template) {
    let most = (text.len() + 1) * GROWTH_MAX;
    in_scope(|scope| {
        if let Ok(out) = template.render_text(scope) {
            assert!(out.len() <= most, "{text:?} becomes {} bytes", out.len());
        }
        if let Ok(out) = template.render_url(scope) {
            assert!(out.len() <= most, "{text:?} becomes {} bytes", out.len());
        }
        if let Ok(out) = template.render_header(scope) {
            let own = template.parts.iter().any(|part| match part {
                Part::Text(text) => text.contains(char::is_control),
                Part::Path(_) => false,
            });
            assert!(
                own || !out.contains(char::is_control),
                "a value brought control characters into {out:?}"
            );
        }
        let _ = template.render_value(scope);
    });
}

/// A scope whose values are as hostile as values may be.
fn in_scope(look: impl FnOnce(&Scope<'_>)) {
    let id = SagaId::new("order:7/../\u{1f980}").expect("invariant: it is an id");
    let (key, action_key) =
        (Key::new(&id, "charge", OpKind::Compensation, 1), Key::new(&id, "charge", OpKind::Action, 1));
    let input = json!({
        "a": { "b": ["x", 1.50, null, { "c": "y" }] }, "dots": "..", "none": "", "text": "a/b?c#d\n", "dollar": "${id}",
    });
    let (fact, serial) = (json!({ "no": 7, "list": [1, 2] }), json!("s-1"));
    let step = |index: usize| (index == 0).then_some(StepFacts { fact: &fact, serial: Some(&serial) });
    look(&Scope {
        id: id.as_str(),
        input: &input,
        key: Some(&key),
        action_key: Some(&action_key),
        serial: Some(&serial),
        step: &step,
    });
}
