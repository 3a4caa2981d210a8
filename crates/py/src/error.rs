//! Failures for Python: one exception with a JSON text, which `flyball.native` turns into its typed errors.
//!
//! Also the one guard against panics: none may cross into Python.

use flyball_core::FaultKind;
use flyball_signing::Refused;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

create_exception!(_native, NativeError, PyException);

/// `SignatureError`'s exit code in `flyball.errors`.
const UNTRUSTED: u8 = 4;

/// A failure in the terms of `flyball.errors`.
#[derive(Serialize)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) faults: Option<serde_json::Value>,
    /// The reason for a rejected signature, from the closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The index of the row with the faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<usize>,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl ToString, exit_code: u8) -> Failure {
        Failure { code, message: message.to_string(), exit_code, faults: None, reason: None, row: None }
    }

    /// Rejected input, model, snapshot or settings.
    pub(crate) fn refused(code: &'static str, message: impl ToString) -> Failure {
        Failure::new(code, message, FaultKind::InvalidInput.exit_code())
    }

    /// A rejected signature.
    pub(crate) fn untrusted(refused: &Refused) -> Failure {
        let reason = Some(refused.label());
        Failure { reason, ..Failure::new("signature_refused", refused, UNTRUSTED) }
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
            Err(Failure::new(kind.label(), message, kind.exit_code()).into_error())
        }
    }
}

/// Reads a JSON document of options.
pub(crate) fn options<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::refused("invalid_options", error))
}

pub(crate) fn json<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| Failure::refused("internal", format!("cannot write JSON: {error}")).into_error())?;
    Ok(PyBytes::new(py, &bytes))
}
