//! What the last snapshots came to, for whoever asks: what serves, what was refused and why, what is kept warm. Published whole
//! after each change, so that a lane reads it without a lock.

use crate::{Deployment, Standing};
use flyball_core::Digest;
use serde::Serialize;
use std::sync::atomic::Ordering;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Applied {
    /// What this server takes releases for.
    pub environment: String,
    /// Of the last snapshot that was taken; 0 before the first.
    pub generation: u64,
    /// Why a later one was refused as a whole.
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
    /// The one for callers who name none; not known of what was refused.
    pub version: Option<String>,
    pub signed: Option<Standing>,
    /// What is tried beside it.
    pub candidate: Option<Tried>,
}

/// A candidate: its models, and how many of the requests they get.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    pub versions: Vec<String>,
    /// From 0 to 1.
    pub share: f64,
    /// It runs beside all of them, whatever its share, and answers none.
    pub shadow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It serves.
    Applied,
    /// It would serve, and must not; what served before goes on, unless it was revoked.
    Refused,
    /// It served before, and can at once again.
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
            signed: Some(deployment.standing.clone()),
            candidate: deployment.tried.clone(),
        }
    }
}
