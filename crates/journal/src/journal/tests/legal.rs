//! Erasures and holds: an erasure reports its work, a hold blocks it, `verify` detects an undone one.

use super::*;
use crate::keys::Stored;
use crate::{Erased, Erasure, HoldScope, LegalError, Unsealed};
use std::os::unix::fs::FileExt;

const NOW_NS: i64 = 1_794_787_200_000_000_000;

fn decided(subject: &str, number: u64, decision: &str, at: i64) -> JournalRecord {
    let mut entry = JournalRecord { id: id(number), ..JournalRecord::default() };
    let mut pairs = Encoder::new(&mut entry.pairs);
    pairs.str("at").unwrap().i64(at).unwrap().str("decision").unwrap().str(decision).unwrap();
    entry.pairs_count = 2;
    let mut personal = Encoder::new(&mut entry.personal);
    personal.map(1).unwrap().str("row").unwrap().str("row 17").unwrap();
    entry.subject.extend_from_slice(subject.as_bytes());
    entry
}

fn erasure(subject: &str) -> Erasure {
    let [by, why] = ["ana", "she asked for it by letter"].map(str::to_owned);
    Erasure { subject: subject.to_owned(), by, why, caller: None }
}

fn held(name: &str, decision: Option<&str>, from: Option<i64>) -> HoldScope {
    let [name, by, why] = [name, "legal", "a case"].map(str::to_owned);
    HoldScope { name, by, why, decision: decision.map(str::to_owned), from, to: None }
}

fn hold(journal: &Journal, held: HoldScope) -> Result<u64, LegalError> {
    journal.hold(held, NOW_NS, |_served| false)
}

fn erase(journal: &Journal, subject: &str) -> Result<Erased, LegalError> {
    journal.erase(&erasure(subject), wall_ns(), || Ok(0))
}

fn wall_ns() -> i64 {
    flyball_core::WallClock::system().now_ns()
}

fn contains(folder: &Path, text: &str) -> bool {
    let has =
        |path: &PathBuf| fs::read(path).unwrap().windows(text.len()).any(|part| part == text.as_bytes());
    paths(folder).iter().any(has)
}

#[test]
fn an_unknown_subject_is_refused_and_an_erasure_says_how_many_records_it_concerns() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    for number in 0..3 {
        journal.append(decided("4242", number, "card", NOW_NS)).unwrap();
    }
    journal.append(decided("4711", 9, "card", NOW_NS)).unwrap();
    let unknown = erase(&journal, "42").unwrap_err();
    assert!(matches!(unknown, LegalError::NoSubject { erased: 0 }));
    assert!(!unknown.to_string().contains("42"), "what was looked for is personal: {unknown}");
    assert_eq!(erase(&journal, "4242").unwrap().records, 3);
    assert!(matches!(erase(&journal, "4242"), Err(LegalError::NoSubject { erased: 3 })));
    // Rows stored elsewhere count as a subject too.
    let rows = journal.erase(&erasure("42"), NOW_NS, || Ok(2)).unwrap();
    assert_eq!((rows.records, rows.rows), (0, 2));
    let failed = journal.erase(&erasure("4711"), NOW_NS, || Err("the disk is full".to_owned()));
    assert!(matches!(failed, Err(LegalError::Elsewhere(_))));
    assert!(journal.keys().has(b"4711").unwrap(), "what failed half-way has erased nothing");
    journal.close();
    assert_eq!(of_kind(&records(folder.path()), "erased").len(), 2);
    assert_eq!(verified(folder.path()), Vec::<String>::new());
}

#[test]
fn a_record_that_is_still_on_its_way_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    offer(&*journal.lane(0), 7, false).unwrap();
    assert_eq!(erase(&journal, "subject 2").unwrap().records, 1);
}

#[test]
fn the_reason_of_an_erasure_and_the_ids_of_rows_are_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    journal.append(decided("4242", 1, "card", NOW_NS)).unwrap();
    erase(&journal, "4242").unwrap();
    journal.close();
    assert!(!contains(folder.path(), "letter") && !contains(folder.path(), "row 17"));
    let keys = Keys::read_only(folder.path(), &KekSource::own(folder.path())).unwrap();
    let found = records(folder.path());
    let shown = |record: &Record, keys: Option<&Keys>| crate::render(&record.payload, keys).unwrap();
    let erased = &of_kind(&found, "erased")[0];
    assert_eq!(shown(erased, None)["personal"], "sealed");
    assert_eq!(shown(erased, Some(&keys))["why"], "she asked for it by letter");
    let decision = &of_kind(&found, "decision")[0];
    assert_eq!(shown(decision, Some(&keys))["personal"], "erased");
    assert_eq!(shown(decision, Some(&keys))["subject"], shown(erased, None)["subject"]);
}

#[test]
fn a_hold_stops_the_erasure_of_what_it_covers_until_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    journal.append(decided("4242", 1, "card", NOW_NS)).unwrap();
    journal.append(decided("4711", 2, "loan", NOW_NS)).unwrap();
    hold(&journal, held("case 7", Some("card"), Some(NOW_NS))).unwrap();
    hold(&journal, held("later", None, Some(NOW_NS + 1))).unwrap();
    assert!(matches!(hold(&journal, held("case 7", None, None)), Err(LegalError::InForce(_))));
    let names = |journal: &Journal| -> Vec<String> {
        journal.holds().unwrap().into_iter().map(|hold| hold.name).collect()
    };
    assert_eq!(names(&journal), ["case 7", "later"]);
    match erase(&journal, "4242") {
        Err(LegalError::Held(hold)) => {
            assert_eq!((hold.name.as_str(), hold.by.as_str()), ("case 7", "legal"))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(erase(&journal, "4711").unwrap().records, 1);
    assert!(matches!(journal.release(held("case", None, None), NOW_NS), Err(LegalError::NoHold { .. })));
    journal.release(held("case 7", None, None), NOW_NS).unwrap();
    assert_eq!((names(&journal), erase(&journal, "4242").unwrap().records), (vec!["later".to_owned()], 1));
}

#[test]
fn a_hold_on_a_decision_that_is_neither_served_nor_recorded_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    journal.append(decided("4242", 1, "loan", NOW_NS)).unwrap();
    let misspelt = hold(&journal, held("case 7", Some("laon"), None)).unwrap_err().to_string();
    assert_eq!(misspelt, "unknown decision 'laon': not served or recorded here; known: none");
    assert_eq!(journal.holds().unwrap(), []);
    hold(&journal, held("case 7", Some("loan"), None)).unwrap();
    journal.hold(held("case 8", Some("new"), None), NOW_NS, |name| name == "new").unwrap();
}

#[test]
fn a_segment_that_left_for_parquet_still_counts_by_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    journal.append(decided("4242", 1, "card", NOW_NS)).unwrap();
    hold(&journal, held("case 7", None, None)).unwrap();
    journal.seal().unwrap();
    let token = journal.keys().token(b"4242", DecisionId(0));
    let mut lines = String::new();
    lines += &format!(
        "{{\"kind\":\"decision\",\"seq\":1,\"segment\":1,\"at\":{NOW_NS},\"decision\":\"card\",\"subject\":\"{token}\",\"personal\":true}}\n"
    );
    lines += "{\"kind\":\"hold\",\"seq\":2,\"segment\":1,\"at\":1,\"name\":\"case 7\",\"by\":\"legal\",\"why\":\"a case\"}\n";
    let facts = Log::open(folder.path()).unwrap().segments().unwrap();
    let (root, last) = (facts[0].root, facts[0].last);
    fs::create_dir_all(folder.path().join("state/index")).unwrap();
    fs::write(
        folder.path().join("state/retired.json"),
        format!("{{\"segment\":1,\"first_seq\":1,\"frames\":2,\"root\":\"{root}\",\"last\":\"{last}\"}}\n"),
    )
    .unwrap();
    fs::write(folder.path().join("state/index/0000000000000001.jsonl"), lines).unwrap();
    fs::remove_file(&paths(folder.path())[0]).unwrap();
    assert!(matches!(erase(&journal, "4242"), Err(LegalError::Held(_))));
    journal.release(held("case 7", None, None), NOW_NS).unwrap();
    assert_eq!(erase(&journal, "4242").unwrap().records, 1);
    fs::remove_file(folder.path().join("state/index/0000000000000001.jsonl")).unwrap();
    assert!(matches!(erase(&journal, "4242"), Err(LegalError::Log(_))));
    journal.close();
    assert!(verified(folder.path())[0].contains("Index"), "what a segment held cannot be checked");
}

/// A journal with two subjects, one of them erased, and a long input.
fn mixed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let mut long = decided("4242", 1, "card", NOW_NS);
    Encoder::new(&mut long.input).map(1).unwrap().str("text").unwrap().str(&"x".repeat(20_000)).unwrap();
    journal.append(long).unwrap();
    journal.append(decided("4711", 2, "card", NOW_NS)).unwrap();
    journal.close();
    folder
}

#[test]
fn verify_names_blobs_that_are_missing_or_changed() {
    let folder = mixed();
    assert_eq!(verified(folder.path()), Vec::<String>::new());
    let blob = fs::read_dir(folder.path().join("blobs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&blob, b"other").unwrap();
    assert!(verified(folder.path())[0].contains("BlobChanged"));
    fs::remove_file(&blob).unwrap();
    assert!(verified(folder.path())[0].contains("BlobMissing"));
}

#[test]
fn verify_names_the_key_of_an_erased_subject_that_was_restored() {
    let folder = mixed();
    let subjects = folder.path().join("subjects");
    let before = fs::read(&subjects).unwrap();
    let journal = opened(folder.path());
    erase(&journal, "4242").unwrap();
    journal.close();
    assert_eq!(verified(folder.path()), Vec::<String>::new());
    let after = fs::read(&subjects).unwrap();
    // In its old position, as a restored copy would have it, or after the others.
    let file = File::options().write(true).open(&subjects).unwrap();
    file.write_all_at(&before, 0).unwrap();
    assert!(verified(folder.path())[0].contains("KeyRestored"));
    let mut appended = after.clone();
    let restored = before.as_chunks::<128>().0.iter().find(|entry| !after.as_chunks().0.contains(*entry));
    appended.extend_from_slice(restored.unwrap());
    fs::write(&subjects, appended).unwrap();
    let found = verified(folder.path());
    assert_eq!((found.len(), found[0].contains("KeyRestored")), (1, true), "{found:?}");
    // A returning subject has a new key, none of these.
    fs::write(&subjects, &after).unwrap();
    let journal = opened(folder.path());
    journal.append(decided("4242", 3, "card", NOW_NS)).unwrap();
    journal.close();
    assert_eq!(verified(folder.path()), Vec::<String>::new());
}

#[test]
fn verify_names_keys_that_are_missing_or_were_deleted_without_a_record() {
    let folder = mixed();
    let subjects = folder.path().join("subjects");
    let whole = fs::read(&subjects).unwrap();
    fs::write(&subjects, &whole[..256]).unwrap();
    assert!(verified(folder.path())[0].contains("KeyMissing"));
    fs::remove_file(&subjects).unwrap();
    assert!(verified(folder.path())[0].contains("KeysMissing(2)"));
    fs::write(&subjects, &whole).unwrap();
    let keys = Keys::open(folder.path(), &KekSource::own(folder.path())).unwrap();
    assert_eq!(keys.erase(b"4711").unwrap(), 1);
    assert!(verified(folder.path())[0].contains("ErasedUnrecorded"));
    // The writer stopped between the two steps: erasing again records it.
    let journal = opened(folder.path());
    assert_eq!(erase(&journal, "4711").unwrap().records, 1);
    journal.close();
    assert_eq!(verified(folder.path()), Vec::<String>::new());
    let mut states = Vec::new();
    crate::keys::walk_subjects(folder.path(), |stored, _, _| states.push(stored)).unwrap();
    assert_eq!(states, [Stored::Check, Stored::Live, Stored::Erased, Stored::Live]);
    let keys = Keys::read_only(folder.path(), &KekSource::own(folder.path())).unwrap();
    let decision = of_kind(&records(folder.path()), "decision")[0].clone();
    let bytes = |key: &str| decision.value(key).unwrap().bytes().unwrap().to_vec();
    let token = crate::Hash(bytes("subject").try_into().unwrap());
    let opened = keys.open_personal(&token, DecisionId(decision.id), &bytes("personal")).unwrap();
    assert!(matches!(opened, Unsealed::Plain(_)), "others are still there");
}
