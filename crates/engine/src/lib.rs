//! The only crate that touches ONNX Runtime.
//!
//! It finds the library, verifies and loads models, probes whether rows may share a batch, runs them, and
//! knows how long a run takes. Tree models are run by `flyball_trees` once that is proven to give the same bits. Knows nothing of requests, lanes or protocols: tensors in, tensors or an error
//! out.
#![deny(unsafe_op_in_unsafe_fn)]

mod allocator;
mod artifact;
mod background;
mod ceiling;
mod column;
mod declared;
mod division;
mod host;
mod latency;
mod library;
mod load;
mod log;
mod memory;
mod native;
mod operator_new;
mod optional;
mod output;
mod plain_file;
mod probe;
mod reference_rows;
mod refusal;
mod runner;
mod sample;
mod scan;
mod signature;
mod standalone;
mod stop;
mod strings;

pub use artifact::{Artifact, ArtifactFile, copy_sibling, digest_files, scan_file};
pub use background::{set_idle_policy, set_lowest_priority};
pub use ceiling::{Ceiling, ReadSpeed};
pub use declared::DeclaredTensor;
pub use host::{HostCommand, HostError, HostedModel, ModelHosts, ProbeLimits, ReadModel, serve_models};
pub use latency::{LatencyPoint, LatencyTable, thread_cpu_time};
pub use library::{LibraryError, Runtime, beside_executable};
pub use load::{LoadOptions, LoadedModel, Surveyor};
pub use log::log_counts;
pub use memory::{MemoryBudget, give_back, large_run_ended, look, resident_bytes};
pub use native::{NativeTrees, TREES};
pub use probe::Batching;
pub use refusal::Refusal;
pub use runner::{
    GraphLevel, INTER_THREADS, INTRA_THREADS, PROVIDER, Run, RunError, Runner, SessionOptions, StopRun,
};
pub use scan::{Finding, Opset, ScanFacts, ScanLimits, ScanRefusal};
pub use signature::Signature;
pub use standalone::{
    InputMismatch, RUNS_MAX, RunFigures, StandaloneError, StandaloneFacts, StandaloneModel,
};
