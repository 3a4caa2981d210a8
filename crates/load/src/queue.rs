//! A queue between due requests and connections, local to one thread.
//!
//! Free connections get requests in the order in which they became free; requests wait if none is.

use crate::session::Ticket;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// Maximum waiting requests of a run. A server that stalls for half a second at 100,000/s stays within it.
pub(crate) const BACKLOG_MAX: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Queue {
    backlog: VecDeque<Ticket>,
    backlog_max: usize,
    seats: Vec<Slot>,
    /// Slots of free connections, longest first.
    free: VecDeque<usize>,
    closed: bool,
}

/// A connection's slot: its request, and how to wake it.
#[derive(Debug, Default)]
struct Slot {
    ticket: Option<Ticket>,
    waker: Option<Waker>,
    waits: bool,
}

impl Queue {
    pub(crate) fn new(seats: usize, backlog_max: usize) -> Queue {
        Queue {
            backlog: VecDeque::new(),
            backlog_max,
            seats: (0..seats).map(|_| Slot::default()).collect(),
            free: VecDeque::with_capacity(seats),
            closed: false,
        }
    }

    /// Gives a request to a free connection or queues it; returns it if the queue is full.
    pub(crate) fn offer(&mut self, sequence: u64, due: Instant) -> Result<(), Ticket> {
        let mut ticket = Ticket { sequence, due, prompt: false };
        if let Some(place) = self.free.pop_front() {
            ticket.prompt = true;
            let seat = &mut self.seats[place];
            seat.ticket = Some(ticket);
            seat.waits = false;
            if let Some(waker) = &seat.waker {
                waker.wake_by_ref();
            }
        } else if self.backlog.len() < self.backlog_max {
            self.backlog.push_back(ticket);
        } else {
            return Err(ticket);
        }
        Ok(())
    }

    /// The next request for a slot; `None` once the queue is closed and empty.
    pub(crate) fn poll(&mut self, place: usize, context: &Context<'_>) -> Poll<Option<Ticket>> {
        let seat = &mut self.seats[place];
        if let Some(ticket) = seat.ticket.take().or_else(|| self.backlog.pop_front()) {
            return Poll::Ready(Some(ticket));
        }
        if self.closed {
            return Poll::Ready(None);
        }
        if !seat.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            seat.waker = Some(context.waker().clone());
        }
        if !seat.waits {
            seat.waits = true;
            self.free.push_back(place);
        }
        Poll::Pending
    }

    /// Stops accepting; queued requests may still be taken.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.seats.iter().filter_map(|seat| seat.waker.as_ref()).for_each(Waker::wake_by_ref);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn take_backlog(&mut self) -> VecDeque<Ticket> {
        std::mem::take(&mut self.backlog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(queue: &mut Queue, seat: usize) -> Option<Option<u64>> {
        match queue.poll(seat, &Context::from_waker(Waker::noop())) {
            Poll::Ready(ticket) => Some(ticket.map(|ticket| ticket.sequence)),
            Poll::Pending => None,
        }
    }

    #[test]
    fn free_connections_are_served_in_turn_and_requests_in_order() {
        let mut queue = Queue::new(2, 10);
        for seat in [1, 0, 1] {
            assert_eq!(poll(&mut queue, seat), None);
        }
        (0..4).for_each(|sequence| queue.offer(sequence, Instant::now()).expect("room"));
        let taken = [0, 1, 0, 1, 0].map(|seat| poll(&mut queue, seat));
        assert_eq!(taken, [Some(Some(1)), Some(Some(0)), Some(Some(2)), Some(Some(3)), None]);
    }

    #[test]
    fn only_what_found_a_free_connection_is_prompt_and_a_full_backlog_turns_away() {
        let mut queue = Queue::new(1, 1);
        let now = Instant::now();
        assert_eq!(poll(&mut queue, 0), None);
        assert!((0..2).all(|sequence| queue.offer(sequence, now).is_ok()));
        assert!(queue.offer(2, now).is_err_and(|ticket| ticket.sequence == 2));
        let mut take = || queue.poll(0, &Context::from_waker(Waker::noop()));
        assert!(matches!(take(), Poll::Ready(Some(Ticket { sequence: 0, prompt: true, .. }))));
        assert!(matches!(take(), Poll::Ready(Some(Ticket { sequence: 1, prompt: false, .. }))));
    }

    #[test]
    fn a_closed_queue_gives_what_waits_and_then_nothing() {
        let mut queue = Queue::new(2, 1);
        assert_eq!(poll(&mut queue, 0), None);
        (0..2).for_each(|sequence| queue.offer(sequence, Instant::now()).expect("room"));
        queue.close();
        let taken = [1, 0, 0].map(|seat| poll(&mut queue, seat));
        assert_eq!(taken, [Some(Some(1)), Some(Some(0)), Some(None)]);
    }
}
