//! `${…}`: what is substituted, and how it looks in JSON, text, URLs and headers.

use amends_core::template::{JsonTemplate, Missing, Path, Scope, StepFacts, Template, Why};
use amends_core::{Key, OpKind, SagaId};
use proptest::prelude::*;
use serde_json::{Value, json};

fn step_index(name: &str) -> Option<usize> {
    ["reserve", "charge"].into_iter().position(|known| known == name)
}

fn parse(text: &str) -> Template {
    Template::parse(text, &step_index).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Calls `f` with a scope in which step `reserve` is done and `charge` is not.
fn with_scope<T>(input: &Value, f: impl FnOnce(&Scope<'_>) -> T) -> T {
    let id = SagaId::new("order:7/8").expect("an id");
    let key = Key::new(&id, "charge", OpKind::Compensation, 1);
    let action_key = Key::new(&id, "charge", OpKind::Action, 1);
    let fact: Value =
        serde_json::from_str(r#"{"no": 12.50, "lines": [{"sku": "a b"}], "none": null}"#).expect("JSON");
    let serial = json!("R 1");
    let own = json!(99);
    f(&Scope {
        id: id.as_str(),
        input,
        key: Some(&key),
        action_key: Some(&action_key),
        serial: Some(&own),
        step: &|step| (step == 0).then_some(StepFacts { fact: &fact, serial: Some(&serial) }),
    })
}

/// Checks rows `template | as JSON | as text | as a URL`.
fn check(input: &Value, table: &str) {
    for row in crate::rows(table) {
        let [template, value, text, url] = row[..] else { panic!("four cells are expected in {row:?}") };
        let parsed = parse(template);
        with_scope(input, |scope| {
            assert_eq!(parsed.render_value(scope).expect(template).to_string(), value, "{template}");
            assert_eq!(parsed.render_text(scope).expect(template), text, "{template}");
            assert_eq!(parsed.render_url(scope).expect(template), url, "{template}");
        });
    }
}

#[test]
fn values_keep_their_type_where_they_stand_alone() {
    let input = json!({"sku": "ü/1", "qty": 3, "gift": true, "tags": ["x", {"y": null}], "a.b": 1, "": 2});
    check(
        &input,
        r#"
        plain                    | "plain"                     | plain                     | plain
        a$$b$$$$                 | "a$b$$"                     | a$b$$                     | a$b$$
        $${id}                   | "${id}"                     | ${id}                     | ${id}
        ${id}                    | "order:7/8"                 | order:7/8                 | order:7%2F8
        ${key}                   | "order:7/8:charge:compensation" | order:7/8:charge:compensation | order:7%2F8:charge:compensation
        ${action_key}            | "order:7/8:charge:action"   | order:7/8:charge:action   | order:7%2F8:charge:action
        ${serial}                | 99                          | 99                        | 99
        ${input.sku}             | "ü/1"                       | ü/1                       | %C3%BC%2F1
        ${input.qty}             | 3                           | 3                         | 3
        ${input.gift}            | true                        | true                      | true
        ${input.tags}            | ["x",{"y":null}]            | ["x",{"y":null}]          | %5B%22x%22%2C%7B%22y%22:null%7D%5D
        ${input.tags.1}          | {"y":null}                  | {"y":null}                | %7B%22y%22:null%7D
        ${input.tags.1.y}        | null                        | null                      | null
        ${steps.reserve.serial}  | "R 1"                       | R 1                       | R%201
        ${steps.reserve.fact.no} | 12.50                       | 12.50                     | 12.50
        ${steps.reserve.fact.lines.0.sku} | "a b"              | a b                       | a%20b
        ${steps.reserve.fact.none} | null                      | null                      | null
        x${input.qty}            | "x3"                        | x3                        | x3
        ${input.qty}${input.gift} | "3true"                    | 3true                     | 3true
        /a/${id}/b?c=${input.sku}&d=$$ | "/a/order:7/8/b?c=ü/1&d=$" | /a/order:7/8/b?c=ü/1&d=$ | /a/order:7%2F8/b?c=%C3%BC%2F1&d=$
        "#,
    );
    with_scope(&input, |scope| {
        assert_eq!(parse("${input}").render_value(scope).expect("the input"), input);
        let hash = parse("${key_hash}").render_text(scope).expect("a hash");
        assert_eq!((hash.len(), hash.chars().all(|c| c.is_ascii_hexdigit())), (32, true));
    });
}

#[test]
fn a_path_that_leads_nowhere_is_named() {
    let input = json!({"sku": "x", "tags": ["y"]});
    for path in [
        "input.qty",
        "input.sku.x",
        "input.tags.1",
        "input.tags.00",
        "input.tags.+0",
        "input.tags.-1",
        "input.tags.y",
        "steps.charge.serial",
        "steps.charge.fact",
        "steps.reserve.fact.lines.0.nr",
    ] {
        let template = parse(&format!("/a/${{{path}}}"));
        let missing = Missing { path: path.to_owned(), why: Why::Absent };
        with_scope(&input, |scope| {
            assert_eq!(template.render_value(scope), Err(missing.clone()), "{path}");
            assert_eq!(template.render_url(scope), Err(missing.clone()), "{path}");
            assert_eq!(template.render_header(scope), Err(missing.clone()), "{path}");
        });
        assert_eq!(missing.to_string(), format!("{path} is missing"));
    }
    let bare =
        Scope { id: "x", input: &Value::Null, key: None, action_key: None, serial: None, step: &|_| None };
    for path in ["key", "key_hash", "action_key", "serial"] {
        let missing = parse(&format!("${{{path}}}")).render_text(&bare).expect_err(path);
        assert_eq!((missing.path.as_str(), missing.why), (path, Why::Absent));
    }
}

#[test]
fn no_value_turns_a_url_into_another_one() {
    for (template, value, ok) in [
        ("/a/${input.v}", "", false),
        ("/a/${input.v}/b", "", false),
        ("/a/${input.v}", ".", false),
        ("/a/${input.v}/b", "..", false),
        ("/a/.${input.v}", ".", false),
        ("/a/${input.v}.", ".", false),
        ("/a/${input.v}${input.v}", ".", false),
        ("/a/${input.v}.", "", false),
        ("/a/..${input.v}?x=1", "", false),
        ("/a/${input.v}?x=1", "..", false),
        ("/a/${input.v}", "...", true),
        ("/a/x${input.v}", "", true),
        ("/a/x${input.v}", "..", true),
        ("/a/${input.v}x/.", ".", true),
        ("/a?x=${input.v}", "", true),
        ("/a?x=/${input.v}/", "..", true),
        ("/a/${input.v}", "../../etc", true),
        ("/a/${input.v}", "?x#y", true),
    ] {
        let input = json!({ "v": value });
        let url = with_scope(&input, |scope| parse(template).render_url(scope));
        match &url {
            Ok(url) => assert_eq!(url.matches('/').count(), template.matches('/').count(), "{url}"),
            Err(missing) => assert_eq!((missing.path.as_str(), missing.why), ("input.v", Why::Segment)),
        }
        assert_eq!(url.is_ok(), ok, "{template} with {value:?}: {url:?}");
    }
}

#[test]
fn a_header_carries_no_line_breaks() {
    for (value, ok) in
        [("a b", true), ("ü", true), ("", true), ("a\r\nx: y", false), ("\u{0}", false), ("\u{7f}", false)]
    {
        let header = with_scope(&json!({ "v": value }), |scope| parse("v=${input.v}").render_header(scope));
        assert_eq!(header.is_ok(), ok, "{value:?}");
        if let Err(missing) = header {
            assert_eq!((missing.path.as_str(), missing.why), ("input.v", Why::Header));
        }
    }
}

#[test]
fn json_is_rendered_all_the_way_down() {
    let tree = json!({"b": ["${input.qty}", "n=${input.qty}", 1.5, null], "a": {"${id}": "$$"}, "c": "${steps.reserve.fact.no}"});
    let template = JsonTemplate::parse(&tree, &step_index).expect("a template");
    let rendered = with_scope(&json!({"qty": 3}), |scope| template.render(scope)).expect("a tree");
    assert_eq!(rendered.to_string(), r#"{"a":{"${id}":"$"},"b":[3,"n=3",1.5,null],"c":12.50}"#);
    let mut paths = Vec::new();
    template.each_path(&mut |path| paths.push(path.to_string()));
    assert_eq!(paths, ["input.qty", "input.qty", "steps.reserve.fact.no"]);
    let missing = with_scope(&json!({}), |scope| template.render(scope)).expect_err("no quantity");
    assert_eq!(missing.path, "input.qty");
    assert!(JsonTemplate::parse(&json!([{"a": "${nope}"}]), &step_index).is_err());
}

#[test]
fn what_is_never_substituted_is_one_value() {
    let plain = json!({"a": ["b", {"c": 1}], "d": null});
    assert_eq!(JsonTemplate::parse(&plain, &step_index), Ok(JsonTemplate::Value(plain)));
}

#[test]
fn a_path_shows_the_text_it_was_read_from() {
    for text in [
        "id",
        "key",
        "key_hash",
        "action_key",
        "serial",
        "input",
        "input.a.0",
        "steps.charge.serial",
        "steps.reserve.fact",
        "steps.reserve.fact.a.b",
    ] {
        let template = parse(&format!("${{{text}}}"));
        let path: &Path = template.paths().next().expect("a path");
        assert_eq!(path.to_string(), text);
        assert_eq!(
            path.step(),
            ["reserve", "charge"].into_iter().position(|name| text.starts_with(&format!("steps.{name}")))
        );
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange_to_be_read(text in "\\PC{0,40}|[$x{}.a ]{0,40}") {
        if let Err(error) = Template::parse(&text, &step_index) {
            prop_assert!(!error.to_string().is_empty() && !error.remedy().is_empty());
        }
    }

    #[test]
    fn a_text_with_its_dollars_doubled_is_itself(text in "\\PC{0,40}|[$x{}.a ]{0,40}") {
        let template = Template::parse(&text.replace('$', "$$"), &step_index).expect("a template");
        with_scope(&Value::Null, |scope| {
            assert_eq!(template.render_text(scope).as_deref(), Ok(text.as_str()));
            assert_eq!(template.render_value(scope), Ok(Value::String(text.clone())));
        });
        prop_assert_eq!(template.as_plain(), Some(text.as_str()));
    }

    #[test]
    fn a_value_in_a_url_is_one_segment_and_can_be_read_back(value in "\\PC{1,30}|[./%?#&= ]{1,8}") {
        let input = json!({ "v": value });
        let url = with_scope(&input, |scope| parse("/a/${input.v}/b").render_url(scope));
        if value == "." || value == ".." {
            prop_assert!(url.is_err());
        } else {
            let url = url.expect("a URL");
            let segment = url.strip_prefix("/a/").and_then(|rest| rest.strip_suffix("/b")).expect("three segments");
            prop_assert!(segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:%".contains(&b)), "{}", segment);
            let back = percent_encoding::percent_decode_str(segment).decode_utf8().expect("UTF-8");
            prop_assert_eq!(back, value);
        }
    }
}
