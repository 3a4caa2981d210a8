//! Loading: verified bytes → sessions → probe → warm-up. Runs on a loader thread and must not touch a lane.

use crate::host::{Proof, ProofRequest};
use crate::latency::{LatencyPoint, LatencyTable, thread_cpu_time};
use crate::memory::{MemoryBudget, resident_bytes};
use crate::native::{NativeTrees, ProofRuns, ProvenTrees, TreeRunner, prove};
use crate::probe::{Batching, probe};
use crate::reference_rows::{ReferenceRows, is_slow, join};
use crate::runner::{LogLevel, Run, Runner, SessionOptions, StopRun};
use crate::sample::SampleRows;
use crate::{Artifact, ModelHosts, Refusal, Runtime, Signature};
use flyball_trees::Unsupported;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Maximum rows in one run, set by the deployment.
    pub rows_max: usize,
    /// The number of lanes that need a session.
    pub runners: usize,
    pub memory: MemoryBudget,
}

/// A model that is ready to run.
pub struct LoadedModel {
    pub signature: Arc<Signature>,
    pub batching: Batching,
    /// Warm sessions, one for each home lane.
    pub runners: Vec<Runner>,
    /// Rough run times; empty if it does not run on sample input.
    pub latency: LatencyTable,
    /// Elements of a row in that table, if rows may be longer.
    pub row_elements: Option<usize>,
    pub surveyor: Surveyor,
}

impl Runtime {
    /// Loads a proven model. Gives up at the time limit, or if the server is `leaving`.
    pub fn load(
        &self,
        artifact: Arc<Artifact>,
        options: LoadOptions,
        hosts: &ModelHosts,
        leaving: &dyn Fn() -> bool,
    ) -> Result<LoadedModel, Refusal> {
        let session = &SessionOptions::default();
        let (rows_max, memory) = (options.rows_max, options.memory);
        let ask = ProofRequest { rows_max, session, trees: false, memory, leaving };
        let proof = hosts.prove(self, &artifact, &ask)?;
        let runtime = self.clone();
        hosts.within(leaving, move || runtime.load_proven(&artifact, options, &proof))
    }

    /// Checks whether a model could be loaded, without loading it.
    pub fn prove(
        &self,
        artifact: &Artifact,
        rows_max: usize,
        hosts: &ModelHosts,
    ) -> Result<Batching, Refusal> {
        let (session, memory) = (&SessionOptions::default(), MemoryBudget::UNLIMITED);
        let ask = ProofRequest { rows_max, session, trees: false, memory, leaving: &|| false };
        hosts.prove(self, artifact, &ask).map(|proof| proof.batching.clone())
    }

    fn load_proven(
        &self,
        artifact: &Artifact,
        options: LoadOptions,
        proof: &Proof,
    ) -> Result<LoadedModel, Refusal> {
        let before = resident_bytes();
        let prober = Runner::new(self, artifact, LogLevel::Warnings)?;
        let signature = Arc::clone(&prober.signature);
        proof.fits(&signature)?;
        let trees = TreeRunner::read(artifact, &signature);
        let proven = trees.as_ref().map(|_| Arc::new(OnceLock::new()));
        let sample_rows = proof.rows.map(|(length, count)| SampleRows::of(&signature, length, count));
        let session_bytes = resident_bytes().saturating_sub(before).max(artifact.size_bytes());
        let affordable = options.memory.sessions(artifact.size_bytes(), session_bytes);
        if affordable == 0 {
            return Err(options.memory.refuse(session_bytes));
        }
        let count = affordable.min(options.runners).max(1);
        let mut runners = Vec::with_capacity(count);
        // One warm run of a slow model is enough to serve it.
        let warm_max =
            if proof.points.first().is_some_and(|alone| is_slow(alone.p50_us)) { 1 } else { count };
        for place in 0..count {
            let mut runner = Runner::new(self, artifact, LogLevel::ErrorsOnly)?;
            runner.proven_trees.clone_from(&proven);
            if let Some(sample_rows) = sample_rows.as_ref().filter(|_| place < warm_max) {
                join(&mut runner, &sample_rows.batch(1));
                let warm = runner.run(&mut Vec::new());
                warm.map_err(|error| Refusal::Runtime(format!("the warm-up run failed: {error}")))?;
            }
            runners.push(runner);
        }
        let batching = proof.batching.clone();
        let row_elements = sample_rows.as_ref().and_then(|sample_rows| sample_rows.row_elements(&signature));
        let trees = trees.zip(proven);
        let (rows_max, version) = (batching.rows_max, self.version().to_owned());
        let surveyor = Surveyor { prober, trees, version, sample_rows, rows_max };
        let latency = LatencyTable::of(proof.points.clone());
        Ok(LoadedModel { signature, batching, runners, latency, row_elements, surveyor })
    }

    /// Creates a session only to find out whether rows may share a run.
    pub(crate) fn probe(
        &self,
        artifact: &Artifact,
        rows_max: usize,
        options: &SessionOptions,
        trees: bool,
    ) -> Result<Probed, Refusal> {
        let mut prober = Runner::with(self, artifact, LogLevel::Warnings, options)?;
        // Tools that change the session want to see the session.
        let native = (trees && *options == SessionOptions::default())
            .then(|| TreeRunner::read(artifact, &prober.signature))
            .flatten()
            .map(|trees| prove(&mut prober, trees, ProofRuns::of(rows_max), self.version(), &|| false));
        let (witnesses, (batching, points)) = match ReferenceRows::find(&mut prober) {
            Ok(witnesses) => {
                let probed = probe(&witnesses, &mut prober, rows_max);
                (Some(witnesses), probed)
            }
            // The model may still be valid: sample indices can be out of its range. It is served one row at a
            // time.
            Err(error) => {
                (None, (Batching::off(format!("it does not run on sample input: {error}")), Vec::new()))
            }
        };
        Ok(Probed { prober, native, witnesses, batching, points })
    }
}

/// The results of probing, and the session that was probed.
pub(crate) struct Probed {
    pub(crate) prober: Runner,
    pub(crate) native: Option<NativeTrees>,
    pub(crate) witnesses: Option<ReferenceRows>,
    pub(crate) batching: Batching,
    pub(crate) points: Vec<LatencyPoint>,
}

/// Works on a model in the background while it serves: proves its native trees, and fills its latency table.
pub struct Surveyor {
    prober: Runner,
    /// Those of a tree model, and where its runners find them once they are proven.
    trees: Option<(Result<TreeRunner, Unsupported>, ProvenTrees)>,
    /// ONNX Runtime's.
    version: String,
    sample_rows: Option<SampleRows>,
    rows_max: usize,
}

/// Enough runs for a p99 of fast models; slow ones stop at the time limit.
const RUNS_MAX: usize = 200;
const RUNS_MIN: usize = 3;
const SIZE_TIME_MAX: Duration = Duration::from_millis(40);

impl Surveyor {
    /// A handle that stops a survey run from another thread.
    pub fn stopper(&self) -> StopRun {
        self.prober.stopper()
    }

    /// Compares the native trees with ONNX Runtime; if they are equal, they answer from now on. None: no tree model.
    pub fn prove_trees(&mut self, stop: &dyn Fn() -> bool) -> Option<NativeTrees> {
        let (trees, proven) = self.trees.take()?;
        let another = trees.as_ref().ok().map(TreeRunner::another);
        let found = prove(&mut self.prober, trees, ProofRuns::of(self.rows_max), &self.version, stop);
        if found.on {
            another.into_iter().for_each(|trees| drop(proven.set(trees)));
        }
        Some(found)
    }

    /// Measures runs of each size for [`LatencyTable::fill`]. None: a run failed, or `stop` returned true.
    pub fn survey(mut self, stop: &dyn Fn() -> bool) -> Option<Vec<LatencyPoint>> {
        let sample_rows = self.sample_rows.take()?;
        let measured = |rows| if stop() { None } else { measure(&mut self.prober, &sample_rows, rows) };
        sizes(self.rows_max).into_iter().map(measured).collect()
    }
}

/// 1, 2, 4 … and the largest.
pub(crate) fn sizes(rows_max: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> =
        std::iter::successors(Some(1), |rows| Some(rows * 2)).take_while(|&rows| rows < rows_max).collect();
    sizes.push(rows_max.max(1));
    sizes
}

fn measure(runner: &mut Runner, sample_rows: &SampleRows, rows: usize) -> Option<LatencyPoint> {
    join(runner, &sample_rows.batch(rows));
    let mut outputs = Vec::new();
    let began = Instant::now();
    let mut runs_us = Vec::with_capacity(RUNS_MAX);
    while runs_us.len() < RUNS_MIN || (runs_us.len() < RUNS_MAX && began.elapsed() < SIZE_TIME_MAX) {
        let start = thread_cpu_time();
        runner.run(&mut outputs).ok()?;
        runs_us.push(thread_cpu_time().saturating_sub(start).as_secs_f64() * 1e6);
    }
    runs_us.sort_by(f64::total_cmp);
    let quantile = |share: f64| runs_us[((runs_us.len() - 1) as f64 * share).round() as usize];
    Some(LatencyPoint { rows, p50_us: quantile(0.5), p99_us: quantile(0.99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_measured_double_and_end_at_the_largest() {
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(2), [1, 2]);
        assert_eq!(sizes(6), [1, 2, 4, 6]);
        assert_eq!(sizes(64), [1, 2, 4, 8, 16, 32, 64]);
    }
}
