//! What a key means, call after call.

use amends_inbox::{ANSWER_BYTES_MAX, Action, Answer, Compensation, Error, Found, RequestHash};
use serde_json::{Value, json};

use crate::world::{
    Script, World, action_of, compensation_of, done, key, nothing_to_undo, records, request, stock, story,
    too_late, undone,
};

pub(crate) async fn a_key_is_carried_out_once_and_answers_the_same(world: &impl World) {
    assert_eq!(world.query(key("a:slot:action")).await.unwrap(), Found::NeverSeen);
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), done());
    // Its answer is the first one's, whatever the effect would come to now.
    for script in [Script::Succeed, Script::Refuse, Script::Fail] {
        assert_eq!(world.act(action_of("a"), script).await.unwrap(), done());
    }
    assert_eq!(story(world, "a").await, ["act a:slot:action"]);
    assert_eq!(stock(world).await, 999);
    let found = world.query(key("a:slot:action")).await.unwrap();
    assert_eq!((found.status(), found.body()), (200, json!({"serial": 7})));

    // Nothing to say is an empty object: the engine takes null for no answer.
    assert_eq!(
        world.act(action_of("b"), Script::Answer(Value::Null)).await.unwrap(),
        Answer::Done(json!({}))
    );
    let exact = json!({"amount": 12345678901234567890_u64, "text": "ä\u{0}'\"\\ 😀"});
    for _ in 0..2 {
        let answer = world.act(action_of("c"), Script::Answer(exact.clone())).await.unwrap();
        assert_eq!((answer.status(), answer.body()), (200, exact.clone()));
    }
}

pub(crate) async fn a_key_with_another_request_is_refused_and_nothing_runs(world: &impl World) {
    let other = RequestHash::of(&[b"POST", b"/slots", b"{\"qty\": 2}"]);
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    let refused = world.act(Action::new(key("a:slot:action"), other), Script::Succeed).await.unwrap_err();
    assert!(matches!(&refused, Error::Different { key } if key == "a:slot:action"), "{refused}");
    // No word for "refused for good": the first request was carried out.
    assert_eq!((refused.status(), refused.is_retryable()), (412, false));
    world.undo(compensation_of("a"), Script::Succeed).await.unwrap();
    let compensation = Compensation::new(key("a:slot:compensation"), key("a:slot:action"), other);
    assert_eq!(world.undo(compensation, Script::Succeed).await.unwrap_err().status(), 412);
    assert_eq!(story(world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), done());
}

pub(crate) async fn a_refusal_is_kept_and_what_it_wrote_is_not(world: &impl World) {
    for script in [Script::Refuse, Script::Succeed] {
        let answer = world.act(action_of("a"), script).await.unwrap();
        assert_eq!(
            (answer.status(), answer.body()),
            (422, json!({"outcome": "rejected", "reason": "sold out"}))
        );
    }
    let found = world.query(key("a:slot:action")).await.unwrap();
    assert_eq!((found.status(), found.body()), (409, json!({"outcome": "rejected", "reason": "sold out"})));
    assert_eq!((story(world, "a").await.len(), stock(world).await), (0, 1000));
}

pub(crate) async fn an_effect_that_fails_leaves_nothing(world: &impl World) {
    let failed = world.act(action_of("a"), Script::Fail).await.unwrap_err();
    assert!(matches!(&failed, Error::Effect(e) if e.to_string() == "planned"), "{failed}");
    assert_eq!((records(world).await, story(world, "a").await.len(), stock(world).await), (0, 0, 1000));
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    world.undo(compensation_of("a"), Script::Fail).await.unwrap_err();
    assert_eq!(world.query(key("a:slot:compensation")).await.unwrap(), Found::NeverSeen);
    assert_eq!(world.undo(compensation_of("a"), Script::Succeed).await.unwrap(), undone());
    assert_eq!(stock(world).await, 1000);
}

pub(crate) async fn an_action_is_undone_once_with_its_fact(world: &impl World) {
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    for script in [Script::Succeed, Script::Fail] {
        assert_eq!(world.undo(compensation_of("a"), script).await.unwrap(), undone());
    }
    // A person may have it undone under another key: it is not undone twice.
    let again = Compensation::new(key("a:slot:compensation.2"), key("a:slot:action"), request());
    for _ in 0..2 {
        let answer = world.undo(again.clone(), Script::Succeed).await.unwrap();
        assert_eq!(answer, Answer::Done(json!({"undone": true})));
    }
    assert_eq!(story(world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
    assert_eq!(stock(world).await, 1000);
    // A late copy of the action hears what the action came to.
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), done());
    assert_eq!(
        world.query(key("a:slot:compensation")).await.unwrap(),
        Found::Done(json!({"serial": 7, "undone": true}))
    );
}

pub(crate) async fn undoing_what_never_ran_makes_sure_it_never_will(world: &impl World) {
    for _ in 0..2 {
        assert_eq!(world.undo(compensation_of("a"), Script::Succeed).await.unwrap(), nothing_to_undo());
    }
    for _ in 0..2 {
        let late = world.act(action_of("a"), Script::Succeed).await.unwrap();
        assert_eq!(late, too_late());
        assert_eq!((late.status(), late.body()["outcome"].as_str()), (422, Some("rejected")));
    }
    let found = world.query(key("a:slot:action")).await.unwrap();
    assert_eq!((found.status(), found.body()), (410, json!({"outcome": "sealed"})));
    let found = world.query(key("a:slot:compensation")).await.unwrap();
    assert_eq!((found.status(), found.body()), (200, json!({"undone": false})));
    assert_eq!((story(world, "a").await.len(), stock(world).await), (0, 1000));
    // A person's new key is a new action.
    let again = Action::new(key("a:slot:action.2"), request());
    assert_eq!(world.act(again, Script::Succeed).await.unwrap(), done());
}

pub(crate) async fn what_was_refused_needs_no_undoing(world: &impl World) {
    world.act(action_of("a"), Script::Refuse).await.unwrap();
    assert_eq!(world.undo(compensation_of("a"), Script::Succeed).await.unwrap(), nothing_to_undo());
    let answer = world.act(action_of("a"), Script::Succeed).await.unwrap();
    assert_eq!(answer, Answer::Rejected { reason: "sold out".into() });
    assert_eq!(story(world, "a").await.len(), 0);
}

pub(crate) async fn undoing_may_be_refused_and_tried_under_another_key(world: &impl World) {
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    for script in [Script::Refuse, Script::Succeed] {
        let answer = world.undo(compensation_of("a"), script).await.unwrap();
        assert_eq!(answer, Answer::Rejected { reason: "sold out".into() });
    }
    assert_eq!(stock(world).await, 999);
    let again = Compensation::new(key("a:slot:compensation.2"), key("a:slot:action"), request());
    assert_eq!(world.undo(again, Script::Succeed).await.unwrap(), undone());
    assert_eq!(story(world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
}

pub(crate) async fn a_key_belongs_to_one_operation_and_one_action(world: &impl World) {
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    world.undo(compensation_of("a"), Script::Succeed).await.unwrap();
    let records_before = records(world).await;
    let different = |result: Result<Answer, Error>| match result {
        Err(e @ Error::Different { .. }) => assert_eq!(e.status(), 412),
        other => panic!("{other:?}"),
    };
    different(world.act(Action::new(key("a:slot:compensation"), request()), Script::Succeed).await);
    let undo =
        |own: &str, of: &str| world.undo(Compensation::new(key(own), key(of), request()), Script::Succeed);
    different(undo("a:slot:action", "a:slot:action").await);
    different(undo("x", "a:slot:compensation").await);
    different(undo("a:slot:compensation", "never-seen").await);
    // What was refused sealed nothing on its way.
    assert_eq!(records(world).await, records_before);
    let untouched = Action::new(key("never-seen"), request());
    assert_eq!(world.act(untouched, Script::Succeed).await.unwrap(), done());
}

pub(crate) async fn keys_are_compared_byte_by_byte(world: &impl World) {
    let long = "k".repeat(amends_inbox::KEY_BYTES_MAX - 1);
    let keys =
        ["Key", "key", "key ", "k\u{e9}y", "ke\u{301}y", "kéy😀", &format!("{long}a"), &format!("{long}b")];
    for text in keys {
        assert_eq!(world.query(key(text)).await.unwrap(), Found::NeverSeen, "{text:?}");
        assert_eq!(world.act(Action::new(key(text), request()), Script::Succeed).await.unwrap(), done());
    }
    let seven = i64::try_from(keys.len()).unwrap();
    assert_eq!(stock(world).await, 1000 - seven);
}

pub(crate) async fn an_answer_that_cannot_be_kept_keeps_nothing(world: &impl World) {
    let longest = json!("x".repeat(ANSWER_BYTES_MAX - 2));
    let answer = world.act(action_of("a"), Script::Answer(longest.clone())).await.unwrap();
    assert_eq!(answer.body(), longest);
    let approved = json!({"outcome": "approved"});
    let answer = world.act(action_of("c"), Script::Answer(approved.clone())).await.unwrap();
    assert_eq!(answer.body(), approved);
    for fact in [json!("x".repeat(ANSWER_BYTES_MAX - 1)), json!({"outcome": "never_seen"})] {
        let refused = world.act(action_of("b"), Script::Answer(fact)).await.unwrap_err();
        assert!(matches!(refused, Error::Fact(_)), "{refused}");
    }
    // To an object `undone` can be added, to anything else not.
    let refused = world.undo(compensation_of("a"), Script::Answer(json!([1]))).await.unwrap_err();
    assert!(matches!(refused, Error::Fact(_)), "{refused}");
    assert_eq!((records(world).await, stock(world).await), (2, 998));
    assert_eq!(
        world.undo(compensation_of("a"), Script::Answer(Value::Null)).await.unwrap(),
        Answer::Done(json!({"undone": true}))
    );
}

pub(crate) async fn a_record_committed_unfinished_is_told_and_never_run_again(world: &impl World) {
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    world.ask("UPDATE amends_inbox SET state = 'running', answer = NULL".into()).await;
    let unfinished = |error: Error| match error {
        Error::Unfinished { key } => assert_eq!(key, "a:slot:action"),
        other => panic!("{other}"),
    };
    unfinished(world.act(action_of("a"), Script::Succeed).await.unwrap_err());
    unfinished(world.undo(compensation_of("a"), Script::Succeed).await.unwrap_err());
    unfinished(world.query(key("a:slot:action")).await.unwrap_err());
    assert_eq!(story(world, "a").await, ["act a:slot:action"]);
}
