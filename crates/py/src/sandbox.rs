//! Sandboxes this process, for Python processes that load files which may run code.

use crate::error::{Failure, guarded};
use flyball_sandbox::Refused;
use pyo3::prelude::*;
use std::path::PathBuf;

#[pyfunction]
pub(crate) fn enclose(py: Python<'_>, folder: PathBuf, readable: Vec<PathBuf>) -> PyResult<()> {
    guarded(py, || {
        flyball_sandbox::enclose(&folder, &readable).map_err(|why| Failure::refused(code(&why), why))
    })
}

fn code(why: &Refused) -> &'static str {
    match why {
        Refused::Files(_) => "no_landlock",
        Refused::Threads(_) | Refused::Calls(_) | Refused::Privileges(_) => "no_sandbox",
    }
}
