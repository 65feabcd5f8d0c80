//! Operations that are Redis commands: what is refused of them, and what is sent.

use amends_core::definition::redis::{RedisGuard, RedisTest};
use amends_core::definition::{Body, Diagnostic, check_input, from_json, from_toml, from_tree};
use amends_core::request::{Payload, RenderArgs, perform, query};
use amends_core::template::{Missing, Scope, Why};
use amends_core::{Key, OpKind, SagaId};
use serde_json::{Value, json};

use crate::{definition, lines, rows};

const WALLET: &str = r#"saga = "pay"
version = 1
[participants.wallet]
fenced = true
[participants.plain]
idempotency = "replay"
[[step]]
name = "hold"
[step.action]
to = "wallet"
redis = [["HINCRBY", "balance:{${input.user}}", "amount", "-${input.amount}"], ["SADD", "{${input.user}}:holds", "${id}"]]
guard = [{ key = "balance:{${input.user}}", field = "amount", at_least = "${input.amount}" }]
[step.compensation]
redis = [["HINCRBY", "balance:{${input.user}}", "amount", "${input.amount}"]]
"#;

fn edited(from: &str, to: &str) -> String {
    let (from, to) = (from.trim().replace("\\n", "\n"), to.trim().replace("\\n", "\n"));
    assert!(WALLET.contains(&from), "there is no `{from}`");
    WALLET.replacen(&from, &to, 1)
}

/// Rows `what stands there => what is put there | line path | reason | remedy`, each the only problem.
fn refused(table: &str) {
    let mut wrong = String::new();
    for row in rows(table) {
        let [edit, place, reason, remedy] = row[..] else { panic!("four cells are expected in {row:?}") };
        let (from, to) = edit.split_once("=>").expect("an edit");
        let text = edited(from, to);
        let problems = from_toml(&text).expect_err(edit);
        let found = |p: &Diagnostic| {
            format!("{} {}", p.line, p.path) == place
                && p.reason.contains(reason)
                && p.remedy.contains(remedy)
        };
        if problems.len() != 1 || !found(&problems[0]) {
            wrong.push_str(&format!("{edit}\n{}\n", lines(&problems)));
        }
        let tree: Value = toml::from_str(&text).expect("TOML");
        assert_eq!(from_tree(&tree).expect_err(edit)[0].reason, problems[0].reason);
        assert_eq!(from_json(&tree.to_string()).expect_err(edit)[0].reason, problems[0].reason);
    }
    assert!(wrong.is_empty(), "these have other problems than the table says:\n{wrong}");
}

#[test]
fn commands_are_refused_with_place_reason_and_remedy() {
    refused(
        r#"
        "HINCRBY", "balance => "HINCRBYFLOAT", "balance | 11 step[0].action.redis[0] | "HINCRBYFLOAT" is no command | did you mean HINCRBY?
        "HINCRBY", "balance => "FLUSHALL", "balance     | 11 step[0].action.redis[0] | "FLUSHALL" is no command | there are HSET, HDEL
        "HINCRBY", "balance => "${input.x}", "balance   | 11 step[0].action.redis[0] | is no command | there are HSET, HDEL
        "amount", "-${input.amount}"] => "amount"]      | 11 step[0].action.redis[0] | HINCRBY has 2 words after its name | write the words that it takes
        "amount", "-${input.amount}"] => "amount", "-${input.amount}", "x"] | 11 step[0].action.redis[0] | HINCRBY has 4 words after its name; it takes: key any integer | write
        "amount", "-${input.amount}"] => "amount", "five"] | 11 step[0].action.redis[0][3] | HINCRBY needs a whole number | such as "-5"
        "amount", "-${input.amount}"] => "amount", "EUR ${input.amount}"] | 11 step[0].action.redis[0][3] | HINCRBY needs a whole number | such as "-5"
        "amount", "-${input.amount}"] => "amount", -5]  | 11 step[0].action.redis[0][3] | expected a text, found a number | write it as in
        at_least = "${input.amount}" => at_least = "1.5" | 12 step[0].action.guard[0].at_least | `at_least` needs a whole number | such as "-5"
        at_least = "${input.amount}" => exists = false  | 12 step[0].action.guard[0].exists | not that it is not | `exists = true`
        at_least = "${input.amount}" => exists = true, equals = "1" | 12 step[0].action.guard[0] | one of `exists`, `equals` and `at_least`, and this has 2 | one guard for each
        , at_least = "${input.amount}" =>               | 12 step[0].action.guard[0] | one of `exists`, `equals` and `at_least`, and this has 0 | one guard for each
        at_least = "${input.amount}" => at_most = "1", exists = true | 12 step[0].action.guard[0].at_most | no field `at_most` | remove it; there may be at_least, equals
        [["HINCRBY", "balance:{${input.user}}", "amount", "${input.amount}"]] => [] | 14 step[0].compensation.redis | 0 commands: an operation has 1 to 100 | Redis does nothing else
        [["HINCRBY", "balance:{${input.user}}", "amount", "${input.amount}"]] => "DEL x" | 14 step[0].compensation.redis | a list of commands | write it as in
        "#,
    );
}

#[test]
fn what_belongs_to_http_is_refused() {
    let to = "to = \"wallet\"\\n";
    for (field, value, reason) in [
        ("post", "\"/x\"", "both `post` and `redis`"),
        ("get", "\"/x\"", "both `get` and `redis`"),
        ("headers", "{ a = \"b\" }", "commands have no headers"),
        ("body", "{}", "commands have no body"),
        ("form", "{}", "commands have no form"),
        ("serial", "\"/x\"", "has no serial"),
        ("outcome", "{ codes = { \"200\" = \"done\" } }", "needs no rule"),
        ("query", "{ get = \"/x\" }", "is asked without one"),
        ("callback_timeout", "\"1m\"", "done when they are answered"),
    ] {
        refused(&format!(
            "{to} => {to}{field} = {value}\\n | 11 step[0].action.{field} | {reason} | {}",
            "e"
        ));
    }
    let http = WALLET.replacen(
        "redis = [[\"HINCRBY\", \"balance:{${input.user}}\", \"amount\", \"${",
        "post = \"/undo/${",
        1,
    );
    let http = http.replacen("input.amount}\"]]\n", "input.amount}\"\n", 1);
    let problems = from_toml(&http).expect_err("two kinds");
    assert!(
        lines(&problems).contains("one operation is Redis commands, the other a request over HTTP"),
        "{}",
        lines(&problems)
    );
    let guard = crate::BASE.replacen("post = \"/mails\"", "post = \"/mails\"\nguard = []", 1);
    assert!(lines(&from_toml(&guard).expect_err("a guard")).contains("there is no `redis` here"));
}

#[test]
fn participants_and_places_are_checked() {
    refused(
        r#"
        "{${input.user}}:holds" => "a}b"     | 11 step[0].action.redis | the key "a}b" has no hash tag | it has a tag such as {order}
        "balance:{${input.user}}", "amount", "${input.amount}" => "balance:{${input.other}}", "amount", "${input.amount}" | 13 step[0].compensation | the fence could not be found again | the same tag
        "balance:{${input.user}}", "amount", "${input.amount}" => "${input.x}balance:{${input.user}}", "amount", "${input.amount}" | 13 step[0].compensation | the fence could not be found again | the same tag
        "#,
    );
    let literal = WALLET
        .replace("{${input.user}}:holds", "holds:{b}")
        .replace("balance:{${input.user}}", "balance:{a}");
    let problems = from_toml(&literal).expect_err("two slots");
    assert!(
        lines(&problems).contains("the keys \"balance:{a}\" and \"holds:{b}\" have different hash tags"),
        "{}",
        lines(&problems)
    );
    let plain = WALLET.replace("to = \"wallet\"", "to = \"plain\"");
    let problems = from_toml(&plain).expect_err("no fence");
    assert_eq!(problems.len(), 2, "one for each operation\n{}", lines(&problems));
    assert!(
        lines(&problems)
            .contains("`plain` is not declared `fenced`; write `fenced = true` in [participants.plain]")
    );
    let seals = edited("fenced = true", "fenced = true\nseals_after = \"15m\"");
    assert!(
        lines(&from_toml(&seals).expect_err("seals"))
            .contains("refuses nothing for coming late; remove `seals_after`")
    );
    let command = "[\"SADD\", \"{a}\", \"x\"], ".repeat(101);
    let many = edited("redis = [[\"HINCRBY\"", &format!("redis = [{command}[\"HINCRBY\""));
    assert!(
        lines(&from_toml(&many).expect_err("many")).contains("102 commands")
            || lines(&from_toml(&many).expect_err("many")).contains("103 commands")
    );
}

fn scope_of<'a>(input: &'a Value, key: &'a Key, action_key: &'a Key) -> Scope<'a> {
    Scope { id: "o:1", input, key: Some(key), action_key: Some(action_key), serial: None, step: &|_| None }
}

#[test]
fn commands_are_rendered_and_the_query_has_them_too() {
    let definition = definition(WALLET);
    let step = &definition.steps[0];
    assert!(
        step.action.as_ref().unwrap().query.is_some() && step.compensation.as_ref().unwrap().query.is_some()
    );
    assert_eq!(definition.input_paths(), ["input.amount", "input.user"]);
    let id = SagaId::new("o:1").unwrap();
    let (action, undo) =
        (Key::new(&id, "hold", OpKind::Action, 1), Key::new(&id, "hold", OpKind::Compensation, 1));
    let input = json!({"user": "u 1", "amount": 5});
    let args = |operation, key| RenderArgs {
        definition: &definition,
        step: 0,
        operation,
        attempt: 1,
        scope: scope_of(&input, key, &action),
    };
    let request = perform(&args(OpKind::Action, &action)).unwrap();
    let Some(Payload::Redis(call)) = &request.body else { panic!("{request:?}") };
    assert_eq!(
        call.commands,
        [vec!["HINCRBY", "balance:{u 1}", "amount", "-5"], vec!["SADD", "{u 1}:holds", "o:1"]]
    );
    let test = RedisTest::AtLeast("5".to_owned());
    let guard = RedisGuard { key: "balance:{u 1}".to_owned(), field: Some("amount".into()), test };
    assert_eq!(call.guards, [guard]);
    // 24 h of key_ttl, 24 h of verify_for, and the margin.
    assert_eq!(call.keep_ms, 3 * 24 * 3_600_000);
    assert_eq!(call.check(), Ok((vec!["balance:{u 1}", "{u 1}:holds"], "u 1")));
    let asked = query(&args(OpKind::Action, &action)).unwrap();
    assert!(asked.is_query && asked.body == request.body);
    let undone = perform(&args(OpKind::Compensation, &undo)).unwrap();
    assert_eq!(undone.action_key.as_ref(), Some(&action));
    assert_ne!(undone.digest(), request.digest());
    let other = json!({"user": "u 1", "amount": 6});
    let other =
        perform(&RenderArgs { scope: scope_of(&other, &action, &action), ..args(OpKind::Action, &action) });
    assert_ne!(other.unwrap().digest(), request.digest());
    let lacking = json!({"user": "u 1"});
    let lacking =
        perform(&RenderArgs { scope: scope_of(&lacking, &action, &action), ..args(OpKind::Action, &action) });
    assert_eq!(lacking.unwrap_err(), Missing { path: "input.amount".into(), why: Why::Absent });
}

#[test]
fn an_input_that_makes_commands_that_cannot_be_is_refused_with_it() {
    let of = |text: &str, input: Value| {
        check_input(&definition(text), &SagaId::new("o:1").unwrap(), &input)
            .map_err(|missing| missing.to_string())
    };
    let input = |user: Value, amount: Value| json!({"user": user, "amount": amount, "x": "y"});
    for (user, amount) in [(json!("u"), json!(5)), (json!(7), json!("5")), (json!("u {v"), json!(0))] {
        // Zero with a minus is no number to Redis.
        let is_zero = amount == json!(0);
        assert_eq!(of(WALLET, input(user, amount)).is_ok(), !is_zero);
    }
    let number = "input.amount makes no number that the Redis command could take";
    for amount in [json!(-5), json!(1.5), json!("five"), json!(null), json!("")] {
        assert_eq!(of(WALLET, input(json!("u"), amount)).unwrap_err(), number);
    }
    let key = "input.user makes a key without a hash tag that other keys could have";
    assert_eq!(of(WALLET, input(json!(""), json!(5))).unwrap_err(), key);
    let two = edited("{${input.user}}:holds", "{${input.x}}:holds");
    assert_eq!(of(&two, input(json!("y"), json!(5))), Ok(vec![]));
    let slots = "input.x makes keys of different hash tags, which one call of Redis cannot touch";
    assert_eq!(of(&two, input(json!("u"), json!(5))).unwrap_err(), slots);
    let later = edited(
        "\"SADD\", \"{${input.user}}:holds\", \"${id}\"",
        "\"INCRBY\", \"{${input.user}}:n\", \"${key_hash}\"",
    );
    assert_eq!(
        of(&later, input(json!("u"), json!(5))),
        Ok(vec![]),
        "what is not known yet is looked at before the call"
    );
}

#[test]
fn equal_trees_have_equal_digests_in_both_notations() {
    let of_toml = definition(WALLET);
    let of_json = from_json(&of_toml.tree.to_string()).expect("JSON").definition;
    assert_eq!((of_toml.digest.as_str(), &of_toml), (of_json.digest.as_str(), &of_json));
    let Body::Redis(call) = &of_json.steps[0].action.as_ref().unwrap().body else { panic!("commands") };
    assert_eq!((call.commands.len(), call.guards.len()), (2, 1));
}
