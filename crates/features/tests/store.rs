//! The embedded store and its cache, as a lane sees them.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

mod lane;

use flyball_core::{Clock, Nanos, Scalar, WallClock};
use flyball_features::{
    CacheDef, FeatureSettings, Features, Lookup, LookupError, PushTarget, Pusher, SourceDef, SourceKind, get,
};
use lane::on_lane;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const WRITTEN_MS: i64 = 1_700_000_000_000;

fn push(path: &Path, set: &str, rows: &str) {
    let target = PushTarget::Store { path: path.to_owned() };
    let mut pusher = Pusher::begin(target, set, WRITTEN_MS).unwrap();
    pusher.put(rows.as_bytes()).unwrap();
    pusher.finish().unwrap();
}

/// A key's `limit`, its age in seconds, and whether it was cached; or the error, and the last known value.
type Limit = Result<Option<(i64, u64, bool)>, (LookupError, Option<i64>)>;

struct Bench {
    features: Arc<Features>,
    clock: Clock,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let clock = Clock::manual();
        // The records were written ten seconds ago.
        let wall = WallClock::manual(WRITTEN_MS + 10_000);
        let settings = FeatureSettings { clock: clock.clone(), wall, ..FeatureSettings::default() };
        Bench { features: Features::new(settings), clock, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("store.redb")
    }

    fn def(&self) -> SourceDef {
        SourceDef {
            kind: SourceKind::Store { path: self.path() },
            set: "cards".to_owned(),
            cache: CacheDef {
                ttl: Duration::from_secs(60),
                absent_ttl: Duration::from_secs(1),
                entries_max: 100,
            },
        }
    }

    fn limit(&self, key: &str) -> Limit {
        let source = self.features.open(self.def()).unwrap();
        let number = |record: &flyball_features::Record| match record.get("limit") {
            Some(Scalar::Int(limit)) => limit,
            other => panic!("{other:?}"),
        };
        on_lane(async {
            match self.features.lane().lookup(&source, key, None).await {
                Lookup::Found { record, age, from_cache } => {
                    Ok(Some((number(&record), age.as_secs(), from_cache)))
                }
                Lookup::Absent => Ok(None),
                Lookup::Failed { why, stale } => Err((why, stale.map(|(record, _)| number(&record)))),
            }
        })
    }
}

#[test]
fn a_record_is_used_for_its_time_to_live_and_then_fetched_again() {
    let bench = Bench::new();
    let _open = bench.features.open(bench.def()).unwrap();
    push(&bench.path(), "cards", r#"[["a", {"limit": 1}]]"#);
    assert_eq!(bench.limit("a"), Ok(Some((1, 10, false))));
    push(&bench.path(), "cards", r#"[["a", {"limit": 2}]]"#);
    bench.clock.advance(Duration::from_secs(59));
    assert_eq!(bench.limit("a"), Ok(Some((1, 69, true))));
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.limit("a"), Ok(Some((2, 10, false))));
    let counts = &bench.features.sources()[0];
    assert_eq!((counts.hits, counts.misses, counts.entries), (1, 2, 1));
}

#[test]
fn that_there_is_no_such_key_is_remembered_for_a_shorter_time() {
    let bench = Bench::new();
    let _open = bench.features.open(bench.def()).unwrap();
    push(&bench.path(), "cards", r#"[["a", {"limit": 1}]]"#);
    assert_eq!(bench.limit("b"), Ok(None));
    push(&bench.path(), "cards", r#"[["b", {"limit": 2}]]"#);
    assert_eq!(bench.limit("b"), Ok(None));
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.limit("b"), Ok(Some((2, 10, false))));
    assert_eq!(bench.limit("a"), Ok(None), "a push replaces the whole set");
}

#[test]
fn a_store_that_is_gone_fails_with_the_old_record_at_hand_and_comes_back_by_itself() {
    let bench = Bench::new();
    let _open = bench.features.open(bench.def()).unwrap();
    assert_eq!(bench.limit("a"), Err((LookupError::Down, None)));
    push(&bench.path(), "cards", r#"[["a", {"limit": 1}]]"#);
    assert_eq!(bench.limit("a"), Ok(Some((1, 10, false))));
    std::fs::remove_file(bench.path()).unwrap();
    bench.clock.advance(Duration::from_secs(61));
    assert_eq!(bench.limit("a"), Err((LookupError::Down, Some(1))));
    std::fs::write(bench.path(), "this is no store").unwrap();
    assert_eq!(bench.limit("a"), Err((LookupError::Bad, Some(1))));
    std::fs::remove_file(bench.path()).unwrap();
    push(&bench.path(), "cards", r#"[["a", {"limit": 3}]]"#);
    assert_eq!(bench.limit("a"), Ok(Some((3, 10, false))));
    let counts = &bench.features.sources()[0];
    assert_eq!((counts.down, counts.bad, counts.stale), (2, 1, 2));
}

#[test]
fn a_deadline_that_has_passed_is_a_timeout_even_where_the_answer_came() {
    let bench = Bench::new();
    let keys: Vec<_> = (0..100).map(|key| format!("k{key}")).collect();
    let rows: Vec<_> = keys.iter().map(|key| format!(r#"["{key}", {{"limit": 1}}]"#)).collect();
    push(&bench.path(), "cards", &format!("[{}]", rows.join(",")));
    let source = bench.features.open(bench.def()).unwrap();
    bench.clock.advance(Duration::from_secs(5));
    on_lane(async {
        let lane = bench.features.lane();
        let passed = lane.lookup(&source, &keys[0], Some(Nanos(1))).await;
        assert!(matches!(passed, Lookup::Failed { why: LookupError::Timeout, .. }), "{passed:?}");
        let deadline = bench.clock.now().after(Duration::from_secs(1));
        // The store's thread may answer before the first poll, but not for all of so many keys.
        let mut on_its_way = None;
        for key in &keys[1..] {
            let mut lookup = Box::pin(lane.lookup(&source, key, Some(deadline)));
            if futures_poll(&mut lookup).await.is_none() {
                on_its_way = Some((key, lookup));
                break;
            }
        }
        let (key, lookup) = on_its_way.expect("one of them is on its way");
        bench.clock.advance(Duration::from_secs(2));
        let late = lookup.await;
        assert!(matches!(late, Lookup::Failed { why: LookupError::Timeout, stale: Some(_) }), "{late:?}");
        // A result that came too late for one is cached for the next.
        assert!(matches!(lane.lookup_cached(&source, key), Some(Lookup::Found { .. })));
    });
}

/// Polls once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn sets_of_one_file_are_replaced_each_for_itself() {
    let bench = Bench::new();
    push(&bench.path(), "cards", r#"[["a", {"limit": 1}]]"#);
    push(&bench.path(), "shops", r#"[["a", {"limit": 2}]]"#);
    let target = PushTarget::Store { path: bench.path() };
    assert!(get(&target, "cards", "a").unwrap().is_some());
    assert!(get(&target, "shops", "a").unwrap().is_some());
    assert!(get(&target, "shops", "b").unwrap().is_none());
    let missing = get(&target, "banks", "a").unwrap_err().to_string();
    assert!(missing.contains("banks"), "{missing}");
}

#[test]
fn a_push_that_does_not_finish_leaves_the_store_as_it_was() {
    let bench = Bench::new();
    let target = PushTarget::Store { path: bench.path() };
    push(&bench.path(), "cards", r#"[["a", {"limit": 1}]]"#);
    let before = std::fs::read(bench.path()).unwrap();
    let mut pusher = Pusher::begin(target.clone(), "cards", WRITTEN_MS).unwrap();
    pusher.put(br#"[["a", {"limit": 2}]]"#).unwrap();
    let second = Pusher::begin(target, "cards", WRITTEN_MS).err().unwrap().to_string();
    assert!(second.contains("another push"), "{second}");
    let fault = pusher.put(br#"[["a", {"limit": [2]}]]"#).unwrap_err().to_string();
    assert!(fault.contains("limit"), "{fault}");
    drop(pusher);
    assert_eq!(std::fs::read(bench.path()).unwrap(), before);
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 3, "the store, its key and its lock");
}

#[test]
fn a_source_is_opened_once_and_one_that_makes_no_sense_is_refused() {
    let bench = Bench::new();
    let _one = bench.features.open(bench.def()).unwrap();
    let _same = bench.features.open(bench.def()).unwrap();
    assert_eq!(bench.features.sources().len(), 1);
    let nameless = SourceDef { set: "a b".to_owned(), ..bench.def() };
    assert!(bench.features.open(nameless).is_err_and(|text| text.contains("a b")));
    let of_windows = SourceDef { set: "window".to_owned(), ..bench.def() };
    assert!(bench.features.open(of_windows).is_err_and(|text| text.contains("another set")));
    let redis = |url: &str| SourceDef {
        kind: SourceKind::Redis { url: url.to_owned(), timeout: Duration::from_millis(5) },
        ..bench.def()
    };
    let told = bench.features.open(redis("rediss://host")).err().unwrap();
    assert!(told.contains("TLS"), "{told}");
    let told = bench.features.open(redis("http://me:secret@x")).err().unwrap();
    assert!(told.contains("redis://") && !told.contains("secret"), "{told}");
}

#[test]
fn the_cache_holds_no_more_than_it_may() {
    let bench = Bench::new();
    let _open = bench.features.open(bench.def()).unwrap();
    let rows: Vec<String> = (0..400).map(|key| format!(r#"["{key}", {{"limit": {key}}}]"#)).collect();
    push(&bench.path(), "cards", &format!("[{}]", rows.join(",")));
    for key in 0..400 {
        assert_eq!(bench.limit(&key.to_string()), Ok(Some((key, 10, false))));
    }
    let counts = &bench.features.sources()[0];
    assert!(counts.entries <= 100, "{counts:?}");
    assert_eq!(counts.entries + counts.evictions, 400);
}

fn holds(path: &Path, text: &str) -> bool {
    std::fs::read(path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_store_holds_no_key_in_the_open_and_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    push(&bench.path(), "cards", r#"[["card-4242", {"limit": 7}]]"#);
    assert!(!holds(&bench.path(), "card-4242"));
    for name in ["store.redb", "store.redb.key", "store.redb.lock"] {
        let facts = std::fs::metadata(bench.folder.path().join(name)).unwrap();
        assert_eq!(facts.permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(bench.limit("card-4242"), Ok(Some((7, 10, false))));
    std::fs::remove_file(bench.folder.path().join("store.redb.key")).unwrap();
    let target = PushTarget::Store { path: bench.path() };
    assert!(get(&target, "cards", "card-4242").unwrap_err().to_string().contains("store.redb.key"));
    assert!(Pusher::begin(target, "cards", WRITTEN_MS).is_err(), "other sets would be lost");
}

#[test]
fn an_erasure_removes_a_record_from_all_sets_and_from_the_cache() {
    let bench = Bench::new();
    push(
        &bench.path(),
        "cards",
        r#"[["4242", {"limit": 7, "name": "somebody-4242"}], ["4711", {"limit": 8}]]"#,
    );
    push(&bench.path(), "more", r#"[["4242", {"limit": 9}]]"#);
    // As a serving decision has it: an unused source is closed, and its cache dropped.
    let _source = bench.features.open(bench.def()).unwrap();
    assert_eq!(bench.limit("4242"), Ok(Some((7, 10, false))));
    let keys = ["4242".to_owned()];
    let erased = bench.features.erase(&keys).unwrap();
    assert_eq!((erased.windows, erased.cached, erased.stored), (0, 1, 2));
    assert!(!holds(&bench.path(), "somebody-4242"), "not in a free page either");
    assert_eq!(bench.limit("4242"), Ok(None));
    assert_eq!(bench.limit("4711"), Ok(Some((8, 10, false))));
    assert_eq!(bench.features.erase(&["4242".to_owned()]).unwrap().stored, 0);
    let stores = [bench.path()];
    assert_eq!(flyball_features::erase_kept(None, &stores, &["4711".to_owned()]).unwrap().stored, 1);
}
