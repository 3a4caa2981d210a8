//! Who is let in, who is not, and what a new file changes.

use super::*;
use ::http::HeaderValue;
use flyball_core::Verb;
use serde_json::{Value, json};

struct Desk {
    folder: tempfile::TempDir,
    callers: Callers,
}

impl Desk {
    fn new(entries: &Value) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("callers.json");
        std::fs::write(&path, json!({"callers": entries}).to_string()).unwrap();
        let callers = Callers::open(path, Telemetry::new(1)).unwrap();
        Desk { folder, callers }
    }

    fn rewrite(&self, text: &str) {
        std::fs::write(self.folder.path().join("callers.json"), text).unwrap();
        self.callers.reload();
    }

    fn visit(&self, peer: &Peer, key: Option<&'static str>) -> Visit {
        let headers = key.map(|key| (header::AUTHORIZATION, HeaderValue::from_static(key)));
        Visitor::find(Some(&self.callers), peer, &headers.into_iter().collect()).visit()
    }
}

fn known_by_key(key: &str) -> Value {
    json!([{"name": "checkout", "keys_sha256": [Digest::of(key.as_bytes()).hex()]}])
}

fn peer(mark: Mark) -> Peer {
    Peer { anonymous: false, near: false, hosts: None, mark }
}

fn kind(visit: &Visit) -> Option<FaultKind> {
    visit.admitted.as_ref().err().map(|fault| fault.kind)
}

#[test]
fn a_caller_is_known_by_its_key_and_nobody_else_is() {
    let desk = Desk::new(&known_by_key("K"));
    let nobody = peer(Mark::Nothing);
    let visit = desk.visit(&nobody, Some("Bearer K"));
    assert_eq!((visit.caller.0 as usize, kind(&visit)), (CallerIndex::FIRST, None));
    assert_eq!(kind(&desk.visit(&nobody, Some("bearer K"))), None, "the scheme is the same in either case");
    for key in [None, Some("Bearer k"), Some("Bearer "), Some("Basic K")] {
        let visit = desk.visit(&nobody, key);
        assert_eq!(
            (visit.caller, kind(&visit)),
            (CallerIndex::NONE, Some(FaultKind::Unauthenticated)),
            "{key:?}"
        );
    }
    let headers = HeaderMap::from_iter([(API_KEY.clone(), HeaderValue::from_static("K"))]);
    assert_eq!(kind(&Visitor::find(Some(&desk.callers), &nobody, &headers).visit()), None);
}

#[test]
fn a_wrong_key_is_refused_even_where_anonymous_callers_are_served() {
    let desk = Desk::new(&known_by_key("K"));
    let open = Peer { anonymous: true, near: false, hosts: None, mark: Mark::Nothing };
    assert_eq!(desk.visit(&open, None).caller, CallerIndex::ANONYMOUS);
    assert_eq!(kind(&desk.visit(&open, Some("Bearer x"))), Some(FaultKind::Unauthenticated));
    let keyed = HeaderMap::from_iter([(API_KEY.clone(), HeaderValue::from_static("x"))]);
    assert_eq!(
        kind(&Visitor::find(None, &open, &keyed).visit()),
        None,
        "without callers, keys are nobody's business"
    );
}

#[test]
fn only_a_caller_that_was_given_a_right_has_it() {
    let desk =
        Desk::new(&json!([{"name": "a", "uids": [7]}, {"name": "b", "uids": [8], "may": ["control"]}]));
    let may = |mark| desk.visit(&peer(mark), None).access.may_all(Verb::Control);
    assert!(!may(Mark::User(7)) && may(Mark::User(8)) && !may(Mark::User(9)));
    desk.rewrite(r#"{"callers": [{"name": "b", "uids": [8]}]}"#);
    assert!(!desk.visit(&peer(Mark::User(8)), None).access.any(), "it was taken away");
}

#[test]
fn those_who_are_not_known_may_do_what_their_entry_says_and_without_one_nothing() {
    let open = Peer { anonymous: true, near: true, hosts: None, mark: Mark::Nothing };
    let desk = Desk::new(&json!([{"name": "a", "uids": [7], "may": ["infer"]}]));
    let visit = desk.visit(&open, None);
    assert!(visit.caller == CallerIndex::ANONYMOUS && visit.name.is_none() && !visit.access.any());
    desk.rewrite(r#"{"callers": [{"name": "anonymous", "may": ["infer:demo*"]}]}"#);
    let visit = desk.visit(&open, None);
    assert!(visit.caller == CallerIndex::ANONYMOUS && visit.name.is_none());
    assert!(visit.access.may(Verb::Infer, "demo-1") && !visit.access.may(Verb::Infer, "fraud"));
    assert_eq!(kind(&desk.visit(&peer(Mark::Nothing), None)), Some(FaultKind::Unauthenticated));
    assert!(
        Visitor::find(None, &open, &HeaderMap::new()).visit().access.may_all(Verb::Infer),
        "no callers are known"
    );
}

#[test]
fn a_caller_is_known_by_its_user_or_by_a_name_in_its_certificate() {
    let desk = Desk::new(&json!([{"name": "a", "uids": [7]}, {"name": "b", "sans": ["spiffe://x/b"]}]));
    let caller = |mark| desk.visit(&peer(mark), None).caller.0 as usize;
    assert_eq!(caller(Mark::User(7)), CallerIndex::FIRST);
    assert_eq!(caller(Mark::Names(vec!["other".into(), "spiffe://x/b".into()])), CallerIndex::FIRST + 1);
    assert_eq!(kind(&desk.visit(&peer(Mark::User(8)), None)), Some(FaultKind::Unauthenticated));
}

#[test]
fn a_caller_beyond_its_rate_or_its_requests_at_once_is_told_when_to_come_again() {
    let desk = Desk::new(&json!([
        {"name": "slow", "uids": [1], "requests_per_second": 1, "burst": 2},
        {"name": "few", "uids": [2], "in_flight_max": 1},
    ]));
    let slow = peer(Mark::User(1));
    assert_eq!([kind(&desk.visit(&slow, None)), kind(&desk.visit(&slow, None))], [None, None]);
    let third = desk.visit(&slow, None);
    assert_eq!(kind(&third), Some(FaultKind::CallerLimited));
    assert!(third.admitted.err().unwrap().retry_after.is_some());
    assert_eq!(third.caller.0 as usize, CallerIndex::FIRST, "the refusal is counted under its caller");
    let few = peer(Mark::User(2));
    let first = desk.visit(&few, None);
    assert_eq!(kind(&desk.visit(&few, None)), Some(FaultKind::CallerLimited));
    drop(first);
    assert_eq!(kind(&desk.visit(&few, None)), None);
}

#[test]
fn a_new_file_is_taken_and_a_broken_one_is_not() {
    let desk = Desk::new(&known_by_key("old"));
    let nobody = peer(Mark::Nothing);
    desk.rewrite(&json!({"callers": known_by_key("new")}).to_string());
    assert_eq!(kind(&desk.visit(&nobody, Some("Bearer old"))), Some(FaultKind::Unauthenticated));
    assert_eq!(kind(&desk.visit(&nobody, Some("Bearer new"))), None);
    desk.rewrite("{");
    assert_eq!(kind(&desk.visit(&nobody, Some("Bearer new"))), None);
    assert_eq!(desk.callers.reloads.counts(), [1, 1]);
}

#[test]
fn what_a_caller_has_used_up_stays_used_up_when_others_change() {
    let slow = json!({"name": "slow", "uids": [1], "requests_per_second": 1, "burst": 1});
    let desk = Desk::new(&json!([slow]));
    let user = peer(Mark::User(1));
    assert_eq!(kind(&desk.visit(&user, None)), None);
    desk.rewrite(&json!({"callers": [{"name": "new", "uids": [2]}, slow]}).to_string());
    assert_eq!(kind(&desk.visit(&user, None)), Some(FaultKind::CallerLimited));
}

#[test]
fn a_guest_whose_key_is_taken_away_is_refused_from_the_next_message_on() {
    let desk = Desk::new(&known_by_key("K"));
    let headers = HeaderMap::from_iter([(API_KEY.clone(), HeaderValue::from_static("K"))]);
    let mut guest = Guest::find(Some(&desk.callers), &peer(Mark::Nothing), &headers);
    assert_eq!(kind(&guest.visit(Some(&desk.callers))), None);
    desk.rewrite(&json!({"callers": known_by_key("new")}).to_string());
    let refused = guest.visit(Some(&desk.callers));
    assert_eq!((refused.caller, kind(&refused)), (CallerIndex::NONE, Some(FaultKind::Unauthenticated)));
    desk.rewrite(&json!({"callers": known_by_key("K")}).to_string());
    assert_eq!(kind(&guest.visit(Some(&desk.callers))), None);
}
