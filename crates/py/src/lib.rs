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
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NativeError", module.py().get_type::<error::NativeError>())?;
    module.add_function(wrap_pyfunction!(engine::build_info, module)?)?;
    module.add_function(wrap_pyfunction!(engine::machine, module)?)?;
    module.add_function(wrap_pyfunction!(engine::ceiling, module)?)?;
    module.add_function(wrap_pyfunction!(engine::model_files, module)?)?;
    module.add_function(wrap_pyfunction!(engine::copy_external_data, module)?)?;
    module.add_function(wrap_pyfunction!(engine::scan_model, module)?)?;
    module.add_function(wrap_pyfunction!(engine::runtime_fingerprint, module)?)?;
    module.add_function(wrap_pyfunction!(engine::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(engine::prove, module)?)?;
    module.add_function(wrap_pyfunction!(engine::serve_models, module)?)?;
    module.add_function(wrap_pyfunction!(engine::check_snapshot, module)?)?;
    module.add_function(wrap_pyfunction!(decision::check_decision, module)?)?;
    module.add_function(wrap_pyfunction!(server::check_config, module)?)?;
    module.add_function(wrap_pyfunction!(columns::transform_columns, module)?)?;
    module.add_function(wrap_pyfunction!(columns::compute_features, module)?)?;
    module.add_function(wrap_pyfunction!(explain::contributions, module)?)?;
    module.add_function(wrap_pyfunction!(features::feature_record, module)?)?;
    module.add_function(wrap_pyfunction!(load::read_histograms, module)?)?;
    module.add_function(wrap_pyfunction!(journal::verify_frames, module)?)?;
    module.add_function(wrap_pyfunction!(sandbox::enclose, module)?)?;
    module.add_function(wrap_pyfunction!(signing::signed_payload, module)?)?;
    module.add_function(wrap_pyfunction!(signing::trust_policy, module)?)?;
    module.add_function(wrap_pyfunction!(signing::check_trust_policy, module)?)?;
    module.add_function(wrap_pyfunction!(signing::release_statement, module)?)?;
    module.add_function(wrap_pyfunction!(signing::check_release_statement, module)?)?;
    module.add_function(wrap_pyfunction!(signing::check_release_place, module)?)?;
    module.add_function(wrap_pyfunction!(signing::package_files, module)?)?;
    module.add_class::<signing::PyTrust>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<features::FeaturePush>()?;
    module.add_class::<features::WindowBackfill>()?;
    module.add_class::<journal::JournalLog>()?;
    module.add_class::<journal::Journal>()?;
    module.add_class::<load::LoadRun>()?;
    module.add_class::<load::Echo>()?;
    Ok(())
}
