//! The thread for what must not happen on a lane: measuring how long a new model's runs take, and dropping the last
//! reference to an old one (which gives its memory back, and takes a while).

use crate::{Deployment, Model};
use flyball_engine::Surveyor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

enum Chore<M> {
    Survey(Box<Surveyor>, Arc<Model<M>>),
    Reap(Arc<Deployment<M>>),
}

const CHORES_MAX: usize = 4096;
const REAP_POLL: Duration = Duration::from_millis(20);

/// Owner of the thread; dropping it ends and joins the thread.
pub(crate) struct Chores<M: Send + Sync + 'static> {
    list: Option<SyncSender<Chore<M>>>,
    thread: Option<JoinHandle<()>>,
    leaving: Arc<AtomicBool>,
}

impl<M: Send + Sync + 'static> Chores<M> {
    pub(crate) fn start() -> std::io::Result<Chores<M>> {
        let (list, chores) = sync_channel(CHORES_MAX);
        let leaving = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&leaving);
        let thread =
            std::thread::Builder::new().name("chores".to_owned()).spawn(move || work(&chores, &seen))?;
        Ok(Chores { list: Some(list), thread: Some(thread), leaving })
    }

    pub(crate) fn survey(&self, surveyor: Surveyor, model: Arc<Model<M>>) {
        self.send(Chore::Survey(Box::new(surveyor), model));
    }

    pub(crate) fn reap(&self, deployment: Arc<Deployment<M>>) {
        self.send(Chore::Reap(deployment));
    }

    /// Waits when the list is full: the sender is a loader, which has time, never a lane.
    fn send(&self, chore: Chore<M>) {
        if let Some(list) = &self.list {
            let _ = list.send(chore);
        }
    }
}

impl<M: Send + Sync + 'static> Drop for Chores<M> {
    fn drop(&mut self) {
        // A server that leaves must not wait for the surveys of a thousand models.
        self.leaving.store(true, Ordering::Relaxed);
        self.list = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work<M>(chores: &Receiver<Chore<M>>, leaving: &AtomicBool) {
    flyball_engine::give_way();
    let mut old: Vec<Arc<Deployment<M>>> = Vec::new();
    while !leaving.load(Ordering::Relaxed) {
        let chore = if old.is_empty() {
            chores.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            chores.recv_timeout(REAP_POLL)
        };
        match chore {
            Ok(Chore::Survey(surveyor, model)) => {
                surveyor.survey(model.latency(), &|| leaving.load(Ordering::Relaxed));
                flyball_engine::give_back();
            }
            Ok(Chore::Reap(deployment)) => old.push(deployment),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Jobs in flight hold their model; once only this thread does, dropping it here is the last.
        let in_use = |model: &Arc<Model<M>>| Arc::strong_count(model) > 1;
        let before = old.len();
        old.retain(|deployment| Arc::strong_count(deployment) > 1 || deployment.versions.iter().any(in_use));
        if old.len() < before {
            flyball_engine::give_back();
        }
    }
}
