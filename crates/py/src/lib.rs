//! `flyball._native`: conversions and exports, no logic.
//!
//! Documents cross as JSON bytes, few and coarse; every wait happens with Python detached.
//! `python/flyball/_native.pyi` has the type stubs.
#![deny(unsafe_op_in_unsafe_fn)]

mod columns;
mod decision;
mod engine;
mod error;
mod explain;
mod features;
mod journal;
mod load;
mod model;
mod sandbox;
mod server;
mod signing;

use pyo3::prelude::*;

/// As in `flyballd`: the same data plane, the same allocator. Python's own memory is not affected.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{
        columns::{compute_features, transform_columns},
        decision::check_decision,
        engine::{
            build_info, ceiling, check_snapshot, copy_external_data, inspect, machine, model_files, prove,
            runtime_fingerprint, scan_model, serve_models,
        },
        error::NativeError,
        explain::contributions,
        features::{FeaturePush, WindowBackfill, feature_record},
        journal::{Journal, JournalLog, verify_frames},
        load::{Echo, LoadRun, read_histograms},
        model::Model,
        sandbox::enclose,
        server::{Server, check_config},
        signing::{
            PyTrust, check_release_place, check_release_statement, check_trust_policy, package_files,
            release_statement, signed_payload, trust_policy,
        },
    };
}
