//! The status of deployments: what serves, what was refused and why, what is kept warm. Published whole after each change, so
//! that a lane reads it without a lock.

use flyball_core::Digest;
use flyball_plane::{CandidateState, Deployment, Provenance};
use serde::Serialize;
use std::sync::atomic::Ordering;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Applied {
    /// The environment whose releases this server takes.
    pub environment: String,
    /// Of the last applied snapshot; 0 before the first.
    pub generation: u64,
    /// Why a later snapshot was refused as a whole.
    pub refused: Option<String>,
    /// By name; of one name, what serves comes first.
    pub deployments: Vec<DeploymentState>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DeploymentState {
    pub name: String,
    /// Of its document.
    pub digest: Digest,
    /// Of the last snapshot that asked for it.
    pub generation: u64,
    pub state: State,
    pub reason: Option<String>,
    /// The version for callers who name none; unknown for what was refused.
    pub version: Option<String>,
    pub signed: Option<Provenance>,
    pub candidate: Option<CandidateState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It serves.
    Applied,
    /// It must not serve; its predecessor goes on, unless that was revoked.
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
