//! Verifies signatures for Python with the data plane's code, to compare `flyball.signing` with it.

use crate::error::guarded;
use flyball_signing::{Refused, Trust, TrustRoots};
use pyo3::prelude::*;
use std::path::Path;

/// None if accepted; else the reason and message.
type Verdict = Option<(&'static str, String)>;

#[pyfunction]
pub(crate) fn verify_package(
    py: Python<'_>,
    folder: &str,
    bundle: &[u8],
    trust: &[u8],
    root: &str,
    now: i64,
) -> PyResult<Verdict> {
    guarded(py, || {
        let judge = || read(trust, root, now)?.package(bundle, now)?.check_folder(Path::new(folder));
        Ok(judged(judge()))
    })
}

#[pyfunction]
pub(crate) fn verify_release(
    py: Python<'_>,
    release: &[u8],
    trust: &[u8],
    root: &str,
    now: i64,
    environment: &str,
) -> PyResult<Verdict> {
    guarded(py, || {
        let judge = || read(trust, root, now)?.release(release, now, environment);
        Ok(judged(judge()))
    })
}

fn read(trust: &[u8], root: &str, now: i64) -> Result<Trust, Refused> {
    Trust::read(trust, &TrustRoots::read(&[root])?, now, 0)
}

fn judged<T>(result: Result<T, Refused>) -> Verdict {
    result.err().map(|refused| (refused.label(), refused.to_string()))
}
