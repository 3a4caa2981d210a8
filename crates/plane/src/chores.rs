//! Threads for what must not happen on a lane. One measures how long a new model's runs take, whenever nobody else wants the
//! core. The other drops the last reference to an old model, and gives free memory back: that holds the allocator's locks,
//! which a lane may want, so its thread must always come to its end soon, however busy the lanes are.

use crate::{Deployment, Model};
use flyball_engine::Surveyor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A model that waits for its survey.
struct Survey<M>(Surveyor, Arc<Model<M>>);

enum Clean<M> {
    Reap(Arc<Deployment<M>>),
    /// A survey is over, and its memory free.
    Surveyed,
}

const CHORES_MAX: usize = 4096;
const REAP_POLL: Duration = Duration::from_millis(20);

/// Owner of the threads; dropping it ends and joins them.
pub(crate) struct Chores<M: Send + Sync + 'static> {
    surveys: Option<SyncSender<Survey<M>>>,
    cleaning: Option<SyncSender<Clean<M>>>,
    threads: Vec<JoinHandle<()>>,
    leaving: Arc<AtomicBool>,
}

impl<M: Send + Sync + 'static> Chores<M> {
    pub(crate) fn start() -> std::io::Result<Chores<M>> {
        let (surveys, surveys_in) = sync_channel(CHORES_MAX);
        let (cleaning, cleaning_in) = sync_channel(CHORES_MAX);
        let leaving = Arc::new(AtomicBool::new(false));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (surveyed, seen) = (cleaning.clone(), Arc::clone(&leaving));
        let surveyor = thread("survey").spawn(move || survey(&surveys_in, &surveyed, &seen))?;
        let seen = Arc::clone(&leaving);
        let cleaner = thread("clean").spawn(move || clean(&cleaning_in, &seen))?;
        let threads = vec![surveyor, cleaner];
        Ok(Chores { surveys: Some(surveys), cleaning: Some(cleaning), threads, leaving })
    }

    /// Waits when the list is full, as `reap` does: the sender is a loader, which has time, never a lane.
    pub(crate) fn survey(&self, surveyor: Surveyor, model: Arc<Model<M>>) {
        if let Some(surveys) = &self.surveys {
            let _ = surveys.send(Survey(surveyor, model));
        }
    }

    pub(crate) fn reap(&self, deployment: Arc<Deployment<M>>) {
        if let Some(cleaning) = &self.cleaning {
            let _ = cleaning.send(Clean::Reap(deployment));
        }
    }
}

impl<M: Send + Sync + 'static> Drop for Chores<M> {
    fn drop(&mut self) {
        // A server that leaves must not wait for the surveys of a thousand models.
        self.leaving.store(true, Ordering::Relaxed);
        (self.surveys, self.cleaning) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn survey<M>(surveys: &Receiver<Survey<M>>, cleaning: &SyncSender<Clean<M>>, leaving: &AtomicBool) {
    flyball_engine::give_way();
    let leaves = || leaving.load(Ordering::Relaxed);
    while let Ok(Survey(surveyor, model)) = surveys.recv() {
        if leaves() {
            return;
        }
        surveyor.survey(model.latency(), &leaves);
        let _ = cleaning.send(Clean::Surveyed);
    }
}

fn clean<M>(cleaning: &Receiver<Clean<M>>, leaving: &AtomicBool) {
    flyball_engine::be_nice();
    let mut old: Vec<Arc<Deployment<M>>> = Vec::new();
    while !leaving.load(Ordering::Relaxed) {
        let next = if old.is_empty() {
            cleaning.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            cleaning.recv_timeout(REAP_POLL)
        };
        let mut free = false;
        match next {
            Ok(Clean::Reap(deployment)) => old.push(deployment),
            Ok(Clean::Surveyed) => free = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let before = old.len();
        old.retain(in_use);
        if free || old.len() < before {
            flyball_engine::give_back();
        }
    }
}

/// Jobs in flight hold their model, and requests their decision; once only the caller does, dropping it there is the last.
pub(crate) fn in_use<M>(deployment: &Arc<Deployment<M>>) -> bool {
    let decision = deployment.decision.as_ref();
    let own = |model: &Arc<Model<M>>| {
        let models = decision.map_or(&[][..], |decision| &decision.models);
        let tried = deployment.trial.iter().map(|trial| &trial.model);
        1 + models.iter().chain(tried).filter(|other| Arc::ptr_eq(model, other)).count()
    };
    Arc::strong_count(deployment) > 1
        || decision.is_some_and(|decision| Arc::strong_count(decision) > 1)
        || deployment.versions.iter().any(|model| Arc::strong_count(model) > own(model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Trial;
    use crate::testing::Made;
    use flyball_core::Digest;

    #[test]
    fn a_deployment_is_in_use_while_a_job_holds_a_model_of_it_also_where_that_is_tried() {
        let mut deployment = Made::usual().deployment("m", Digest::of(b"m"));
        let job = Arc::clone(&deployment.versions[0]);
        deployment.trial = Some(Trial { model: Arc::clone(&job), share: 0.5 });
        let deployment = Arc::new(deployment);
        assert!(in_use(&deployment));
        drop(job);
        assert!(!in_use(&deployment));
        let _request = Arc::clone(&deployment);
        assert!(in_use(&deployment));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn surveys_run_when_nobody_wants_the_core_and_what_may_hold_an_allocator_s_lock_always_gets_time() {
        static LEAVING: AtomicBool = AtomicBool::new(false);
        const USUAL: &str = "0";
        const IDLE: &str = "5";
        // The nice value and the policy of the calling thread.
        let scheduling = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            (fields[16].to_owned(), fields[38].to_owned())
        };
        let (cleaning, cleaning_in) = sync_channel::<Clean<()>>(1);
        let surveys_in = sync_channel::<Survey<()>>(1).1;
        let surveyor = std::thread::spawn(move || {
            survey(&surveys_in, &cleaning, &LEAVING);
            scheduling()
        });
        assert_eq!(surveyor.join().unwrap().1, IDLE);
        let cleaner = std::thread::spawn(move || {
            clean(&cleaning_in, &LEAVING);
            scheduling()
        });
        assert_eq!(cleaner.join().unwrap(), ("19".to_owned(), USUAL.to_owned()));
    }
}
