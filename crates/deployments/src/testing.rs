//! Deployments and models for this crate's tests, without sessions; nothing is measured.

use flyball_core::{DataType, Digest, Meters, TensorSpec};
use flyball_engine::{Batching, LatencyTable, Signature};
use flyball_plane::{Conduct, Deployment, Gate, Model, ModelParts, Provenance, Terms};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub(crate) struct Unmeasured;

impl Meters<()> for Unmeasured {
    fn model(&self, _name: &str, _version: &str) -> Arc<()> {
        Arc::new(())
    }

    fn decision(&self, _name: &str, _outcomes: &[Arc<str>]) -> Arc<()> {
        Arc::new(())
    }
}

/// Unsigned, as the first snapshot asked for it.
pub(crate) fn deployment(name: &str, digest: Digest) -> Arc<Deployment<()>> {
    Arc::new(Deployment {
        name: name.to_owned(),
        digest,
        route: "1".to_owned(),
        versions: vec![model("1")],
        trial: None,
        candidate: None,
        decision: None,
        provenance: Provenance::Unsigned,
        origin: None,
        generation: AtomicU64::new(1),
    })
}

pub(crate) fn model(version: &str) -> Arc<Model<()>> {
    let spec = TensorSpec { name: "x".into(), datatype: DataType::Uint8, shape: vec![-1] };
    let parts = ModelParts {
        name: "m".into(),
        version: version.into(),
        signature: Arc::new(Signature { inputs: vec![spec.clone()], outputs: vec![spec] }),
        batching: Batching { rows_max: 1, reason: None },
        latency: LatencyTable::of(Vec::new()),
        row_elements: None,
        runners: Vec::new(),
        hosted: None,
        labels: HashMap::new(),
        meter: Arc::new(()),
        terms: Terms {
            deadline: None,
            queue_wait_max: Duration::from_secs(1),
            run_max: Duration::from_secs(1),
            share: 100,
            batch_wait: None,
        },
        gate: Gate::new(1),
        conduct: Arc::new(Conduct::new(false)),
    };
    Arc::new(Model::new(parts, 1))
}
