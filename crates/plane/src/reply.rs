//! Returns a run's result to the walk that waits for it, possibly on another lane. Like a one-shot channel, but reused: in
//! steady state a request allocates none.

use crate::admission::Permit;
use crate::batch::Ran;
use atomic_waker::AtomicWaker;
use flyball_core::{Fault, FaultKind, Stage};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// A run's result with the permit under which it ran, or its fault.
pub(crate) type Answered = Result<(Ran, Permit), Fault>;

#[derive(Default)]
struct Slot {
    result: Mutex<Option<Answered>>,
    waker: AtomicWaker,
    /// The walk was dropped, so the answer is not read.
    given_up: AtomicBool,
    /// The job left for another lane.
    moved: AtomicBool,
}

/// A lane's slots that are free for reuse.
#[derive(Default)]
pub(crate) struct Slots(RefCell<Vec<Arc<Slot>>>);

/// More than the usual number of waiting requests; further slots are freed.
const SLOTS_KEPT_MAX: usize = 1024;

impl Slots {
    pub(crate) fn pair(&self) -> (Promise, Waiting<'_>) {
        let slot = self.0.borrow_mut().pop().unwrap_or_default();
        (Promise(Some(Arc::clone(&slot))), Waiting { slot, slots: self })
    }
}

/// The job's end: answers once. If dropped without an answer, it answers with a fault.
pub(crate) struct Promise(Option<Arc<Slot>>);

impl Promise {
    pub(crate) fn wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| !slot.given_up.load(Ordering::Relaxed))
    }

    /// Notifies the walk that its job moves to another lane.
    pub(crate) fn moves(&self) {
        if let Some(slot) = &self.0 {
            slot.moved.store(true, Ordering::Release);
            slot.waker.wake();
        }
    }

    pub(crate) fn answer(mut self, result: Answered) {
        self.settle(result);
    }

    fn settle(&mut self, result: Answered) {
        if let Some(slot) = self.0.take() {
            *slot.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            slot.waker.wake();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.0.is_some() {
            let text = "the lane that ran the model went away";
            self.settle(Err(Fault::new(FaultKind::Panicked, Stage::Infer, text)));
        }
    }
}

/// The walk's end: a future of the answer.
pub(crate) struct Waiting<'s> {
    slot: Arc<Slot>,
    slots: &'s Slots,
}

impl Waiting<'_> {
    /// The answer, or `None` once the job has moved to another lane, which may hang.
    pub(crate) async fn unless_moved(&mut self) -> Option<Answered> {
        poll_fn(|context| match Pin::new(&mut *self).poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if self.slot.moved.load(Ordering::Acquire) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Future for Waiting<'_> {
    type Output = Answered;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let take = || self.slot.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(result) = take() {
            return Poll::Ready(result);
        }
        self.slot.waker.register(context.waker());
        // The answer may have come between the check and the registration.
        take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut kept = self.slots.0.borrow_mut();
        if Arc::strong_count(&self.slot) == 1 && kept.len() < SLOTS_KEPT_MAX {
            *self.slot.result.lock().unwrap_or_else(PoisonError::into_inner) = None;
            drop(self.slot.waker.take());
            self.slot.moved.store(false, Ordering::Relaxed);
            kept.push(Arc::clone(&self.slot));
        } else {
            self.slot.given_up.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Gate;
    use crate::batch::Place;
    use flyball_core::Nanos;

    fn ran() -> (Ran, Permit) {
        let place = || Gate::new(1).try_enter().unwrap();
        let permit = Permit { _server: place(), _deployment: place() };
        (
            Ran { outputs: Vec::new(), began: Nanos(1), ended: Nanos(2), batch: Place { rows: 1, first: 0 } },
            permit,
        )
    }

    #[tokio::test]
    async fn an_answer_arrives_from_another_thread_and_its_slot_is_used_again() {
        let slots = Slots::default();
        for _ in 0..3 {
            let (promise, waiting) = slots.pair();
            let thread = std::thread::spawn(move || promise.answer(Ok(ran())));
            assert_eq!(waiting.await.unwrap().0.ended, Nanos(2));
            thread.join().unwrap();
        }
        let (promise, waiting) = slots.pair();
        promise.answer(Ok(ran()));
        assert!(waiting.await.is_ok());
        assert!(!slots.0.borrow().is_empty());
    }

    #[tokio::test]
    async fn a_promise_that_is_dropped_is_a_fault_and_a_walk_that_left_is_seen() {
        let slots = Slots::default();
        let (promise, waiting) = slots.pair();
        drop(promise);
        assert_eq!(waiting.await.unwrap_err().kind, FaultKind::Panicked);
        let (promise, waiting) = slots.pair();
        assert!(promise.wanted());
        drop(waiting);
        assert!(!promise.wanted());
        promise.answer(Ok(ran()));
        assert!(slots.0.borrow().len() <= 1, "a slot that somebody still holds is not used again");
    }
}
