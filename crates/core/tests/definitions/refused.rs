//! Every rule by which a definition is refused, with line, place, reason and remedy.

use amends_core::definition::{Diagnostic, from_json, from_toml, from_tree};

use crate::{edited, lines, rows};

/// Checks rows `what stands in the base => what is put there | line path | reason | remedy`. A row that begins with `&` is
/// a further problem of the same definition. There must be these problems and no others; the same tree as JSON and as it is
/// stored has the same ones.
fn check(table: &str) {
    let mut cases: Vec<(&str, Vec<[&str; 3]>)> = Vec::new();
    for row in rows(table) {
        let [edit, place, reason, remedy] = row[..] else { panic!("four cells are expected in {row:?}") };
        if edit == "&" {
            cases.last_mut().expect("a row before").1.push([place, reason, remedy]);
        } else {
            cases.push((edit, vec![[place, reason, remedy]]));
        }
    }
    let mut wrong = String::new();
    for (edit, expected) in &cases {
        let (from, to) = edit.split_once("=>").expect("an edit");
        let text = edited(from, to);
        let problems = from_toml(&text).expect_err(edit);
        if !are(&problems, expected) {
            wrong.push_str(&format!("{edit}\n{}\n", lines(&problems)));
        }
        check_other_notations(&text, &problems);
    }
    assert!(wrong.is_empty(), "these have other problems than the table says:\n{wrong}");
}

/// Whether problems are those expected, each as place, part of the reason and part of the remedy.
fn are(problems: &[Diagnostic], expected: &[[&str; 3]]) -> bool {
    let is = |(problem, [place, reason, remedy]): (&Diagnostic, &[&str; 3])| {
        format!("{} {}", problem.line, problem.path).trim() == *place
            && problem.reason.contains(reason)
            && problem.remedy.contains(remedy)
    };
    problems.len() == expected.len() && problems.iter().zip(expected).all(is)
}

fn check_other_notations(toml: &str, problems: &[Diagnostic]) {
    let tree: serde_json::Value = toml::from_str(toml).expect("TOML");
    let of_tree = from_tree(&tree).expect_err(toml);
    assert!(of_tree.iter().all(|problem| problem.line == 0));
    assert_eq!(without_lines(&of_tree), without_lines(problems), "{toml}");
    let of_json = from_json(&serde_json::to_string_pretty(&tree).expect("JSON")).expect_err(toml);
    assert!(of_json.iter().all(|problem| problem.line > 0));
    assert_eq!(without_lines(&of_json), without_lines(problems), "{toml}");
}

/// Problems in an order that does not depend on lines. Reasons that name another line are cut before it.
fn without_lines(problems: &[Diagnostic]) -> Vec<(String, String, String)> {
    let reason = |text: &str| {
        text.split(" in line ")
            .next()
            .unwrap_or_default()
            .split(" at step[")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let mut all: Vec<_> =
        problems.iter().map(|p| (p.path.clone(), reason(&p.reason), p.remedy.clone())).collect();
    all.sort();
    all
}

#[test]
fn unknown_fields_are_refused_with_what_was_probably_meant() {
    check(
        r#"
        version = 1 => version = 1\nclaim = []         | 3 claim                      | no field `claim` here   | did you mean `claims`?
        version = 1 => version = 1\nowner = "me"       | 3 owner                      | no field `owner` here   | there may be claims, deadline, defaults,
        timeout = "3s" => time_out = "3s"              | 6 defaults.time_out          | no field `time_out`     | did you mean `timeout`?
        timeout = "3s" => budget = "3s"                | 6 defaults.budget            | no field `budget`       | there may be on_unknown, retry, timeout
        key_ttl = "24h" => "key-ttl" = "24h"           | 12 participants.bank.key-ttl | no field `key-ttl`      | did you mean `key_ttl`?
        pivot = true => pivoted = true\npivot = true   | 38 step[2].pivoted           | no field `pivoted`      | did you mean `pivot`?
        serial = "/no"\nquery => serials = "/x"\nserial = "/no"\nquery | 30 step[1].action.serials | no field `serials` | did you mean `serial`?
        query = { get = "/charges/${key}" } => query = { get = "/charges/${key}", retry = {} } | 31 step[1].action.query.retry | no field `retry` | there may be
        timeout = "3s" => retry = { max_attempt = 2 }  | 6 defaults.retry.max_attempt | no field `max_attempt`  | did you mean `max_attempts`?
        timeout = "3s" => on_unknown = { verifyfor = "2h" } | 6 defaults.on_unknown.verifyfor | no field `verifyfor` | did you mean `verify_for`?
        deadline = "30m" => states = { cancelled = "X" } | 4 states.cancelled         | no field `cancelled`    | did you mean `canceled`?
        query = { get = "/charges/${key}" } => query = { get = "/c", outcome = { at = "/s", doen = ["S"], rejected = ["F"] } } | 31 step[1].action.query.outcome.doen | no field `doen` | did you mean `done`?
        "#,
    );
}

#[test]
fn what_is_missing_or_of_another_kind_is_refused() {
    check(
        r#"
        saga = "order" =>                                | 1                      | `saga` is missing          | saga = "order-fulfilment"
        version = 1 =>                                   | 1                      | `version` is missing       | version = 1
        name = "reserve" =>                              | 14 step[0]             | `name` is missing          | name = "reserve"
        &                                                | 29 step[1].action.body.reservation | a step `reserve` that does not exist | name a step
        saga = "order" => saga = 7                       | 1 saga                 | expected a text, found a number | saga = "order-fulfilment"
        version = 1 => version = "1"                     | 2 version              | expected a whole number, found a text | version = 1
        version = 1 => version = 0                       | 2 version              | 0 is not a whole number from 1 | in that range
        version = 1 => version = 1.0                     | 2 version              | 1.0 is not a whole number  | in that range
        version = 1 => version = -3                      | 2 version              | -3 is not a whole number   | in that range
        claims = ["order:${id}"] => claims = "order:${id}" | 3 claims             | expected a list of claims, found a text | claims = ["order:${id}"]
        claims = ["order:${id}"] => claims = { a = 1 }   | 3 claims               | found a table              | claims = ["order:${id}"]
        claims = ["order:${id}"] => claims = [7]         | 3 claims[0]            | expected a text, found a number | "order:${id}"
        deadline = "30m" => deadline = 30                | 4 deadline             | a duration, a text with its unit, found a number | deadline = "30s"
        timeout = "3s" => retry = 5                      | 6 defaults.retry       | expected a table           | retry = { max_attempts = 3
        timeout = "3s" => on_unknown = "2"               | 6 defaults.on_unknown  | expected a table           | on_unknown = {
        timeout = "3s" => on_unknown = { verify = "1m" } | 6 defaults.on_unknown.verify | a list of durations, found a text | verify = ["1m"]
        timeout = "3s" => on_unknown = { verify = [] }   | 6 defaults.on_unknown.verify | 0 entries            | the last one repeats
        timeout = "3s" => on_unknown = { queries = 0 }   | 6 defaults.on_unknown.queries | 0 is not a whole number from 1 to 100 | in that range
        timeout = "3s" => retry = { factor = 0.5 }       | 6 defaults.retry.factor | 0.5 is not a number from 1 to 100 | in that range
        timeout = "3s" => retry = { jitter = 2 }         | 6 defaults.retry.jitter | 2 is not a number from 0 to 1 | in that range
        timeout = "3s" => retry = { max_attempts = 0 }   | 6 defaults.retry.max_attempts | 0 is not a whole number from 1 to 100 | in that range
        fenced = true => fenced = "yes"                  | 9 participants.stock.fenced | expected true or false, found a text | fenced = true
        pivot = true => pivot = true\nafter = "charge"   | 39 step[2].after       | a list of names of steps, found a text | after = ["charge"]
        pivot = true => pivot = true\neffect = "some"    | 39 step[2].effect      | may only be "none"         | nothing to undo
        pivot = true => pivot = true\nreaches = " "      | 39 step[2].reaches     | a business state has 1 to 64 bytes | "RESERVED"
        "#,
    );
}

#[test]
fn durations_have_a_unit_and_a_limit() {
    check(
        r#"
        "30m" => "30"      | 4 deadline | `30` is no duration                   | "500ms", "3s", "15m", "24h" or "5d"
        "30m" => "30 m"    | 4 deadline | `30 m` is no duration                 | "3s"
        "30m" => "1.5h"    | 4 deadline | `1.5h` is no duration                 | "3s"
        "30m" => "-1s"     | 4 deadline | `-1s` is no duration                  | "3s"
        "30m" => "m"       | 4 deadline | `m` is no duration                    | "3s"
        "30m" => "1w"      | 4 deadline | `1w` is no duration                   | "3s"
        "30m" => "0s"      | 4 deadline | out of range: a duration is at least 1ms | "3s"
        "30m" => "3651d"   | 4 deadline | at most 3650d                         | "3s"
        "30m" => "99999999999999999999d" | 4 deadline | out of range            | "3s"
        "3s" => "61m"      | 6 defaults.timeout | longer than the 1h            | at most "1h"
        "#,
    );
}

#[test]
fn names_are_plain_and_given_once() {
    check(
        r#"
        saga = "order" => saga = "Order Fulfilment"            | 1 saga                    | "Order Fulfilment" is no name for a saga | "order-fulfilment"
        saga = "order" => saga = ""                            | 1 saga                    | "" is no name for a saga       | "a-name"
        saga = "order" => saga = "9to5"                        | 1 saga                    | "9to5" is no name for a saga   | "to5"
        name = "notify" => name = "Notify"                     | 43 step[3].name           | "Notify" is no name for a step | "notify"
        name = "notify" => name = "a234567890b234567890c234567890d234567890e234567890f234567890g1234" | 43 step[3].name | is no name for a step: 1 to 64 of a-z | "a234567890b
        name = "notify" => name = "confirm"                    | 43 step[3].name           | another step `confirm` in line 36 | its own name
        [participants.bank] => [participants.Bank]             | 10 participants.Bank      | "Bank" is no name for a participant | "bank"
        &                                                      | 27 step[1].action.to      | no participant `bank`          | add [participants.bank]
        "#,
    );
}

#[test]
fn participants_say_what_they_guarantee() {
    check(
        r#"
        idempotency = "effect" =>                              | 10 participants.bank      | `idempotency` is missing       | "effect" (it happens once)
        idempotency = "effect" => idempotency = "exactly-once" | 11 participants.bank.idempotency | one of "none", "effect" and "replay" | a repeat under the same key
        idempotency = "effect" => idempotency = true           | 11 participants.bank.idempotency | expected a text, found a boolean | idempotency = "replay"
        key_ttl = "24h" => settled_by = "post"                 | 12 participants.bank.settled_by | may only be "statement"  | settled_by = "statement"
        to = "bank" => to = "bnak"                             | 27 step[1].action.to      | no participant `bnak`          | did you mean `bank`?
        to = "bank" => to = "courier"                          | 27 step[1].action.to      | no participant `courier`       | [participants.courier]
        to = "bank" =>                                         | 26 step[1].action         | `to` is missing                | to = "payment"
        "#,
    );
}

#[test]
fn fences_replay_and_see_both_operations() {
    check(
        r#"
        idempotency = "replay" => idempotency = "effect"       | 8 participants.stock.idempotency | gives the same answer to the same key | leave `fenced` out
        serial = "/no"\n[step.compensation] => serial = "/no"\nidempotency = "none"\n[step.compensation] | 21 step[0].action.idempotency | `stock` is fenced | leave `idempotency` out here
        post = "/releases" => post = "/releases"\nto = "bank"\nquery = { get = "/r" } | 21 step[0].compensation | `stock` is fenced, but step `reserve` has its other operation at `bank` | send both to `stock`
        post = "/refunds" => post = "/refunds"\nto = "stock"   | 32 step[1].compensation | `stock` is fenced, but step `charge` has its other operation at `bank` | send both to `stock`
        &                                                      | 35 step[1].compensation.body.charge | a fenced compensation is also sent while it is unknown | use `${action_key}`
        body = { of = "${action_key}" } => body = { of = "${steps.reserve.fact.a}" } | 23 step[0].compensation.body.of | may not exist: a fenced compensation | use `${action_key}`
        body = { of = "${action_key}" } => body = { of = "${steps.reserve.serial}" } | 23 step[0].compensation.body.of | may not exist: a fenced compensation | use `${action_key}`
        "#,
    );
}

#[test]
fn seals_after_needs_a_query_and_stays_below_key_ttl() {
    check(
        r#"
        seals_after = "15m" => seals_after = "24h"             | 13 participants.bank.seals_after | (1d) is not below `key_ttl` (1d) | lower `seals_after`
        key_ttl = "24h" => key_ttl = "10m"                     | 13 participants.bank.seals_after | (15m) is not below `key_ttl` (10m) | raise `key_ttl`
        serial = "/no"\nquery = { get = "/charges/${key}" } => serial = "/no" | 26 step[1].action | about what a query does not know, but the action of step `charge` has no query | add `query`
        "#,
    );
    // Of a participant that is only asked to undo: at least one operation there has a query.
    let undo_only = "[participants.p]\nidempotency = \"replay\"\nseals_after = \"1m\"\n[[step]]\nname = \"a\"\n[step.action]\n\
                     to = \"q\"\npost = \"/a\"\n[step.compensation]\nto = \"p\"\npost = \"/b\"";
    let head = "saga = \"s\"\nversion = 1\n[participants.q]\nidempotency = \"replay\"\n";
    let problems = from_toml(&format!("{head}{undo_only}")).expect_err("no query");
    assert_eq!(problems.len(), 1, "{}", lines(&problems));
    assert_eq!(problems[0].path, "participants.p.seals_after");
    from_toml(&format!("{head}{undo_only}\nquery = {{ get = \"/b\" }}")).expect("a query");
}

#[test]
fn compensatable_steps_can_be_undone_and_others_are_not() {
    check(
        r#"
        [step.compensation]\npost = "/refunds"\nbody = { charge = "${steps.charge.serial}" }\nquery = { get = "/refunds/${key}" } => | 24 step[1] | step `charge` can be undone, but there is no compensation | effect = "none"
        name = "charge" => name = "charge"\neffect = "none"     | 33 step[1].compensation   | its compensation would never be carried out | remove the compensation
        post = "/shipments" => post = "/shipments"\n[step.compensation]\npost = "/returns" | 42 step[2].compensation | step `confirm` is the pivot | remove its compensation
        post = "/mails" => post = "/mails"\n[step.compensation]\npost = "/sorry" | 47 step[3].compensation | step `notify` comes after the pivot | remove its compensation
        [step.action]\nto = "stock"\npost = "/mails" => [step.compensation]\nto = "stock"\npost = "/sorry" | 44 step[3].compensation | a compensation but no action | give it an action
        "#,
    );
}

#[test]
fn there_is_one_pivot_and_everything_is_before_or_after_it() {
    check(
        r#"
        name = "charge" => name = "charge"\npivot = true        | 39 step[2].pivot          | `confirm` is a second pivot; `charge` is the point of no return | keep one
        name = "notify" => name = "notify"\nafter = ["charge"]  | 42 step[3]                | step `notify` is neither before nor after the pivot `confirm` | let `confirm` come after it
        name = "notify" => name = "notify"\nafter = []          | 42 step[3]                | step `notify` is neither before nor after the pivot `confirm` | into its own `after`
        "#,
    );
}

#[test]
fn steps_do_not_wait_for_each_other() {
    check(
        r#"
        name = "reserve" => name = "reserve"\nafter = ["notify"] | 14 step[0]               | wait for each other: reserve → charge → confirm → notify → reserve | remove one of them
        name = "charge" => name = "charge"\nafter = ["confirm"] | 24 step[1]                | wait for each other: charge → confirm → charge | remove one of them
        name = "charge" => name = "charge"\nafter = ["charge"]  | 26 step[1].after[0]       | step `charge` waits for itself | remove it
        name = "charge" => name = "charge"\nafter = ["reserv"]  | 26 step[1].after[0]       | no step `reserv`               | did you mean `reserve`?
        name = "charge" => name = "charge"\nafter = ["reserve", "reserve"] | 26 step[1].after[1] | `reserve` is named twice   | keep one
        name = "charge" => name = "charge"\nafter = [1]         | 26 step[1].after[0]       | expected a text, found a number | "reserve"
        "#,
    );
}

#[test]
fn paths_that_can_never_lead_anywhere_are_refused() {
    let unknown = "| 19 step[0].action.body.sku";
    let charge = "| 29 step[1].action.body.reservation";
    check(
        &r#"
        ${input.sku} => ${inputs.sku}              {unknown} | `${inputs.sku}` names nothing that exists | a path is `id`, `input.…`
        ${input.sku} => ${id.x}                    {unknown} | goes into `id`, which is a text | write `${id}`
        ${input.sku} => ${input..sku}              {unknown} | is not a path               | there are no expressions
        ${input.sku} => ${input.a + 1}             {unknown} | is not a path               | there are no expressions
        ${input.sku} => ${}                        {unknown} | is not a path               | there are no expressions
        ${input.sku} => ${input.sku                {unknown} | has no closing `}`          | write `$$` for a dollar
        ${input.sku} => $sku                       {unknown} | a `$` here starts no        | write `$$` for a dollar
        ${input.sku} => cost: 5$                   {unknown} | a `$` here starts no        | write `$$` for a dollar
        ${input.sku} => ${action_key}              {unknown} | only exists in a compensation | in an action the key is `${key}`
        ${input.sku} => ${serial}                  {unknown} | only exists in an operation's own query | `${steps.NAME.serial}`
        ${input.sku} => ${steps.charge.serial}     {unknown} | step `reserve` does not come after step `charge` | add `charge` to the `after` of `reserve`
        ${input.sku} => ${steps.reserve.fact.x}    {unknown} | not known while the action is carried out | `${key}`
        ${input.sku} => ${steps.reserve.serial}    {unknown} | not known while the action is carried out | `${serial}`
        ${steps.reserve.serial} => ${steps.reserv.serial} {charge} | a step `reserv` that does not exist | did you mean the step `reserve`?
        ${steps.reserve.serial} => ${steps.reserve} {charge} | does not say what of the step is meant | `steps.NAME.serial` or
        ${steps.reserve.serial} => ${steps.reserve.facts.a} {charge} | does not say what of the step is meant | `steps.NAME.serial` or
        ${steps.reserve.serial} => ${steps.reserve.serial.a} {charge} | does not say what of the step is meant | `steps.NAME.serial` or
        post = "/mails" => post = "/mails/${steps.confirm.serial}" | 46 step[3].action.post | the action of step `confirm` declares no `serial` | add `serial
        get = "/refunds/${key}" => get = "/refunds/${serial}" | 35 step[1].compensation.query.get | the operation declares no `serial` | ask by `${key}`
        order:${id} => order:${key}                          | 3 claims[0] | not known when claims are taken | `${id}` or `${input.…}`
        order:${id} => order:${key_hash}                     | 3 claims[0] | not known when claims are taken | `${id}` or `${input.…}`
        order:${id} => order:${steps.reserve.serial}         | 3 claims[0] | not known when claims are taken | `${id}` or `${input.…}`
        order:${id} => order:${steps.reserve.fact.a}         | 3 claims[0] | not known when claims are taken | `${id}` or `${input.…}`
        order:${id} => order:${oops                          | 3 claims[0] | has no closing `}`              | write `$$`
        "#
        .replace("{unknown}", unknown)
        .replace("{charge}", charge),
    );
    // A decision point has no fact.
    let problems = from_toml(
        "saga = \"s\"\nversion = 1\n[participants.p]\nidempotency = \"replay\"\n[[step]]\nname = \"a\"\n[[step]]\nname = \"b\"\n\
         effect = \"none\"\n[step.action]\nto = \"p\"\npost = \"/${steps.a.fact.x}\"",
    )
    .expect_err("no fact");
    assert_eq!(lines(&problems).lines().count(), 1);
    assert!(problems[0].reason.contains("step `a` has no action"), "{}", problems[0]);
}

#[test]
fn claims_are_short_texts() {
    let long = format!("claims = [\"{}\"]", "x".repeat(513));
    let table = r#"
        claims = ["order:${id}"] => claims = [""]       | 3 claims[0] | a claim has 1 to 512 bytes | name the resource
        claims = ["order:${id}"] => claims = ["a\u0007"] | 3 claims[0] | no control characters      | name the resource
        claims = ["order:${id}"] => {long}              | 3 claims[0] | a claim has 1 to 512 bytes | name the resource
        "#;
    check(&table.replace("{long}", &long));
}

#[test]
fn a_request_has_one_method_one_path_and_one_body() {
    check(
        &r#"
        post = "/mails" =>                              {at}      | one of get, post, put, patch, delete is missing | post = "/charges"
        post = "/mails" => post = "/mails"\nput = "/m"  | 47 step[3].action.put | there are both `post` and `put` | keep one
        post = "/mails" => post = 1                     | 46 step[3].action.post | expected a text, found a number | post = "/charges"
        post = "/mails" => post = "mails"               | 46 step[3].action.post | a path starts with `/`    | put a `/` in front
        post = "/mails" => post = "${input.path}"       | 46 step[3].action.post | a path starts with `/`    | put a `/` in front
        post = "/mails" => post = "https://mail/x"      | 46 step[3].action.post | this is a URL             | in amends.toml
        post = "/mails" => post = "/my mails"           | 46 step[3].action.post | ' ' cannot stand in a path | percent-encode it
        post = "/mails" => post = "/mails#x"            | 46 step[3].action.post | '#' cannot stand in a path | percent-encode it
        post = "/mails" => post = "/é"                  | 46 step[3].action.post | 'é' cannot stand in a path | percent-encode it
        post = "/mails" => post = "/100%"               | 46 step[3].action.post | a `%` is not followed by two | write `%25`
        post = "/mails" => post = "/%4"                 | 46 step[3].action.post | a `%` is not followed by two | write `%25`
        post = "/mails" => post = "/a/../b"             | 46 step[3].action.post | `.` and `..` are no segments | the path that is meant
        post = "/mails" => post = "/a/%2E%2e/b"         | 46 step[3].action.post | `.` and `..` are no segments | the path that is meant
        post = "/mails" => post = "/mails"\nbody = 1\nform = {} | 48 step[3].action.form | there are both `body` and `form` | keep `body` for JSON
        post = "/mails" => post = "/mails"\nform = [1]  | 47 step[3].action.form | expected a table of texts | form = {
        post = "/mails" => post = "/mails"\nform = { a = [1] } | 47 step[3].action.form.a | expected a text, number or boolean | form = {
        "#
        .replace("{at}", "| 44 step[3].action"),
    );
}

#[test]
fn headers_have_names_of_their_own() {
    let at = "| 47 step[3].action.headers";
    check(
        &r#"
        post = "/mails" => post = "/mails"\nheaders = { Host = "x" }       {at}.Host | `host` belongs to the connection | remove it
        post = "/mails" => post = "/mails"\nheaders = { content-length = "1" } {at}.content-length | belongs to the connection | remove it
        post = "/mails" => post = "/mails"\nheaders = { connection = "close" } {at}.connection | belongs to the connection | remove it
        post = "/mails" => post = "/mails"\nheaders = { transfer-encoding = "x" } {at}.transfer-encoding | belongs to the connection | remove it
        post = "/mails" => post = "/mails"\nheaders = { Amends-Saga = "x" } {at}.Amends-Saga | is sent by amends itself | choose a name
        post = "/mails" => post = "/mails"\nheaders = { webhook-id = "x" } {at}.webhook-id | is sent by amends itself | choose a name
        post = "/mails" => post = "/mails"\nheaders = { "a b" = "x" }      {at}."a b" | "a b" is no name of a header | letters, digits and `-`
        post = "/mails" => post = "/mails"\nheaders = { A = "x", a = "y" } {at}.a    | `a` is given twice | upper and lower case
        post = "/mails" => post = "/mails"\nheaders = { a = 1 }            {at}.a    | expected a text, found a number | a = "
        post = "/mails" => post = "/mails"\nheaders = { a = "x\u000a" }    {at}.a    | cannot carry control characters | remove them
        post = "/mails" => post = "/mails"\nheaders = ["a"]                {at}      | expected a table of headers | headers = {
        "#
        .replace("{at}", at),
    );
}

#[test]
fn what_is_read_out_of_an_answer_is_said_with_pointers_and_known_words() {
    let rule = "| 47 step[3].action.outcome";
    check(
        &r#"
        post = "/mails" => post = "/mails"\nserial = "no"       | 47 step[3].action.serial | "no" is no JSON pointer | "/no"
        post = "/mails" => post = "/mails"\nserial = "a.b"      | 47 step[3].action.serial | "a.b" is no JSON pointer | "/a/b"
        post = "/mails" => post = "/mails"\nserial = "/a~2"     | 47 step[3].action.serial | is no JSON pointer | "/a~02"
        post = "/mails" => post = "/mails"\nserial = []         | 47 step[3].action.serial | names 0 JSON pointers | "/charge_id"
        post = "/mails" => post = "/mails"\nserial = ["/a", 1]  | 47 step[3].action.serial[1] | expected a text | "/charge_id"
        post = "/mails" => post = "/mails"\noutcome = {}        {rule} | this rule says nothing | outcome = { at
        post = "/mails" => post = "/mails"\noutcome = "done"    {rule} | expected a table, found a text | outcome = { at
        post = "/mails" => post = "/mails"\noutcome = { at = "/s" } {rule} | no value means anything | done = ["SUCCESS"]
        post = "/mails" => post = "/mails"\noutcome = { done = ["S"] } {rule} | `at` is missing | at = "/status"
        post = "/mails" => post = "/mails"\noutcome = { at = "s", done = ["S"] } {rule}.at | "s" is no JSON pointer | "/s"
        post = "/mails" => post = "/mails"\noutcome = { at = "/s", done = "S" } {rule}.done | expected a list of values, found a text | done = ["S"]
        post = "/mails" => post = "/mails"\noutcome = { at = "/s", done = [["S"]] } {rule}.done[0] | expected a text, number, boolean or null | outcome = {
        post = "/mails" => post = "/mails"\noutcome = { at = "/s", done = ["S"], rejected = ["S"] } {rule}.rejected[0] | "S" is named twice | one outcome
        post = "/mails" => post = "/mails"\noutcome = { at = "/s", done = ["S"], never_seen = ["N"] } {rule}.never_seen | only a query can say `never_seen` | the query's `outcome`
        post = "/mails" => post = "/mails"\noutcome = { at = "/s", done = ["S"], sealed = ["N"] } {rule}.sealed | only a query can say `sealed` | the query's `outcome`
        post = "/mails" => post = "/mails"\noutcome = { codes = { "404" = "never_seen" } } {rule}.codes.404 | only a query can say `never_seen` | the query's `outcome`
        post = "/mails" => post = "/mails"\noutcome = { codes = { "409" = "ok" } } {rule}.codes.409 | "ok" is no outcome | done, rejected, in_progress
        post = "/mails" => post = "/mails"\noutcome = { codes = { "99" = "done", "409" = "done" } } {rule}.codes.99 | "99" is no status | three digits from 200 to 599
        post = "/mails" => post = "/mails"\noutcome = { codes = { "0409" = "done", "409" = "done" } } {rule}.codes.0409 | "0409" is no status | three digits
        get = "/refunds/${key}" => get = "/r", outcome = { at = "/s", done = ["S"], not_executed = ["N"] } | 35 step[1].compensation.query.outcome.not_executed | speaks of one attempt | `never_seen` or `in_progress`
        "#
        .replace("{rule}", rule),
    );
}

#[test]
fn a_retry_keeps_its_budget() {
    let five_ten =
        "5 calls of 10s and the back-offs between them (15s) take up to 65s, more than the budget of 1m";
    let three =
        "3 calls of 3s and the back-offs between them (3s) take up to 12s, more than the budget of 11s";
    check(
        &r#"
        post = "/mails" => post = "/mails"\ntimeout = "10s"     | 47 step[3].action.retry   | {five_ten} | raise `budget` to "65s" or more
        name = "notify" => name = "notify"\ntimeout = "10s"     | 44 step[3].action.retry   | {five_ten} | lower `max_attempts`
        post = "/mails" => post = "/mails"\nretry = { max_attempts = 3, budget = "11s" } | 47 step[3].action.retry | {three} | "12s" or more
        post = "/mails" => post = "/mails"\nretry = { max_attempts = 1, budget = "2s" } | 47 step[3].action.retry | a call of 3s takes longer than the budget of 2s | "3s" or more
        name = "notify" => name = "notify"\nretry = { budget = "29999ms" } | 44 step[3].action.retry | take up to 30s, more than the budget of 29999ms | "30s" or more
        timeout = "3s" => timeout = "9001ms"                   | 6 step[0].action.retry    | more than the budget | raise `budget`
        &                                                      | 6 step[0].compensation.retry | more than the budget | raise `budget`
        &                                                      | 6 step[1].action.retry    | more than the budget | raise `budget`
        &                                                      | 6 step[1].compensation.retry | more than the budget | raise `budget`
        &                                                      | 6 step[2].action.retry    | more than the budget | raise `budget`
        &                                                      | 6 step[3].action.retry    | more than the budget | raise `budget`
        "#
        .replace("{five_ten}", five_ten)
        .replace("{three}", three),
    );
}

#[test]
fn what_an_exhausted_operation_leads_to_is_said_where_there_is_a_choice() {
    check(
        r#"
        post = "/mails" => post = "/mails"\non_exhausted = "compensate" | 47 step[3].action.on_exhausted | after the pivot nothing is undone | leave `on_exhausted` out
        post = "/mails" => post = "/mails"\non_exhausted = "retry"      | 47 step[3].action.on_exhausted | "compensate" or "dead" | put it before a person
        post = "/refunds" => post = "/refunds"\non_exhausted = "dead"   | 34 step[1].compensation.on_exhausted | always put before a person | it belongs to actions
        "#,
    );
}

#[test]
fn a_definition_has_limits() {
    let head = "saga = \"s\"\nversion = 1\n[participants.p]\nidempotency = \"replay\"\n";
    let only = |text: &str, place: &str, reason: &str| {
        let problems = from_toml(text).expect_err(reason);
        assert_eq!(problems.len(), 1, "{}", lines(&problems));
        assert_eq!(format!("{} {}", problems[0].line, problems[0].path).trim(), place);
        assert!(problems[0].reason.contains(reason), "{}", problems[0]);
    };
    let steps = |n: usize| (0..n).map(|i| format!("[[step]]\nname = \"s{i}\"\n")).collect::<String>();
    from_toml(&format!("{head}{}", steps(1_000))).expect("a thousand steps");
    only(&format!("{head}{}", steps(1_001)), "5 step", "1001 steps are more than the 1000");
    only("saga = \"s\"\nversion = 1\nstep = []", "3 step", "there are no steps");
    only("saga = \"s\"\nversion = 1\nstep = 4", "3 step", "expected a list of steps, found a number");
    only("saga = \"s\"\nversion = 1\nstep = [4]", "3 step[0]", "expected a table, found a number");
    only("saga = \"s\"\nversion = 1", "1", "`step` is missing");
    let claims = |n: usize| format!("claims = [{}]\n{head}{}", "\"a\",".repeat(n), steps(1));
    from_toml(&claims(64)).expect("64 claims");
    only(&claims(65), "1 claims", "65 claims are more than the 64");
    let deep = |n: usize| {
        let body = format!("{}1{}", "[".repeat(n), "]".repeat(n));
        format!(
            "{head}[[step]]\nname = \"a\"\neffect = \"none\"\naction = {{ to = \"p\", post = \"/\", body = {body} }}"
        )
    };
    from_toml(&deep(60)).expect("64 levels");
    let path = format!("8 step[0].action.body{}", "[0]".repeat(60));
    only(&deep(61), &path, "nested more than 64 deep");
    only(&format!("# {}", "x".repeat(1024 * 1024)), "0", "more than the 1048576 there may be");
    let headers: String = (0..65).map(|i| format!("h{i} = \"\"\n")).collect();
    let many = format!(
        "{head}[[step]]\nname = \"a\"\neffect = \"none\"\n[step.action]\nto = \"p\"\nget = \"/\"\n[step.action.headers]\n"
    );
    only(&format!("{many}{headers}"), "11 step[0].action.headers", "65 headers are more than the 64");
}

#[test]
fn of_very_many_problems_the_first_are_named_and_the_rest_counted() {
    let unknown: String = (0..5_000).map(|i| format!("x{i} = 1\n")).collect();
    let problems = from_toml(&format!("{unknown}saga = \"s\"")).expect_err("unknown fields");
    assert_eq!(problems.len(), 201);
    assert_eq!(problems[200].reason, "there are 4802 more");
}

#[test]
fn a_name_with_a_meaning_for_the_reader_of_json_is_refused() {
    let text = edited("{ sku = \"${input.sku}\" }", "{ \"$serde_json::private::Number\" = \"1\" }");
    let problems = from_toml(&text).expect_err("reserved");
    assert_eq!(problems.len(), 1, "{}", lines(&problems));
    assert_eq!((problems[0].line, problems[0].reason.contains("must not start with")), (19, true));
}
