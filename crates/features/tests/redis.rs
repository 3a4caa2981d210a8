//! Lookups in a real Redis: killed, slow, restarted, and with foreign data.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

mod lane;
mod redis_server;

use flyball_core::Scalar;
use flyball_features::{
    CacheDef, FeatureSettings, Features, LaneFeatures, Lookup, LookupError, PushTarget, Pusher, Source,
    SourceDef, SourceKind, get,
};
use lane::on_lane;
use redis_server::RedisServer;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NO_CACHE: CacheDef = CacheDef { ttl: Duration::ZERO, absent_ttl: Duration::ZERO, entries_max: 100 };
/// Long enough for any response on a busy machine; tests of the time itself set it.
const PATIENT: Duration = Duration::from_secs(20);

fn source(features: &Features, server: &RedisServer, timeout: Duration, cache: CacheDef) -> Source {
    let kind = SourceKind::Redis { url: server.url.clone(), timeout };
    features.open(SourceDef { kind, set: "cards".to_owned(), cache }).unwrap()
}

fn push(server: &RedisServer, rows: &str) {
    let target = PushTarget::Redis { url: server.url.clone(), expire_s: None };
    let mut pusher = Pusher::begin(target, "cards", 1_700_000_000_000).unwrap();
    pusher.put(rows.as_bytes()).unwrap();
    pusher.finish().unwrap();
}

/// The key's `limit`, or the label of the result.
fn told(lookup: &Lookup) -> Result<i64, &'static str> {
    match lookup {
        Lookup::Found { record, .. } => match record.get("limit") {
            Some(Scalar::Int(limit)) => Ok(limit),
            _ => Err("no limit"),
        },
        Lookup::Absent => Err("absent"),
        Lookup::Failed { why, .. } => Err(why.label()),
    }
}

async fn limit(lane: &LaneFeatures, source: &Source, key: &str) -> Result<i64, &'static str> {
    told(&lane.lookup(source, key, None).await)
}

/// Retries until the response is as wanted.
async fn until(lane: &LaneFeatures, source: &Source, wanted: Result<i64, &'static str>) {
    let end = Instant::now() + PATIENT;
    loop {
        let is = limit(lane, source, "a").await;
        if is == wanted {
            return;
        }
        assert!(Instant::now() < end, "still {is:?}, and not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn records_are_found_absent_or_bad_and_never_more_than_a_record_is_read() {
    let Some(server) = RedisServer::start() else { return };
    push(&server, r#"[["a", {"limit": 5}], ["b", {"limit": 6}]]"#);
    let mut connection = server.connection();
    let mut run = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).exec(&mut connection).unwrap();
    };
    run(&["SET", "flyball:cards:odd", "{}"]);
    run(&["SETRANGE", "flyball:cards:huge", "100000000", "x"]);
    run(&["LPUSH", "flyball:cards:list", "1"]);
    let features = Features::new(FeatureSettings::default());
    let source = source(&features, &server, PATIENT, NO_CACHE);
    on_lane(async {
        let lane = features.lane();
        for (key, wanted) in [
            ("a", Ok(5)),
            ("b", Ok(6)),
            ("c", Err("absent")),
            ("odd", Err("bad")),
            ("huge", Err("bad")),
            ("list", Err("bad")),
            (&*"x".repeat(2000), Err("bad")),
        ] {
            assert_eq!(limit(&lane, &source, key).await, wanted, "{key:.20}");
        }
    });
    let counts = &features.sources()[0];
    assert_eq!((counts.misses, counts.bad), (7, 4));
}

#[test]
fn a_redis_that_is_killed_is_down_at_once_and_found_again_when_it_is_back() {
    for server in [RedisServer::start(), RedisServer::start_tcp()].into_iter().flatten() {
        killed_and_back(server);
    }
}

fn killed_and_back(mut server: RedisServer) {
    push(&server, r#"[["a", {"limit": 5}]]"#);
    let features = Features::new(FeatureSettings::default());
    let cached = CacheDef { ttl: Duration::ZERO, absent_ttl: Duration::ZERO, entries_max: 100 };
    let source = source(&features, &server, PATIENT, cached);
    on_lane(async {
        let lane = features.lane();
        assert_eq!(limit(&lane, &source, "a").await, Ok(5));
        server.kill();
        until(&lane, &source, Err("down")).await;
        // An outage is reported without waiting: no timer, no socket, just the one poll.
        let lookup = lane.lookup(&source, "a", None).await;
        let Lookup::Failed { why: LookupError::Down, stale: Some((record, _)) } = lookup else {
            panic!("{lookup:?}")
        };
        assert_eq!(record.get("limit"), Some(Scalar::Int(5)), "the old record is cached");
        server.run().unwrap();
        until(&lane, &source, Err("absent")).await;
        push(&server, r#"[["a", {"limit": 7}]]"#);
        until(&lane, &source, Ok(7)).await;
    });
    let counts = &features.sources()[0];
    assert!(counts.down >= 2 && counts.stale >= 1, "{counts:?}");
    assert_eq!(counts.timeouts, 0);
}

#[test]
fn a_redis_that_was_never_there_is_no_refusal_and_is_used_once_it_comes() {
    let Some(mut server) = RedisServer::start() else { return };
    server.kill();
    let features = Features::new(FeatureSettings::default());
    let source = source(&features, &server, PATIENT, NO_CACHE);
    on_lane(async {
        let lane = features.lane();
        assert_eq!(limit(&lane, &source, "a").await, Err("down"));
        server.run().unwrap();
        push(&server, r#"[["a", {"limit": 1}]]"#);
        until(&lane, &source, Ok(1)).await;
    });
}

#[test]
fn a_slow_redis_costs_its_timeout_then_nothing_and_is_used_again_when_it_is_quick() {
    let Some(server) = RedisServer::start() else { return };
    push(&server, r#"[["a", {"limit": 5}]]"#);
    let features = Features::new(FeatureSettings::default());
    let source = source(&features, &server, Duration::from_millis(30), NO_CACHE);
    on_lane(async {
        let lane = features.lane();
        until(&lane, &source, Ok(5)).await;
        redis::cmd("CLIENT").arg("PAUSE").arg(4000).exec(&mut server.connection()).unwrap();
        assert_eq!(limit(&lane, &source, "a").await, Err("timeout"));
        // After a second without any response the connection is dropped, and nothing waits any more.
        until(&lane, &source, Err("down")).await;
        until(&lane, &source, Ok(5)).await;
    });
}

#[test]
fn a_deadline_shorter_than_the_timeout_is_kept_and_spoils_nobody_elses_answer() {
    let Some(server) = RedisServer::start() else { return };
    push(&server, r#"[["a", {"limit": 5}]]"#);
    let settings = FeatureSettings::default();
    let clock = settings.clock.clone();
    let features = Features::new(settings);
    let source = source(&features, &server, PATIENT, NO_CACHE);
    on_lane(async {
        let lane = features.lane();
        assert_eq!(limit(&lane, &source, "a").await, Ok(5));
        server.pause();
        let deadline = clock.now().after(Duration::from_millis(20));
        // The one with the short deadline asks first, the other waits for its result.
        let hurried = async {
            let lookup = lane.lookup(&source, "a", Some(deadline)).await;
            server.go_on();
            lookup
        };
        let (hurried, patient) = tokio::join!(hurried, lane.lookup(&source, "a", None));
        assert_eq!(told(&hurried), Err("timeout"));
        assert_eq!(told(&patient), Ok(5));
    });
}

#[test]
fn many_lanes_that_miss_one_key_ask_for_it_once() {
    let Some(server) = RedisServer::start() else { return };
    push(&server, r#"[["a", {"limit": 5}]]"#);
    let features = Features::new(FeatureSettings::default());
    let cache = CacheDef { ttl: PATIENT, absent_ttl: PATIENT, entries_max: 100 };
    let source = source(&features, &server, PATIENT, cache);
    let mut connection = server.connection();
    redis::cmd("CLIENT").arg("PAUSE").arg(500).exec(&mut connection).unwrap();
    let lookups = |features: &Arc<Features>| {
        on_lane(async {
            let lane = features.lane();
            let one = || lane.lookup(&source, "a", None);
            let (a, b, c, d) = tokio::join!(one(), one(), one(), one());
            [a, b, c, d].map(|lookup| told(&lookup))
        })
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..3).map(|_| scope.spawn(|| lookups(&features))).collect();
        for lane in lanes {
            assert_eq!(lane.join().unwrap(), [Ok(5); 4]);
        }
    });
    let statistics: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    assert!(statistics.contains("cmdstat_getrange:calls=1,"), "{statistics}");
}

#[test]
fn a_client_that_leaves_while_it_asks_for_all_lets_another_ask() {
    let Some(server) = RedisServer::start() else { return };
    push(&server, r#"[["a", {"limit": 5}]]"#);
    let features = Features::new(FeatureSettings::default());
    let source = source(&features, &server, PATIENT, NO_CACHE);
    on_lane(async {
        let lane = features.lane();
        assert_eq!(limit(&lane, &source, "a").await, Ok(5));
        server.pause();
        let leaves = async {
            let left = tokio::time::timeout(Duration::from_millis(20), lane.lookup(&source, "a", None)).await;
            server.go_on();
            left
        };
        let (left, stays) = tokio::join!(leaves, lane.lookup(&source, "a", None));
        assert!(left.is_err());
        assert_eq!(told(&stays), Ok(5));
    });
}

#[test]
fn what_is_pushed_can_be_looked_at_and_expires_where_that_is_asked() {
    let Some(server) = RedisServer::start() else { return };
    let target = PushTarget::Redis { url: server.url.clone(), expire_s: Some(100) };
    let mut pusher = Pusher::begin(target.clone(), "cards", 7).unwrap();
    pusher.put(br#"[["a", {"limit": 5, "country": "DE"}]]"#).unwrap();
    let pushed = pusher.finish().unwrap();
    let bytes = get(&target, "cards", "a").unwrap().unwrap();
    assert_eq!(bytes, br#"{"v":1,"at":7,"fields":{"country":"DE","limit":5}}"#);
    assert_eq!((pushed.rows, pushed.bytes), (1, 1 + bytes.len() as u64));
    assert_eq!(get(&target, "cards", "b"), Ok(None));
    let left: i64 = redis::cmd("TTL").arg("flyball:cards:a").query(&mut server.connection()).unwrap();
    assert!((1..=100).contains(&left), "{left}");
}
