//! Judging what serves by what is trusted now. A release that ended is no reason to stop answering; what somebody revoked is:
//! it gives way to what is still warm and good, or to nothing.

use super::ack::{log, refused_ack};
use super::{Changing, Deployment, Loader};
use crate::judge::words;
use crate::loaded::Origin;
use flyball_core::snapshot::IndexEntry;
use flyball_signing::Refused;
use std::sync::Arc;

impl<M: Send + Sync + 'static> Loader<M> {
    /// Judges what serves. What was revoked is taken out; what would be refused otherwise goes on, as the last good state that
    /// there is. Both are told as refused. Does not wait for a load that is under way.
    pub fn judge_again(&self) {
        let held = self.hold();
        let index = self.asked_for.load_full();
        let (entries, generation) =
            index.as_deref().map_or((&[][..], 0), |index| (index.deployments.as_slice(), index.generation));
        let routes = self.plane.routes.load_full();
        for serving in routes.deployments() {
            let asked_for =
                |entry: &&IndexEntry| entry.name == serving.name && entry.digest == serving.digest;
            let asked_for = entries.iter().find(asked_for);
            match (self.judged(serving), asked_for) {
                (Err(refused), _) if refused.revokes() => {
                    self.withdraw(&held, serving, generation, &words(&refused));
                }
                // Something newer was refused; that stays told.
                (_, None) => {}
                (Ok(()), Some(_)) => self.behind().served(&serving.name),
                (Err(refused), Some(entry)) => {
                    let reason = words(&refused);
                    self.behind().refuse(entry, generation, &reason);
                    log(&refused_ack(entry, &reason));
                }
            }
        }
        self.tell(&held, None, None);
    }

    /// What goes on because something newer was refused must not have been revoked itself.
    pub(super) fn withdraw_revoked(&self, held: &Changing<'_>, name: &str, generation: u64) {
        let routes = self.plane.routes.load_full();
        let Some(serving) = routes.get(name) else { return };
        if let Some(refused) = self.judged(serving).err().filter(Refused::revokes) {
            self.withdraw(held, serving, generation, &words(&refused));
        }
    }

    pub(super) fn judged(&self, deployment: &Deployment<M>) -> Result<(), Refused> {
        match deployment.origin.as_deref() {
            Some(Origin { document, base }) => self.judge.deployment(document, base).map(drop),
            None => Ok(()),
        }
    }

    fn withdraw(&self, held: &Changing<'_>, revoked: &Arc<Deployment<M>>, generation: u64, reason: &str) {
        let (name, version) = (&revoked.name, &revoked.route);
        let warm = self.behind().take_all(name);
        let (mut good, bad): (Vec<_>, Vec<_>) = warm.into_iter().partition(|warm| self.judged(warm).is_ok());
        let instead = (!good.is_empty()).then(|| good.remove(0));
        // The oldest goes in first, so that the last that served is the first again.
        good.into_iter().rev().for_each(|warm| self.replace(warm));
        let serves_now = instead.as_ref().map(|instead| instead.route.clone());
        tracing::error!(
            deployment = name,
            version,
            reason,
            serves_now,
            "what serves was revoked: it is taken out of service"
        );
        let entry = IndexEntry { name: name.clone(), digest: revoked.digest };
        self.behind().refuse(&entry, generation, reason);
        let gone = self.change(held, |routes| match instead {
            Some(instead) => routes.serve(instead),
            None => routes.withdraw(name, reason),
        });
        gone.into_iter().chain(bad).for_each(|gone| self.chores.reap(gone));
    }
}
