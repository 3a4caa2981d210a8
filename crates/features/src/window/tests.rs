//! Windows compared with a list of all events.

use super::*;
use crate::{FeatureSettings, Features, LaneFeatures};
use flyball_core::WallClock;
use proptest::prelude::*;
use std::collections::BTreeSet;

const BASE_MS: i64 = 1_700_000_000_000;
const LAST_MS: i64 = 3_600_000;
const WIDTH_MS: i64 = LAST_MS / 60;

fn features() -> Arc<Features> {
    let wall = WallClock::manual(BASE_MS + 1000 * LAST_MS);
    Features::new(FeatureSettings { wall, window_keys_max: 1000, ..FeatureSettings::default() })
}

fn window(features: &Features, op: WindowOp) -> Window {
    let name = "card-fraud/test".to_owned();
    features.window(WindowDef { name, op, last_ms: LAST_MS as u64, source: None }).unwrap()
}

/// Runs the window for its full length before `BASE_MS`.
fn warm(lane: &LaneFeatures, window: &Window) {
    for at_ms in [BASE_MS - 2 * LAST_MS, BASE_MS - LAST_MS - 1, BASE_MS - 1] {
        let value = WindowValue::Number(1.0);
        lane.window_embedded(window, Event { key: "warm", at_ms, value, current: true, write: true });
    }
}

fn event(at_ms: i64, value: WindowValue<'_>) -> Event<'_> {
    Event { key: "a", at_ms, value, current: true, write: true }
}

fn exact(value: f64) -> Option<Windowed> {
    Some(Windowed::Value { value, saturated: false })
}

#[derive(Clone, Copy, Debug)]
struct Case {
    step_ms: i64,
    key: u8,
    number: f64,
    missing: bool,
    current: bool,
    write: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let step = prop_oneof![6 => 0..WIDTH_MS, 3 => 0..LAST_MS / 2, 2 => -LAST_MS / 2..0, 1 => -2 * LAST_MS..0];
    (step, 0..3u8, any::<i16>(), prop::bool::weighted(0.1), any::<bool>(), prop::bool::weighted(0.8))
        .prop_map(|(step_ms, key, number, missing, current, write)| Case {
            step_ms,
            key,
            // With a fraction, so that the order of additions shows.
            number: f64::from(number) * 0.1,
            missing,
            current,
            write,
        })
}

/// Every added event: key, time, number.
#[derive(Default)]
struct Naive(Vec<(u8, i64, f64)>);

impl Naive {
    fn expect(&self, op: WindowOp, case: &Case, at_ms: i64) -> Windowed {
        let bucket = |at_ms: i64| at_ms.div_euclid(WIDTH_MS);
        let of_key = || self.0.iter().filter(|event| event.0 == case.key);
        if of_key().map(|event| bucket(event.1)).max().is_some_and(|newest| bucket(at_ms) < newest - 60) {
            return Windowed::Late;
        }
        let this = (case.key, at_ms, case.number);
        let counts = case.current && (op == WindowOp::Count || !case.missing);
        let mut covered: Vec<_> = of_key()
            .chain(counts.then_some(&this))
            .filter(|event| (bucket(at_ms) - 60..=bucket(at_ms)).contains(&bucket(event.1)))
            .collect();
        covered.sort_by_key(|event| bucket(event.1));
        let sum = covered
            .chunk_by(|one, other| bucket(one.1) == bucket(other.1))
            .map(|bucket| bucket.iter().fold(0.0, |sum, event| sum + event.2))
            .fold(0.0, |sum, bucket| sum + bucket);
        let count = covered.len() as f64;
        let value = match op {
            WindowOp::Count => count,
            WindowOp::Sum => sum,
            WindowOp::Mean if covered.is_empty() => return Windowed::Empty,
            WindowOp::Mean => sum / count,
            WindowOp::Distinct => {
                covered.iter().map(|event| event.2.to_bits()).collect::<BTreeSet<_>>().len() as f64
            }
        };
        Windowed::Value { value, saturated: false }
    }
}

proptest! {
    #[test]
    fn a_window_is_what_a_list_of_all_events_says(
        op in prop_oneof![Just(WindowOp::Count), Just(WindowOp::Sum), Just(WindowOp::Mean), Just(WindowOp::Distinct)],
        cases in prop::collection::vec(case(), 1..120),
    ) {
        let features = features();
        let (lane, window) = (features.lane(), window(&features, op));
        warm(&lane, &window);
        let mut naive = Naive::default();
        let mut newest = BASE_MS;
        for case in cases {
            let at_ms = newest + case.step_ms;
            newest = newest.max(at_ms);
            // The clock moves with the events: no leaps.
            features.settings.wall.advance_ms(case.step_ms.max(0));
            let key = ["a", "b", "c"][usize::from(case.key)];
            let value = if case.missing { WindowValue::None } else { WindowValue::Number(case.number) };
            let event = Event { key, at_ms, value, current: case.current, write: case.write };
            let is = lane.window_embedded(&window, event).unwrap();
            let mut expected = naive.expect(op, &case, at_ms);
            if at_ms - (BASE_MS - 2 * LAST_MS) < LAST_MS && expected != Windowed::Late {
                expected = Windowed::Warming;
            }
            prop_assert_eq!(is, expected);
            if case.write && is != Windowed::Late && (op == WindowOp::Count || !case.missing) {
                naive.0.push((case.key, at_ms, case.number));
            }
        }
    }
}

#[test]
fn an_event_that_comes_a_window_late_does_not_make_the_next_one_a_leap() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    warm(&lane, &window);
    let on_time = BASE_MS + LAST_MS + 4 * WIDTH_MS;
    features.settings.wall.advance_ms(on_time - BASE_MS);
    lane.window_embedded(&window, event(on_time - LAST_MS - 2 * WIDTH_MS, WindowValue::None));
    assert_eq!(lane.window_embedded(&window, event(on_time, WindowValue::None)), exact(1.0));
}

#[test]
fn a_value_covers_the_window_and_up_to_one_bucket_more() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    warm(&lane, &window);
    let read = |at_ms| {
        let event = Event { current: false, write: false, ..event(at_ms, WindowValue::None) };
        lane.window_embedded(&window, event)
    };
    // The last millisecond of a bucket.
    let at_ms = BASE_MS.div_euclid(WIDTH_MS) * WIDTH_MS + WIDTH_MS - 1;
    lane.window_embedded(&window, event(at_ms, WindowValue::None));
    assert_eq!(read(at_ms), exact(1.0));
    assert_eq!(read(at_ms + LAST_MS), exact(1.0));
    assert_eq!(read(at_ms + LAST_MS + 1), exact(0.0));
    lane.window_embedded(&window, event(at_ms + 1, WindowValue::None));
    assert_eq!(read(at_ms + LAST_MS + WIDTH_MS), exact(1.0));
    assert_eq!(read(at_ms + LAST_MS + WIDTH_MS + 1), exact(0.0));
}

#[test]
fn an_event_from_the_future_is_not_added_and_read_as_of_a_minute_ahead() {
    let wall = WallClock::manual(BASE_MS);
    let features = Features::new(FeatureSettings { wall, ..FeatureSettings::default() });
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    warm(&lane, &window);
    let ahead = Event { current: false, ..event(i64::MAX, WindowValue::None) };
    assert_eq!(lane.window_embedded(&window, ahead), exact(0.0));
    assert_eq!(lane.window_embedded(&window, event(BASE_MS + 60_000, WindowValue::None)), exact(1.0));
    assert_eq!(lane.window_embedded(&window, ahead), exact(1.0));
    let counts = &features.windows()[0];
    assert_eq!((counts.future, counts.events), (2, 4));
}

#[test]
fn times_at_the_ends_of_what_a_number_holds_are_no_trouble() {
    let features = features();
    for op in [WindowOp::Count, WindowOp::Sum, WindowOp::Mean, WindowOp::Distinct] {
        let (lane, window) = (features.lane(), window(&features, op));
        for at_ms in [i64::MIN, i64::MAX, i64::MIN, 0, -1] {
            let windowed = lane.window_embedded(&window, event(at_ms, WindowValue::Number(1.0)));
            assert!(!matches!(windowed, Some(Windowed::Failed { .. }) | None));
        }
    }
}

#[test]
fn what_does_not_fit_a_sum_fails_and_is_not_added() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Sum));
    warm(&lane, &window);
    for value in [
        WindowValue::Number(f64::NAN),
        WindowValue::Number(-1e300),
        WindowValue::Text("many"),
        WindowValue::Number(f64::INFINITY),
    ] {
        let failed = lane.window_embedded(&window, event(BASE_MS, value));
        assert_eq!(failed, Some(Windowed::Failed { why: LookupError::Bad }));
    }
    assert_eq!(lane.window_embedded(&window, event(BASE_MS, WindowValue::Number(2.5))), exact(2.5));
}

#[test]
fn distinct_values_are_exact_up_to_their_bound_and_then_said_to_be_more() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Distinct));
    warm(&lane, &window);
    let add = |at_ms, number: usize| {
        lane.window_embedded(&window, event(at_ms, WindowValue::Text(&format!("device {number}"))))
    };
    for number in 0..tally::VALUES_MAX {
        assert_eq!(add(BASE_MS, number), exact((number + 1) as f64));
    }
    let bound = tally::VALUES_MAX as f64;
    assert_eq!(add(BASE_MS, 7), exact(bound));
    add(BASE_MS, tally::VALUES_MAX);
    let more = Some(Windowed::Value { value: bound + 1.0, saturated: true });
    assert_eq!(add(BASE_MS, tally::VALUES_MAX + 1), more);
    // Once those are out of the stored range it is exact again.
    features.settings.wall.advance_ms(3 * LAST_MS);
    let later = BASE_MS + 2 * LAST_MS + 2 * WIDTH_MS;
    assert_eq!(add(later, 7), exact(1.0));
    assert_eq!(features.windows()[0].saturated, 1);
}

#[test]
fn a_number_and_its_text_are_two_values_and_both_zeros_are_one() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Distinct));
    warm(&lane, &window);
    let mut last = None;
    for value in [WindowValue::Number(0.0), WindowValue::Number(-0.0), WindowValue::Text("0")] {
        last = lane.window_embedded(&window, event(BASE_MS, value));
    }
    assert_eq!(last, exact(2.0));
}

#[test]
fn a_new_window_is_warming_for_its_whole_length_of_event_time() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    let at = |at_ms| lane.window_embedded(&window, event(at_ms, WindowValue::None));
    assert_eq!(at(BASE_MS), Some(Windowed::Warming));
    assert_eq!(at(BASE_MS + LAST_MS / 2), Some(Windowed::Warming));
    assert_eq!(at(BASE_MS + LAST_MS - 1), Some(Windowed::Warming));
    assert_eq!(at(BASE_MS + LAST_MS), exact(4.0));
    assert_eq!(at(BASE_MS - 1), Some(Windowed::Warming));
}

#[test]
fn a_leap_in_event_time_that_no_clock_saw_begins_warming_anew_and_a_quiet_time_does_not() {
    let wall = WallClock::manual(BASE_MS + LAST_MS);
    let features = Features::new(FeatureSettings { wall: wall.clone(), ..FeatureSettings::default() });
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    let at = |at_ms| lane.window_embedded(&window, event(at_ms, WindowValue::None));
    at(BASE_MS - 40 * LAST_MS);
    assert_eq!(at(BASE_MS), Some(Windowed::Warming), "the first event was of another age");
    assert_eq!(at(BASE_MS + LAST_MS), exact(2.0));
    wall.advance_ms(10 * LAST_MS);
    assert_eq!(at(BASE_MS + 10 * LAST_MS), exact(1.0), "nothing happened for nine hours, and that is known");
}

#[test]
fn what_is_not_written_changes_nothing() {
    let features = features();
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    let dry = Event { write: false, ..event(BASE_MS, WindowValue::None) };
    assert_eq!(lane.window_embedded(&window, dry), Some(Windowed::Warming));
    assert_eq!(window.0.embedded().unwrap().warmth.marks(), None);
    warm(&lane, &window);
    let before = features.windows();
    for _ in 0..3 {
        assert_eq!(lane.window_embedded(&window, dry), exact(1.0));
    }
    assert_eq!(features.windows(), before);
}

#[test]
fn keys_are_bounded_and_those_that_made_room_are_counted() {
    let features = Features::new(FeatureSettings { window_keys_max: 64, ..FeatureSettings::default() });
    let (lane, window) = (features.lane(), window(&features, WindowOp::Count));
    for number in 0..1000 {
        let key = format!("card {number}");
        let event = Event { key: &key, ..event(BASE_MS, WindowValue::None) };
        lane.window_embedded(&window, event);
    }
    let counts = &features.windows()[0];
    assert!(counts.keys <= 64, "{counts:?}");
    assert_eq!(counts.keys + counts.evictions, 1000);
}

#[test]
fn windows_of_the_same_definition_are_one_and_others_are_not() {
    let features = features();
    let (one, same) = (window(&features, WindowOp::Count), window(&features, WindowOp::Count));
    assert!(Arc::ptr_eq(&one.0, &same.0));
    assert!(!Arc::ptr_eq(&one.0, &window(&features, WindowOp::Sum).0));
    let short = WindowDef { last_ms: 999, ..one.0.def.clone() };
    assert!(features.window(short).is_err_and(|text| text.contains("999 ms")));
}

#[test]
fn lanes_that_count_one_key_at_once_lose_nothing() {
    let features = features();
    let window = window(&features, WindowOp::Sum);
    warm(&features.lane(), &window);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let lane = features.lane();
                for _ in 0..1000 {
                    lane.window_embedded(&window, event(BASE_MS, WindowValue::Number(0.25)));
                }
            });
        }
    });
    let read = Event { write: false, current: false, ..event(BASE_MS, WindowValue::None) };
    assert_eq!(features.lane().window_embedded(&window, read), exact(1000.0));
}

proptest! {
    #[test]
    fn a_tally_is_read_as_it_was_written(
        events in prop::collection::vec((0..100i64, any::<u8>(), any::<bool>()), 0..60),
    ) {
        let span = Span::new(LAST_MS as u64).unwrap();
        let mut tally = tally::Tally::default();
        for (bucket, number, distinct) in events {
            let gain = if distinct { Gain::Value(u128::from(number)) } else { Gain::Number(f64::from(number)) };
            tally.add(&span, bucket, gain);
        }
        let mut bytes = Vec::new();
        codec::write(&tally, &mut bytes);
        prop_assert_eq!(codec::read(&bytes), Some(tally));
        for cut in 0..bytes.len() {
            prop_assert_eq!(codec::read(&bytes[..cut]), None);
        }
    }

    #[test]
    fn odd_bytes_are_no_tally_that_could_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        if let Some(tally) = codec::read(&bytes) {
            let span = Span::new(LAST_MS as u64).unwrap();
            let _ = tally.total(&span, tally.newest.unwrap_or(0), Some(Gain::Number(1.0)));
        }
    }
}
