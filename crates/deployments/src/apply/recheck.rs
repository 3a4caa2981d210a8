//! Verifies serving deployments against the current trust policy. An expired release keeps serving; a revoked one is replaced by
//! a warm deployment that is still valid, or is only removed.

use super::ack::{log, refused_ack};
use super::{Changing, Loader};
use crate::trust_gate::reason;
use flyball_core::snapshot::IndexEntry;
use flyball_plane::{Deployment, Origin};
use flyball_signing::Refused;
use std::sync::Arc;

impl<M: Send + Sync + 'static> Loader<M> {
    /// Withdraws revoked deployments. One that would be refused for another reason keeps serving as the last good state. Both
    /// are listed as refused. Does not wait for a load in progress.
    pub fn recheck(&self) {
        let held = self.hold();
        let index = self.asked_for.load_full();
        let (entries, generation) =
            index.as_deref().map_or((&[][..], 0), |index| (index.deployments.as_slice(), index.generation));
        let routes = self.plane.routes.load_full();
        for serving in routes.deployments() {
            let asked_for =
                |entry: &&IndexEntry| entry.name == serving.name && entry.digest == serving.digest;
            let asked_for = entries.iter().find(asked_for);
            match (self.verify(serving), asked_for) {
                (Err(refused), _) if refused.revokes() => {
                    self.withdraw(&held, serving, generation, &reason(&refused));
                }
                // A newer document was refused, which stays listed.
                (_, None) => {}
                (Ok(()), Some(_)) => self.warm().served(&serving.name),
                (Err(refused), Some(entry)) => {
                    let reason = reason(&refused);
                    self.warm().refuse(entry, generation, &reason);
                    log(&refused_ack(entry, &reason));
                }
            }
        }
        self.publish(&held, None, None);
    }

    /// Withdraws a deployment that would keep serving because its successor was refused, if it is revoked.
    pub(super) fn withdraw_revoked(&self, held: &Changing<'_>, name: &str, generation: u64) {
        let routes = self.plane.routes.load_full();
        let Some(serving) = routes.get(name) else { return };
        if let Some(refused) = self.verify(serving).err().filter(Refused::revokes) {
            self.withdraw(held, serving, generation, &reason(&refused));
        }
    }

    pub(super) fn verify(&self, deployment: &Deployment<M>) -> Result<(), Refused> {
        match deployment.origin.as_deref() {
            Some(Origin { document, base }) => self.gate.deployment(document, base).map(drop),
            None => Ok(()),
        }
    }

    fn withdraw(&self, held: &Changing<'_>, revoked: &Arc<Deployment<M>>, generation: u64, reason: &str) {
        let (name, version) = (&revoked.name, &revoked.route);
        let warm = self.warm().take_all(name);
        let (mut good, bad): (Vec<_>, Vec<_>) = warm.into_iter().partition(|warm| self.verify(warm).is_ok());
        let instead = (!good.is_empty()).then(|| good.remove(0));
        // The oldest first, so that the last that served becomes the first again.
        good.into_iter().rev().for_each(|warm| self.replace(warm));
        let serves_now = instead.as_ref().map(|instead| instead.route.clone());
        tracing::error!(deployment = name, version, reason, serves_now, "a revoked deployment was withdrawn");
        let entry = IndexEntry { name: name.clone(), digest: revoked.digest };
        self.warm().refuse(&entry, generation, reason);
        let gone = self.change(held, |routes| match instead {
            Some(instead) => routes.serve(instead),
            None => routes.withdraw(name, reason),
        });
        gone.into_iter().chain(bad).for_each(|gone| self.reaper.reap(gone));
    }
}
