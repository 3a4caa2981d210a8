//! The order of loads, and loading while the server leaves. Needs ONNX Runtime, found by `ORT_DYLIB_PATH`; runs no model.

mod corpus;

use super::*;
use flyball_core::{Clock, Digest, WallClock};
use flyball_engine::MemoryBudget;
use flyball_plane::testing::{Made, Unmeasured, limits};
use flyball_plane::{Lanes, PlaneServices};
use std::cell::Cell;

/// Two versions whose files are missing, so that loading them is refused.
fn document(name: &str) -> String {
    let version = |version: &str| {
        let digest = format!("sha256:{}", "0".repeat(64));
        format!(r#"{{"version":"{version}","artifact":{{"path":"gone.onnx","digest":"{digest}"}}}}"#)
    };
    let versions = [version("1"), version("2")].join(",");
    format!(r#"{{"format":1,"name":"{name}","route":{{"version":"1"}},"versions":[{versions}]}}"#)
}

fn bundle(names: &[&str]) -> Bundle {
    let documents: Vec<_> = names.iter().map(|name| document(name)).collect();
    let entry = |(name, document): (&&str, &String)| {
        format!(r#"{{"name":"{name}","digest":"{}"}}"#, Digest::of(document.as_bytes()))
    };
    let entries: Vec<_> = names.iter().zip(&documents).map(entry).collect();
    let index = format!(r#"{{"format":1,"generation":1,"deployments":[{}]}}"#, entries.join(","));
    let parts = format!("{{\"index\":{index:?},\"documents\":{documents:?}}}");
    Bundle::from_memory(parts.as_bytes()).unwrap()
}

fn deployment(name: &str, digest: Digest) -> Arc<Deployment<()>> {
    Arc::new(Made::usual().deployment(name, digest))
}

fn loader() -> Loader<()> {
    loader_by(TrustGate::open())
}

fn loader_by(gate: TrustGate) -> Loader<()> {
    let clock = Clock::system();
    let services = PlaneServices::in_memory(clock.clone(), WallClock::system());
    let (plane, _inboxes) = Plane::new(Lanes { sockets: 1, compute: 1 }, limits(), clock, services);
    let runtime = Runtime::open(&flyball_engine::beside_executable().unwrap()).unwrap();
    let engine = Engine { runtime, hosts: ModelHosts::in_this_process(), memory: MemoryBudget::UNLIMITED };
    Loader::new(engine, plane, Arc::new(Unmeasured), Arc::new(gate), 1).unwrap()
}

#[test]
fn a_server_that_leaves_begins_no_version_more_and_refuses_nothing_for_it() {
    let (loader, bundle) = (loader(), bundle(&["m"]));
    assert_eq!(loader.load_one(&bundle, "m", &|| true).unwrap_err(), NotLoaded::Leaving);
    // It begins to leave once the deployment is under way.
    let asked = Cell::new(0);
    let leaving = || asked.replace(asked.get() + 1) > 0;
    assert!(loader.apply(&bundle, &leaving).acks.is_empty());
    let refused = loader.load_one(&bundle, "m", &|| false).unwrap();
    assert_eq!(refused.state, AckState::Refused);
    assert_eq!(loader.load_one(&bundle, "n", &|| false).unwrap_err(), NotLoaded::Unknown);
}

#[test]
fn what_is_warm_serves_again_and_what_is_not_named_is_gone_before_anything_is_loaded() {
    let (loader, bundle) = (loader(), bundle(&["big", "fraud"]));
    let (before, bad) = (bundle.index.deployments[1].digest, Digest::of(b"bad"));
    for serving in [deployment("fraud", bad), deployment("retired", bad)] {
        loader.change(&loader.hold(), |routes| drop(routes.serve(serving)));
    }
    loader.replace(deployment("fraud", before));
    let serving = |name| loader.plane.routes.load().get(name).map(|serving| serving.digest);
    let (loading, published) = (Cell::new(None), Cell::new(false));
    let look = || {
        // Called before each deployment and each version: also while `big` is being loaded.
        if loader.plane.routes.load().absence("big").is_some() {
            loading.set(Some((serving("fraud"), serving("retired"))));
            let applied = loader.applied();
            published.set(
                applied
                    .deployments
                    .iter()
                    .any(|state| state.digest == before && state.state == State::Applied),
            );
        }
        false
    };
    let acks = loader.apply(&bundle, &look).acks;
    assert_eq!(loading.get(), Some((Some(before), None)));
    assert!(published.get(), "the status is published before the load ends");
    let states: Vec<_> = acks.iter().map(|ack| (ack.name.as_str(), ack.state)).collect();
    let expected = [("retired", AckState::Removed), ("fraud", AckState::Applied), ("big", AckState::Refused)];
    assert_eq!(states, expected);
}

#[test]
fn what_serves_is_verified_anew_while_something_is_being_loaded() {
    let (loader, bundle) = (loader(), bundle(&["m"]));
    let verified = Cell::new(0);
    // Called during the load, on its own thread: waiting for the load would be a deadlock.
    let look = || {
        loader.recheck();
        verified.set(verified.get() + 1);
        false
    };
    assert_eq!(loader.apply(&bundle, &look).acks[0].state, AckState::Refused);
    assert!(verified.get() > 0);
}
