//! The status of deployments: serving, refused with the reason, or kept warm. Published as a whole after each change, so that
//! lanes read it without a lock.

use flyball_core::Digest;
use flyball_plane::{CandidateState, Deployment, Provenance};
use serde::Serialize;
use std::sync::atomic::Ordering;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Applied {
    /// The environment whose releases this server accepts.
    pub environment: String,
    /// The generation of the last applied snapshot; 0 before the first.
    pub generation: u64,
    /// Why a later snapshot was refused as a whole.
    pub refused: Option<String>,
    /// By name; for each name the serving one first.
    pub deployments: Vec<DeploymentState>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DeploymentState {
    pub name: String,
    /// The digest of its document.
    pub digest: Digest,
    /// The generation of the last snapshot that named it.
    pub generation: u64,
    pub state: State,
    pub reason: Option<String>,
    /// The version for callers who name none; none if refused.
    pub version: Option<String>,
    pub signed: Option<Provenance>,
    pub candidate: Option<CandidateState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It serves.
    Applied,
    /// It must not serve; its predecessor keeps serving, unless that was revoked.
    Refused,
    /// It served before and can serve again at once.
    Warm,
}

impl DeploymentState {
    pub(crate) fn of<M>(deployment: &Deployment<M>, state: State) -> DeploymentState {
        DeploymentState {
            name: deployment.name.clone(),
            digest: deployment.digest,
            generation: deployment.generation.load(Ordering::Relaxed),
            state,
            reason: None,
            version: Some(deployment.route.clone()),
            signed: Some(deployment.provenance.clone()),
            candidate: deployment.candidate.clone(),
        }
    }
}
