//! Fills feature stores and windows from Python in batches, and reads one record.

use crate::error::{Failure, guarded, json};
use flyball_core::{RowSink, WallClock};
use flyball_decision::DecisionDocument;
use flyball_features::{PushFault, PushTarget, Pushed, Pusher};
use flyball_plane::{Backfill, BackfillFault, Filled};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::{Map, Value, json as object};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Exit code if the target is unreachable.
const UNREACHABLE: u8 = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    set: String,
    /// Exactly one of the two.
    redis: Option<String>,
    store: Option<PathBuf>,
    expire_s: Option<u64>,
}

impl Options {
    fn read(bytes: &[u8]) -> Result<(PushTarget, String), Failure> {
        let options: Options = serde_json::from_slice(bytes).map_err(refused)?;
        let target = match (options.redis, options.store) {
            (Some(url), None) => PushTarget::Redis { url, expire_s: options.expire_s },
            (None, Some(path)) => PushTarget::Store { path },
            _ => return Err(refused("name either redis or a store")),
        };
        Ok((target, options.set))
    }
}

#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct FeaturePush(Mutex<Option<Pusher>>);

impl FeaturePush {
    fn with<T>(&self, work: impl FnOnce(&mut Option<Pusher>) -> Result<T, Failure>) -> Result<T, Failure> {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl FeaturePush {
    #[new]
    fn new(py: Python<'_>, options: &[u8]) -> PyResult<FeaturePush> {
        guarded(py, || {
            let (target, set) = Options::read(options)?;
            let pusher = Pusher::begin(target, &set, WallClock::system().now_ms()).map_err(failed)?;
            Ok(FeaturePush(Mutex::new(Some(pusher))))
        })
    }

    fn put(&self, py: Python<'_>, rows: &[u8]) -> PyResult<()> {
        guarded(py, || self.with(|pusher| pusher.as_mut().ok_or_else(over)?.put(rows).map_err(failed)))
    }

    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let finish = |pusher: &mut Option<Pusher>| pusher.take().ok_or_else(over)?.finish().map_err(failed);
        let Pushed { rows, bytes } = guarded(py, || self.with(finish))?;
        json(py, &object!({"rows": rows, "bytes": bytes}))
    }

    /// Abandons the push: the embedded store stays unchanged.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        guarded(py, || {
            self.with(|pusher| {
                *pusher = None;
                Ok(())
            })
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackfillOptions {
    decision: String,
    document: Value,
    folder: Option<PathBuf>,
}

/// Past events for a decision's windows.
#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct WindowBackfill(Mutex<Option<Backfill>>);

#[pymethods]
impl WindowBackfill {
    #[new]
    fn new(py: Python<'_>, options: &[u8]) -> PyResult<WindowBackfill> {
        guarded(py, || {
            let options: BackfillOptions = serde_json::from_slice(options).map_err(refused)?;
            let document = DecisionDocument::read(&options.document).map_err(refused)?;
            let backfill = Backfill::begin(&options.decision, &document, options.folder).map_err(stopped)?;
            Ok(WindowBackfill(Mutex::new(Some(backfill))))
        })
    }

    fn put(&self, py: Python<'_>, events: &[u8]) -> PyResult<()> {
        guarded(py, || {
            let events: Vec<(i64, Map<String, Value>)> = serde_json::from_slice(events).map_err(refused)?;
            let times: Vec<i64> = events.iter().map(|(at_ms, _)| *at_ms).collect();
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let put = held.as_mut().ok_or_else(over)?.put(&times, |reader| {
                for (_, row) in &events {
                    reader.row(None);
                    row.iter().for_each(|(name, value)| reader.field(name, value.into()));
                }
            });
            put.map_err(stopped)
        })
    }

    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let Filled { events, without_key } = guarded(py, || {
            let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok(held.ok_or_else(over)?.finish())
        })?;
        json(py, &object!({"events": events, "without_key": without_key}))
    }
}

fn stopped(fault: BackfillFault) -> Failure {
    match fault {
        BackfillFault::Refused(text) => refused(text),
        BackfillFault::Unreachable(message) => Failure::new("unreachable", message, UNREACHABLE),
    }
}

#[pyfunction]
pub(crate) fn feature_record<'py>(
    py: Python<'py>,
    options: &[u8],
    key: &str,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let record = guarded(py, || {
        let (target, set) = Options::read(options)?;
        flyball_features::get(&target, &set, key).map_err(failed)
    })?;
    Ok(record.map(|record| PyBytes::new(py, &record)))
}

fn refused(error: impl ToString) -> Failure {
    Failure::refused("features_refused", error)
}

fn over() -> Failure {
    refused("the push has ended; start another")
}

fn failed(fault: PushFault) -> Failure {
    match fault {
        PushFault::Refused(text) => refused(text),
        PushFault::Unreachable(message) => Failure::new("unreachable", message, UNREACHABLE),
    }
}
