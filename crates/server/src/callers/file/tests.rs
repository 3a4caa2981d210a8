//! What a callers' file may say.

use super::*;
use serde_json::json;

fn paths(document: &Value) -> Vec<String> {
    let faults = parse(document.to_string().as_bytes()).unwrap_err();
    faults.into_iter().map(|fault| fault.path).collect()
}

#[test]
fn a_whole_caller_is_read() {
    let key = Digest::of(b"key");
    let document = json!({"callers": [{
        "name": "checkout", "keys_sha256": [key.hex()], "sans": ["spiffe://x/Y", "Host.Example"], "uids": [1000],
        "requests_per_second": 1000, "burst": 100, "in_flight_max": 64, "may": ["decide:fraud", "infer:price*", "metrics"],
    }]});
    let entries = parse(document.to_string().as_bytes()).unwrap();
    assert_eq!(entries[0].keys, [key]);
    assert_eq!(entries[0].sans, ["spiffe://x/Y", "host.example"]);
    assert_eq!(entries[0].uids, [1000]);
    assert_eq!(entries[0].terms.burst.map(NonZeroU32::get), Some(100));
    assert_eq!(entries[0].rights.len(), 3);
    assert_eq!(parse(br#"{"callers": []}"#), Ok(Vec::new()));
}

#[test]
fn every_fault_is_told_at_once() {
    let document = json!({"colour": 1, "callers": [
        {"name": "none", "uids": [-1], "keys_sha256": ["ab"]},
        {"name": "b", "uids": [7], "burst": 5, "in_flight_max": 0, "speed": 1},
        {"name": "b", "uids": [7]},
        {"name": "c"},
        {"uids": [8], "may": ["decide:fraud", "metrics:x", 7]},
        "d",
        {"name": "anonymous", "uids": [9]},
        {"name": "e", "uids": [10], "may": "infer"},
    ]});
    let mut found = paths(&document);
    found.sort();
    let mut wanted = [
        "colour",
        "callers[0].name",
        "callers[0].keys_sha256[0]",
        "callers[0].uids[0]",
        "callers[1].burst",
        "callers[1].in_flight_max",
        "callers[1].speed",
        "callers[2].name",
        "callers[2].uids[0]",
        "callers[3]",
        "callers[4].name",
        "callers[4].may[1]",
        "callers[4].may[2]",
        "callers[6]",
        "callers[7].may",
        "callers[5]",
    ];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn what_is_no_file_of_callers_is_refused() {
    assert_eq!(paths(&json!([])), [""]);
    assert_eq!(paths(&json!({})), ["callers"]);
    let many = vec![json!({"name": "x"}); CALLERS_MAX + 1];
    assert_eq!(paths(&json!({"callers": many})), ["callers"]);
    assert_eq!(parse(b"{").unwrap_err().len(), 1);
    assert_eq!(parse(br#"{"callers": [], "callers": []}"#).unwrap_err().len(), 1);
}
