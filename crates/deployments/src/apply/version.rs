//! Loads one version of a deployment: verifies its files, then probes and loads the model.

use super::Loader;
use flyball_core::{Digest, snapshot};
use flyball_engine::{Artifact, HostedModel, LoadOptions, Refusal, Surveyor};
use flyball_plane::{BatchWait, ClientShapes, Conduct, Gate, Model, ModelParts, Terms};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Maximum models whose conduct is kept.
const CONDUCTS_MAX: usize = 1024;

impl<M: Send + Sync + 'static> Loader<M> {
    pub(super) fn load_version(
        &self,
        document: &snapshot::Deployment,
        version: &snapshot::Version,
        gate: &Arc<Gate>,
        base: &Path,
        leaving: &dyn Fn() -> bool,
    ) -> Result<(Model<M>, Surveyor), Refusal> {
        let engine = &self.engine;
        let artifact = Artifact::read(&version.artifact, base, engine.memory)?;
        let conduct = self.conduct(artifact.digest, artifact.facts.value_dependent);
        let moves_texts = artifact.facts.moves_texts;
        let defaults = artifact.defaults.clone();
        let lanes = self.plane.lanes.sockets;
        let options = LoadOptions {
            rows_max: document.limits.batch_rows_max.max(1) as usize,
            runners: lanes.min(document.limits.concurrency_max as usize),
            memory: engine.memory,
        };
        let loaded = engine.runtime.load(Arc::new(artifact), options, &engine.hosts, leaving)?;
        self.loads.fetch_add(1, Ordering::Relaxed);
        let terms = terms(document, loaded.batching.rows_max);
        let parts = ModelParts {
            name: document.name.as_str().into(),
            version: version.version.as_str().into(),
            hosted: self.hosted(version, base, terms.run_max),
            labels: labels(document),
            defaults,
            moves_texts,
            may_be_rows: document.limits.batch_rows_max > 0,
            client_shapes: ClientShapes::of(&loaded.signature, &document.shapes).map_err(Refusal::Shapes)?,
            meter: self.meters.model(&document.name, &version.version),
            terms,
            gate: Arc::clone(gate),
            conduct,
        };
        Ok(Model::new(parts, loaded, lanes))
    }

    /// The model in a model host, for after a run that could not be stopped. Starts nothing before that.
    fn hosted(&self, version: &snapshot::Version, base: &Path, run_max: Duration) -> Option<HostedModel> {
        let (wanted, base, memory) = (version.artifact.clone(), base.to_owned(), self.engine.memory);
        let read = Arc::new(move || Artifact::read(&wanted, &base, memory));
        let engine = &self.engine;
        HostedModel::new(&engine.hosts, &engine.runtime, read, run_max, memory.bytes_max)
    }

    /// The conduct of a model so far.
    fn conduct(&self, model: Digest, unpredictable: bool) -> Arc<Conduct> {
        let mut conducts = self.conducts.lock().unwrap_or_else(PoisonError::into_inner);
        conducts.retain(|_, conduct| conduct.moved() || Arc::strong_count(conduct) > 1);
        if conducts.len() >= CONDUCTS_MAX {
            conducts.clear();
        }
        Arc::clone(conducts.entry(model).or_insert_with(|| Arc::new(Conduct::new(unpredictable))))
    }
}

/// The deployment's terms, for a model with this maximum batch size.
fn terms(document: &snapshot::Deployment, rows_max: usize) -> Terms {
    let ms = |ms: u32| Duration::from_millis(u64::from(ms));
    let limits = &document.limits;
    let batch_wait = document
        .batch
        .filter(|_| rows_max > 1)
        .map(|wait| BatchWait { rows: rows_max.min(wait.size as usize), window: ms(wait.window_ms) });
    Terms {
        deadline: document.slo.deadline_ms.map(ms),
        queue_wait_max: ms(limits.queue_wait_ms_max),
        run_max: ms(limits.run_ms_max),
        share: limits.share,
        batch_wait,
    }
}

fn labels(document: &snapshot::Deployment) -> HashMap<String, Arc<[String]>> {
    document.labels.iter().map(|(output, labels)| (output.clone(), labels.as_slice().into())).collect()
}
