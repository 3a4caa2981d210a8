//! Loading while the server leaves. Needs ONNX Runtime, found by `ORT_DYLIB_PATH`; no model is run.

use super::*;
use crate::testing::Unmeasured;
use crate::{Lanes, Means, PlaneLimits};
use flyball_core::{Clock, RequestLimits};
use flyball_features::Wall;
use std::cell::Cell;

/// Two versions whose files are not there: whatever is read of them is refused.
fn bundle() -> Bundle {
    let version = |version: &str| {
        let digest = format!("sha256:{}", "0".repeat(64));
        format!(r#"{{"version":"{version}","artifact":{{"path":"gone.onnx","digest":"{digest}"}}}}"#)
    };
    let versions = [version("1"), version("2")].join(",");
    let document = format!(r#"{{"format":1,"name":"m","route":{{"version":"1"}},"versions":[{versions}]}}"#);
    let digest = Digest::of(document.as_bytes()).hex();
    let entry = format!(r#"{{"name":"m","digest":"sha256:{digest}"}}"#);
    let index = format!(r#"{{"format":1,"generation":1,"deployments":[{entry}]}}"#);
    let parts = format!("{{\"index\":{index:?},\"documents\":[{document:?}]}}");
    Bundle::from_memory(parts.as_bytes()).unwrap()
}

fn loader() -> Loader<()> {
    let limits = PlaneLimits {
        request: RequestLimits::for_body(1 << 20),
        in_flight_max: 1,
        inline_run_max: Duration::from_secs(1),
    };
    let clock = Clock::system();
    let means = Means::in_memory(clock.clone(), Wall::system());
    let (plane, _inboxes) = Plane::new(Lanes { sockets: 1, compute: 1 }, limits, clock, means);
    let runtime = Runtime::open(&flyball_engine::beside_executable().unwrap()).unwrap();
    Loader::new(runtime, plane, MemoryBudget::UNLIMITED, Arc::new(Unmeasured)).unwrap()
}

#[test]
fn a_server_that_leaves_begins_no_version_more_and_refuses_nothing_for_it() {
    let (loader, bundle) = (loader(), bundle());
    assert_eq!(loader.load_one(&bundle, "m", &|| true).unwrap_err(), NotLoaded::Leaving);
    // It begins to leave once the deployment is under way.
    let asked = Cell::new(0);
    let leaving = || asked.replace(asked.get() + 1) > 0;
    assert!(loader.apply(&bundle, &leaving).is_empty());
    let refused = loader.load_one(&bundle, "m", &|| false).unwrap();
    assert_eq!(refused.state, AckState::Refused);
    assert_eq!(loader.load_one(&bundle, "n", &|| false).unwrap_err(), NotLoaded::Unknown);
}
