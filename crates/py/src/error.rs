//! Passes failures to Python: one exception with a JSON text, which `flyball.engine` maps to typed errors.
//!
//! Also guards against panics: none may cross into Python.

use flyball_core::FaultKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};

create_exception!(_native, NativeError, PyException);

/// A failure in the terms of `flyball.errors`.
#[derive(Serialize)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) faults: Option<serde_json::Value>,
}

impl Failure {
    /// Rejected input, model, snapshot or settings.
    pub(crate) fn refused(code: &'static str, message: impl ToString) -> Failure {
        let exit_code = FaultKind::InvalidInput.exit_code();
        Failure { code, message: message.to_string(), exit_code, faults: None }
    }

    fn into_error(self) -> PyErr {
        NativeError::new_err(serde_json::to_string(&self).unwrap_or(self.message))
    }
}

/// Runs work detached from Python. A panic becomes an error like any other.
pub(crate) fn guarded<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let work = AssertUnwindSafe(work);
    let result = py.detach(move || catch_unwind(|| { work }.0()));
    match result {
        Ok(result) => result.map_err(Failure::into_error),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            let message = format!("a bug in flyball: {text}");
            let kind = FaultKind::Panicked;
            Err(Failure { code: kind.label(), message, exit_code: kind.exit_code(), faults: None }
                .into_error())
        }
    }
}

pub(crate) fn json<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| Failure::refused("internal", format!("cannot write JSON: {error}")).into_error())?;
    Ok(PyBytes::new(py, &bytes))
}
