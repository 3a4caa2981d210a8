//! Windows in a real Redis: the same values as embedded ones, over several replicas.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

mod lane;
mod redis_server;

use flyball_core::{WallClock, WindowOp};
use flyball_features::{
    CacheDef, Event, FeatureSettings, Features, LookupError, SourceDef, SourceKind, Window, WindowDef,
    WindowValue, Windowed,
};
use lane::on_lane;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis_server::RedisServer;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BASE_MS: i64 = 1_700_000_000_000;
const LAST_MS: i64 = 3_600_000;

struct Replica {
    features: Arc<Features>,
    wall: WallClock,
}

impl Replica {
    fn new() -> Replica {
        let wall = WallClock::manual(BASE_MS);
        let settings = FeatureSettings { wall: wall.clone(), ..FeatureSettings::default() };
        Replica { features: Features::new(settings), wall }
    }

    fn window(&self, server: Option<&RedisServer>, name: &str, op: WindowOp) -> Window {
        let source = server.map(|server| {
            let kind = SourceKind::Redis { url: server.url.clone(), timeout: Duration::from_secs(20) };
            let cache = CacheDef { ttl: Duration::ZERO, absent_ttl: Duration::ZERO, entries_max: 1 };
            self.features.open(SourceDef { kind, set: "cards".to_owned(), cache }).unwrap()
        });
        let def = WindowDef { name: name.to_owned(), op, last_ms: LAST_MS as u64, source };
        self.features.window(def).unwrap()
    }
}

type Case = (i64, u8, i16, bool, (bool, bool));

fn case() -> impl Strategy<Value = Case> {
    let step = prop_oneof![
        4 => 0..LAST_MS / 60,
        4 => 0..LAST_MS / 2,
        1 => LAST_MS..3 * LAST_MS,
        2 => -LAST_MS / 2..0,
        1 => -2 * LAST_MS..0,
        1 => 60_001..100_000i64,
    ];
    (step, 0..2u8, -40..40i16, prop::bool::weighted(0.1), (any::<bool>(), prop::bool::weighted(0.8)))
}

#[test]
fn redis_and_the_embedded_window_agree_to_the_bit_on_any_events() {
    let Some(server) = RedisServer::start() else { return };
    let ops = prop_oneof![
        Just(WindowOp::Count),
        Just(WindowOp::Sum),
        Just(WindowOp::Mean),
        Just(WindowOp::Distinct)
    ];
    let cases = prop::collection::vec(case(), 1..80);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let mut number = 0;
    let number = std::cell::RefCell::new(&mut number);
    let outcome = runner.run(&(ops, cases), |(op, cases)| {
        **number.borrow_mut() += 1;
        let name = format!("agree {}", number.borrow());
        on_lane(agree(&server, &name, op, &cases))
    });
    outcome.unwrap();
}

async fn agree(server: &RedisServer, name: &str, op: WindowOp, cases: &[Case]) -> Result<(), TestCaseError> {
    let replica = Replica::new();
    let (embedded, shared) = (replica.window(None, name, op), replica.window(Some(server), name, op));
    let lane = replica.features.lane();
    let mut newest = BASE_MS;
    for (step_ms, key, number, missing, (current, write)) in cases {
        let at_ms = newest + step_ms;
        newest = newest.max(at_ms);
        // Sometimes slower than the events: leaps, and events from the future.
        replica.wall.advance_ms(step_ms.max(&0) * 4 / 5);
        let value = if *missing { WindowValue::None } else { WindowValue::Number(f64::from(*number) * 0.1) };
        let key = ["card", "card: with \"odd\" letters ü"][usize::from(*key)];
        let event = Event { key, at_ms, value, current: *current, write: *write };
        let here = lane.window(&embedded, event, None).await;
        let there = lane.window(&shared, event, None).await;
        prop_assert_eq!(here, there, "{:?} at {}", event, at_ms - BASE_MS);
    }
    let counts = replica.features.windows();
    prop_assert_eq!(
        (counts[0].events, counts[0].late, counts[0].future),
        (counts[1].events, counts[1].late, counts[1].future)
    );
    Ok(())
}

#[test]
fn distinct_values_in_redis_are_bounded_in_the_same_way() {
    let Some(server) = RedisServer::start() else { return };
    let replica = Replica::new();
    let (embedded, shared) = (
        replica.window(None, "many", WindowOp::Distinct),
        replica.window(Some(&server), "many", WindowOp::Distinct),
    );
    on_lane(async {
        let lane = replica.features.lane();
        let mut last = Windowed::Warming;
        for number in 0..1100 {
            let value = format!("device {number}");
            let at_ms = if number < 10 { BASE_MS - LAST_MS } else { BASE_MS };
            let event =
                Event { key: "a", at_ms, value: WindowValue::Text(&value), current: true, write: true };
            last = lane.window(&shared, event, None).await;
            assert_eq!(last, lane.window(&embedded, event, None).await, "{number}");
        }
        assert_eq!(last, Windowed::Value { value: 1025.0, saturated: true });
    });
}

#[test]
fn replicas_count_together() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (Replica::new(), Replica::new());
    let windows = [&one, &other].map(|replica| replica.window(Some(&server), "together", WindowOp::Count));
    on_lane(async {
        let lanes = [one.features.lane(), other.features.lane()];
        let mut last = Windowed::Warming;
        for step in 0..6usize {
            let at_ms = BASE_MS - LAST_MS + step as i64 * LAST_MS / 5;
            let event = Event { key: "a", at_ms, value: WindowValue::None, current: true, write: true };
            last = lanes[step % 2].window(&windows[step % 2], event, None).await;
        }
        assert_eq!(last, Windowed::Value { value: 6.0, saturated: false });
        let mut connection = server.connection();
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        assert_eq!(keys.len(), 2, "{keys:?}");
        for key in keys {
            let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
            assert!(left > LAST_MS, "{key} would go while it is needed");
        }
    });
}

#[test]
fn a_window_in_a_redis_that_is_gone_fails_and_begins_anew_when_it_is_back() {
    let Some(mut server) = RedisServer::start() else { return };
    let replica = Replica::new();
    let window = replica.window(Some(&server), "gone", WindowOp::Count);
    server.kill();
    let event = Event { key: "a", at_ms: BASE_MS, value: WindowValue::None, current: true, write: true };
    on_lane(async {
        let lane = replica.features.lane();
        assert!(lane.window_embedded(&window, event).is_none());
        assert_eq!(lane.window(&window, event, None).await, Windowed::Failed { why: LookupError::Down });
        server.run().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while lane.window(&window, event, None).await != Windowed::Warming {
            assert!(Instant::now() < end, "redis is back, and the window is not");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let counts = &replica.features.windows()[0];
    assert_eq!(counts.events, 1, "{counts:?}");
    assert!(counts.failed >= 1, "{counts:?}");
}
