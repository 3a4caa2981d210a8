//! Two background threads. One surveys new models' run times while the core is idle. The other drops old deployments and returns
//! free memory: it holds the allocator's locks, which a lane may need, so it must always get CPU time.

use flyball_engine::{NativeTrees, Surveyor};
use flyball_plane::{Deployment, Model};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// A model to be surveyed. On a busy machine it waits long, which must not keep a removed model alive.
struct Survey<M>(Surveyor, Weak<Model<M>>);

enum Clean<M> {
    Reap(Arc<Deployment<M>>),
    /// A survey has ended, and its memory is free.
    Surveyed,
}

const WAITING_MAX: usize = 4096;
const REAP_POLL: Duration = Duration::from_millis(20);
/// Maximum time of a survey. It takes a third of a second, and many times that on a busy machine.
const SURVEY_MAX: Duration = Duration::from_secs(120);

/// The two threads; dropping it ends and joins them.
pub(crate) struct Reaper<M: Send + Sync + 'static> {
    surveys: Option<SyncSender<Survey<M>>>,
    cleaning: Option<SyncSender<Clean<M>>>,
    threads: Vec<JoinHandle<()>>,
    leaving: Arc<AtomicBool>,
}

impl<M: Send + Sync + 'static> Reaper<M> {
    pub(crate) fn start() -> std::io::Result<Reaper<M>> {
        let (surveys, surveys_in) = sync_channel(WAITING_MAX);
        let (cleaning, cleaning_in) = sync_channel(WAITING_MAX);
        let leaving = Arc::new(AtomicBool::new(false));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (surveyed, seen) = (cleaning.clone(), Arc::clone(&leaving));
        let surveyor = thread("survey").spawn(move || survey(&surveys_in, &surveyed, seen))?;
        let seen = Arc::clone(&leaving);
        let cleaner = thread("clean").spawn(move || clean(&cleaning_in, &seen))?;
        let threads = vec![surveyor, cleaner];
        Ok(Reaper { surveys: Some(surveys), cleaning: Some(cleaning), threads, leaving })
    }

    /// Blocks while the queue is full, like `reap`: only a loader calls it, never a lane.
    pub(crate) fn survey(&self, surveyor: Surveyor, model: &Arc<Model<M>>) {
        if let Some(surveys) = &self.surveys {
            let _ = surveys.send(Survey(surveyor, Arc::downgrade(model)));
        }
    }

    pub(crate) fn reap(&self, deployment: Arc<Deployment<M>>) {
        if let Some(cleaning) = &self.cleaning {
            let _ = cleaning.send(Clean::Reap(deployment));
        }
    }
}

impl<M: Send + Sync + 'static> Drop for Reaper<M> {
    fn drop(&mut self) {
        // A leaving server must not wait for the surveys of a thousand models.
        self.leaving.store(true, Ordering::Relaxed);
        (self.surveys, self.cleaning) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn survey<M: Send + Sync + 'static>(
    surveys: &Receiver<Survey<M>>,
    cleaning: &SyncSender<Clean<M>>,
    leaving: Arc<AtomicBool>,
) {
    flyball_engine::set_idle_policy();
    while let Ok(survey) = surveys.recv() {
        if leaving.load(Ordering::Relaxed) {
            return;
        }
        survey_one(survey, Arc::clone(&leaving));
        let _ = cleaning.send(Clean::Surveyed);
    }
}

/// Surveys one model, with a time limit: a model whose runs do not always end must not block the other surveys. Its probe ended
/// in a model host, but a model may behave randomly.
fn survey_one<M: Send + Sync + 'static>(Survey(mut surveyor, model): Survey<M>, leaving: Arc<AtomicBool>) {
    let Some(name) = model.upgrade().map(|model| Arc::clone(&model.name)) else { return };
    let stop = surveyor.stopper();
    let (done, ended) = sync_channel(1);
    let surveyed = Arc::clone(&name);
    let begin = move || {
        let removed = || leaving.load(Ordering::Relaxed) || model.strong_count() == 0;
        if let Some(NativeTrees { on, finding }) = surveyor.prove_trees(&removed) {
            tracing::info!(model = &*surveyed, native = on, finding, "tree model compared");
        }
        if let Some((points, model)) = surveyor.survey(&removed).zip(model.upgrade()) {
            model.latency().fill(points);
        }
        let _ = done.send(());
    };
    // It inherits the idle policy.
    let begun = std::thread::Builder::new().name("timing".to_owned()).spawn(begin);
    if begun.is_ok() && ended.recv_timeout(SURVEY_MAX).is_err() {
        tracing::warn!(
            model = &*name,
            "the survey of the model did not end in time; its latency table stays as it is"
        );
        stop();
    }
}

fn clean<M: Send + Sync>(cleaning: &Receiver<Clean<M>>, leaving: &AtomicBool) {
    flyball_engine::set_lowest_priority();
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
        let unused: Vec<_> = old.extract_if(.., |deployment| !deployment.in_use()).collect();
        if free || !unused.is_empty() {
            drop_apart(unused);
            flyball_engine::give_back();
        }
    }
}

/// Drops models on a thread of their own, which ends then. A thread that lives on caches some of the blocks that it freed
/// (glibc's tcache: up to 448, each on a page of its own), and their pages cannot be returned.
fn drop_apart<T: Send>(unused: Vec<T>) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("drop".to_owned());
        // If no thread can be started, `spawn_scoped` drops them here.
        if let Ok(dropping) = thread.spawn_scoped(scope, || drop(unused)) {
            let _ = dropping.join();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn surveys_run_when_nobody_wants_the_core_and_what_may_hold_an_allocator_s_lock_always_gets_time() {
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
            survey(&surveys_in, &cleaning, Arc::default());
            scheduling()
        });
        assert_eq!(surveyor.join().unwrap().1, IDLE);
        let cleaner = std::thread::spawn(move || {
            clean(&cleaning_in, &AtomicBool::new(false));
            scheduling()
        });
        assert_eq!(cleaner.join().unwrap(), ("19".to_owned(), USUAL.to_owned()));
    }
}
