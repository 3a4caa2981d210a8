//! The result of a snapshot: one acknowledgement for each deployment, and its log lines.

use crate::states::{Applied, DeploymentState, State};
use flyball_core::Digest;
use flyball_core::snapshot::IndexEntry;
use flyball_engine::Batching;
use flyball_plane::{Deployment, Provenance};
use serde::Serialize;

/// The result for one deployment of a snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct Ack {
    pub name: String,
    pub digest: Digest,
    pub state: AckState,
    pub reason: Option<String>,
    pub versions: Vec<VersionAck>,
    /// Its signature and approvers; none if it was refused.
    pub signed: Option<Provenance>,
}

/// The result of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub acks: Vec<Ack>,
    /// Why the whole snapshot was refused, if it was.
    pub refused: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AckState {
    Applied,
    Kept,
    Removed,
    Refused,
}

#[derive(Clone, Debug, Serialize)]
pub struct VersionAck {
    pub version: String,
    pub batching: Batching,
}

pub(super) fn ack<M>(deployment: &Deployment<M>, state: AckState) -> Ack {
    let versions = deployment
        .versions
        .iter()
        .map(|model| VersionAck { version: model.version.to_string(), batching: model.batching.clone() });
    Ack {
        name: deployment.name.clone(),
        digest: deployment.digest,
        state,
        reason: None,
        versions: versions.collect(),
        signed: Some(deployment.provenance.clone()),
    }
}

pub(super) fn refused_ack(entry: &IndexEntry, reason: &str) -> Ack {
    let IndexEntry { name, digest } = entry.clone();
    let reason = Some(reason.to_owned());
    Ack { name, digest, state: AckState::Refused, reason, versions: Vec::new(), signed: None }
}

/// Logs a changed deployment, with the batching that its callers will notice.
pub(super) fn log(ack: &Ack) {
    let (deployment, digest) = (&ack.name, &ack.digest);
    match ack.state {
        AckState::Kept => tracing::debug!(deployment, %digest, "deployment kept"),
        AckState::Removed => tracing::info!(deployment, %digest, "deployment removed"),
        AckState::Refused => tracing::error!(deployment, %digest, reason = ack.reason, "deployment refused"),
        AckState::Applied => {
            for VersionAck { version, batching } in &ack.versions {
                let (batch_rows_max, batch_reason) = (batching.rows_max, batching.reason.as_deref());
                tracing::info!(deployment, %digest, version, batch_rows_max, batch_reason, "deployment applied");
            }
        }
    }
}

/// Logs a `whole` snapshot, and warns if unsigned deployments serve.
pub(super) fn log_applied(applied: &Applied, whole: bool) {
    let count = |state| applied.deployments.iter().filter(|deployment| deployment.state == state).count();
    let (serving, refused, warm) = (count(State::Applied), count(State::Refused), count(State::Warm));
    let (generation, environment) = (applied.generation, &applied.environment);
    if whole {
        tracing::info!(generation, environment, serving, refused, warm, "snapshot applied");
    }
    let unsigned = |deployment: &&DeploymentState| {
        deployment.state == State::Applied && deployment.signed == Some(Provenance::Unsigned)
    };
    let unsigned: Vec<_> = applied.deployments.iter().filter(unsigned).collect();
    if let Some(first) = unsigned.first() {
        let (deployments, first) = (unsigned.len(), &first.name);
        tracing::warn!(
            deployments,
            first,
            "unsigned deployments are serving, because this server allows them"
        );
    }
}
