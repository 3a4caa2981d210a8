//! Embedded windows across restarts and crashes.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

use flyball_core::{WallClock, WindowOp};
use flyball_features::{Event, FeatureSettings, Features, Window, WindowDef, WindowValue, Windowed};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BASE_MS: i64 = 1_700_000_000_000;
const LAST_MS: i64 = 600_000;

fn open(folder: &Path) -> (Arc<Features>, Window, Window) {
    let wall = WallClock::manual(BASE_MS + 2 * LAST_MS);
    let settings = FeatureSettings { folder: Some(folder.to_owned()), wall, ..FeatureSettings::default() };
    let features = Features::new(settings);
    let window = |op, name: &str| {
        let def = WindowDef { name: name.to_owned(), op, last_ms: LAST_MS as u64, source: None };
        features.window(def).unwrap()
    };
    let (sum, distinct) = (window(WindowOp::Sum, "spent"), window(WindowOp::Distinct, "devices"));
    (features, sum, distinct)
}

fn add(features: &Arc<Features>, window: &Window, at_ms: i64, value: WindowValue<'_>) {
    let event = Event { key: "a", at_ms, value, current: true, write: true };
    features.lane().window_embedded(window, event).unwrap();
}

fn read(features: &Arc<Features>, window: &Window, key: &str) -> Windowed {
    let at_ms = BASE_MS + LAST_MS;
    let event = Event { key, at_ms, value: WindowValue::None, current: false, write: false };
    features.lane().window_embedded(window, event).unwrap()
}

fn fill(features: &Arc<Features>, sum: &Window, distinct: &Window) {
    for at_ms in [BASE_MS, BASE_MS + LAST_MS] {
        add(features, sum, at_ms, WindowValue::Number(0.1));
        add(features, distinct, at_ms, WindowValue::Text("phone"));
    }
    add(features, distinct, BASE_MS + LAST_MS, WindowValue::Text("laptop"));
}

fn exact(value: f64) -> Windowed {
    Windowed::Value { value, saturated: false }
}

#[test]
fn what_windows_know_and_that_they_are_warm_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (features, sum, distinct) = open(folder.path());
    fill(&features, &sum, &distinct);
    assert_eq!(read(&features, &sum, "a"), exact(0.2));
    // Even while the windows are in use.
    features.close();
    let (features, sum, distinct) = open(folder.path());
    assert_eq!(read(&features, &sum, "a"), exact(0.2));
    assert_eq!(read(&features, &distinct, "a"), exact(2.0));
    assert_eq!(read(&features, &sum, "b"), exact(0.0));
    add(&features, &sum, BASE_MS + LAST_MS, WindowValue::Number(0.1));
    assert_eq!(read(&features, &sum, "a"), exact(0.1 + (0.1 + 0.1)));
}

#[test]
fn a_crash_loses_no_more_than_what_was_not_yet_written() {
    let folder = tempfile::tempdir().unwrap();
    let (features, sum, distinct) = open(folder.path());
    fill(&features, &sum, &distinct);
    // The file as a crash would leave it at any moment: correct or absent.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let crashed = tempfile::tempdir().unwrap();
        for file in ["windows.redb", "tokens.key"] {
            std::fs::copy(folder.path().join(file), crashed.path().join(file)).unwrap();
        }
        let (after, kept, _) = open(crashed.path());
        match read(&after, &kept, "a") {
            Windowed::Warming => assert!(Instant::now() < until, "nothing was written behind"),
            value => {
                assert_eq!(value, exact(0.2));
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_window_that_nobody_has_any_more_is_written_and_read_again_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (features, sum, distinct) = open(folder.path());
    fill(&features, &sum, &distinct);
    drop((sum, distinct));
    let until = Instant::now() + Duration::from_secs(20);
    while !features.windows().is_empty() {
        assert!(Instant::now() < until, "windows are kept though nobody has them");
        std::thread::sleep(Duration::from_millis(20));
    }
    let def = WindowDef { name: "spent".into(), op: WindowOp::Sum, last_ms: LAST_MS as u64, source: None };
    let sum = features.window(def).unwrap();
    assert_eq!(read(&features, &sum, "a"), exact(0.2));
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (_features, _sum, _distinct) = open(folder.path());
    let second = Features::new(FeatureSettings {
        folder: Some(folder.path().to_owned()),
        ..FeatureSettings::default()
    });
    let def = WindowDef { name: "spent".into(), op: WindowOp::Sum, last_ms: 60_000, source: None };
    let told = second.window(def).err().unwrap();
    assert!(told.contains("its own directory"), "{told}");
}

#[test]
fn windows_without_an_event_for_long_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let (features, sum, distinct) = open(folder.path());
    fill(&features, &sum, &distinct);
    drop((features, sum, distinct));
    let wall = WallClock::manual(BASE_MS + 30 * 24 * 3_600_000);
    let features = Features::new(FeatureSettings {
        folder: Some(folder.path().to_owned()),
        wall,
        ..FeatureSettings::default()
    });
    let def = WindowDef { name: "spent".into(), op: WindowOp::Sum, last_ms: LAST_MS as u64, source: None };
    let sum = features.window(def).unwrap();
    assert_eq!(read(&features, &sum, "a"), Windowed::Warming);
}

#[test]
fn windows_hold_no_key_in_the_open_and_an_erasure_removes_a_key_from_memory_and_disk() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("features");
    let (features, sum, distinct) = open(&folder);
    for key in ["card-4242", "card-4711"] {
        for at_ms in [BASE_MS, BASE_MS + LAST_MS] {
            let event = Event { key, at_ms, value: WindowValue::Number(1.0), current: true, write: true };
            features.lane().window_embedded(&sum, event).unwrap();
            let event = Event { value: WindowValue::Text("phone"), ..event };
            features.lane().window_embedded(&distinct, event).unwrap();
        }
    }
    features.close();
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("."), mode("windows.redb"), mode("tokens.key")], [0o700, 0o600, 0o600]);
    let bytes = std::fs::read(folder.join("windows.redb")).unwrap();
    assert!(!bytes.windows(9).any(|part| part == b"card-4242"));
    // One window is open; the other, of a former decision, is not.
    let wall = WallClock::manual(BASE_MS + 2 * LAST_MS);
    let settings = FeatureSettings { folder: Some(folder.clone()), wall, ..FeatureSettings::default() };
    let features = Features::new(settings);
    let def =
        WindowDef { name: "spent".to_owned(), op: WindowOp::Sum, last_ms: LAST_MS as u64, source: None };
    let sum = features.window(def).unwrap();
    assert_eq!(read(&features, &sum, "card-4242"), exact(2.0));
    let keys = ["card-4242".to_owned()];
    assert_eq!(features.erase(&keys).unwrap().windows, 2);
    assert_eq!(read(&features, &sum, "card-4242"), exact(0.0));
    assert_eq!(features.erase(&keys).unwrap().windows, 0);
    features.close();
    drop((features, sum));
    let (features, sum, distinct) = open(&folder);
    assert_eq!(read(&features, &sum, "card-4242"), exact(0.0));
    assert_eq!(read(&features, &distinct, "card-4711"), exact(1.0));
}

#[test]
fn where_no_server_runs_an_erasure_removes_a_key_from_the_folder() {
    let parent = tempfile::tempdir().unwrap();
    let folder = Some(parent.path().join("features"));
    let settings = FeatureSettings { folder: folder.clone(), ..FeatureSettings::default() };
    // By the system's clock, which such an erasure uses: older windows would be dropped when the directory is
    // opened.
    let at_ms = settings.wall.now_ms();
    let features = Features::new(settings);
    let def =
        WindowDef { name: "spent".to_owned(), op: WindowOp::Sum, last_ms: LAST_MS as u64, source: None };
    let sum = features.window(def).unwrap();
    add(&features, &sum, at_ms, WindowValue::Number(1.0));
    features.close();
    drop((features, sum));
    let erase = |key: &str| flyball_features::erase_kept(folder.clone(), &[], &[key.to_owned()]).unwrap();
    assert_eq!((erase("b").windows, erase("a").windows, erase("a").windows), (0, 1, 0));
}
