//! Signatures for Python, verified by the data plane's code. A rejection carries its reason.

use crate::error::{Failure, guarded, json, options};
use flyball_signing::{
    EnvelopeKind, Refused, Release, Trust, TrustRoots, TrustedKey, check_place, check_policy,
    check_statement, files_of, payload_of, policy_inside, statement_inside,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json as object};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A trust policy in force.
#[pyclass(name = "Trust", frozen)]
pub(crate) struct PyTrust {
    trust: Trust,
}

#[pymethods]
impl PyTrust {
    #[new]
    fn new(
        py: Python<'_>,
        policy: Option<&[u8]>,
        roots: &str,
        now: i64,
        serial_least: u64,
    ) -> PyResult<PyTrust> {
        verified(py, || {
            let policy = signed(policy, "the trust policy")?;
            let trust = Trust::read(policy, &TrustRoots::read(&[roots])?, now, serial_least)?;
            Ok(PyTrust { trust })
        })
    }

    fn key<'py>(&self, py: Python<'py>, hint: &str, now: i64) -> PyResult<Bound<'py, PyBytes>> {
        let key = verified(py, || self.trust.key("the signature", hint, now).map(key_facts))?;
        json(py, &key)
    }

    fn signers<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        envelope: &[u8],
        now: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let kind = kind_of(py, kind)?;
        let keys = verified(py, || {
            let keys = self.trust.signed_by(kind, envelope, now)?;
            Ok(keys.into_iter().map(key_facts).collect::<Vec<_>>())
        })?;
        json(py, &keys)
    }

    fn package(
        &self,
        py: Python<'_>,
        bundle: Option<&[u8]>,
        now: i64,
        folder: Option<PathBuf>,
    ) -> PyResult<String> {
        verified(py, || {
            let manifest = self.trust.package(signed(bundle, "the package")?, now)?;
            folder.as_deref().map_or(Ok(()), |folder| manifest.check_folder(folder))?;
            Ok(manifest.root.to_string())
        })
    }

    fn release<'py>(
        &self,
        py: Python<'py>,
        envelope: Option<&[u8]>,
        now: i64,
        environment: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let release = verified(py, || {
            let envelope = signed(envelope, "the release")?;
            self.trust.release(envelope, now, environment).map(release_facts)
        })?;
        json(py, &release)
    }

    fn index(&self, py: Python<'_>, index: &[u8], envelope: Option<&[u8]>, now: i64) -> PyResult<()> {
        verified(py, || self.trust.index(index, signed(envelope, "the index")?, now))
    }

    fn admit<'py>(&self, py: Python<'py>, asked: &[u8], now: i64) -> PyResult<Bound<'py, PyBytes>> {
        let asked = guarded(py, || options(asked))?;
        let release = verified(py, || self.trust.admit(&asked, now).map(release_facts))?;
        json(py, &release)
    }
}

fn key_facts(key: &TrustedKey) -> Value {
    let roles: Vec<_> = key.roles.iter().map(|role| role.label()).collect();
    object!({"hint": key.hint(), "name": key.name, "roles": roles})
}

fn release_facts(release: Release) -> Value {
    let Release { author, approvers, approver_keys, .. } = release;
    object!({"author": author, "approvers": approvers, "approver_keys": approver_keys})
}

#[pyfunction]
pub(crate) fn signed_payload<'py>(
    py: Python<'py>,
    kind: &str,
    envelope: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let kind = kind_of(py, kind)?;
    verified(py, || payload_of(kind, envelope)).map(|payload| PyBytes::new(py, &payload))
}

#[pyfunction]
pub(crate) fn trust_policy<'py>(
    py: Python<'py>,
    envelope: &[u8],
    roots: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let policy = verified(py, || {
        let roots = roots.map(|pems| TrustRoots::read(&[pems])).transpose()?;
        policy_inside(envelope, roots.as_ref())
    })?;
    Ok(PyBytes::new(py, &policy))
}

#[pyfunction]
pub(crate) fn check_trust_policy(py: Python<'_>, document: &[u8]) -> PyResult<()> {
    verified(py, || check_policy(document))
}

#[pyfunction]
pub(crate) fn release_statement<'py>(py: Python<'py>, envelope: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    verified(py, || statement_inside(envelope)).map(|statement| PyBytes::new(py, &statement))
}

#[pyfunction]
pub(crate) fn check_release_statement(py: Python<'_>, document: &[u8]) -> PyResult<()> {
    verified(py, || check_statement(document))
}

#[pyfunction]
pub(crate) fn check_release_place(
    py: Python<'_>,
    envelope: &[u8],
    now: i64,
    environment: &str,
) -> PyResult<()> {
    verified(py, || check_place(envelope, now, environment))
}

#[pyfunction]
pub(crate) fn package_files(py: Python<'_>, folder: PathBuf, whole: bool) -> PyResult<Bound<'_, PyBytes>> {
    let files = verified(py, || files_of(&folder, whole))?;
    let files: BTreeMap<String, String> =
        files.into_iter().map(|(name, digest)| (name, digest.hex())).collect();
    json(py, &files)
}

fn signed<'b>(bytes: Option<&'b [u8]>, what: &str) -> Result<&'b [u8], Refused> {
    bytes.ok_or_else(|| Refused::Unsigned { what: what.to_owned() })
}

fn kind_of(py: Python<'_>, kind: &str) -> PyResult<EnvelopeKind> {
    let unknown = || Failure::refused("invalid_options", format!("'{kind}' is no kind of envelope"));
    guarded(py, || EnvelopeKind::from_label(kind).ok_or_else(unknown))
}

fn verified<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Refused> + Send) -> PyResult<T> {
    guarded(py, || work().map_err(|refused| Failure::untrusted(&refused)))
}
