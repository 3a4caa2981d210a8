//! Sharing a lane's surplus with idle homes of the model. A single HTTP/2 connection belongs to one lane; without
//! this, the others would stand idle while that one runs everything.
//!
//! The split aims at equal CPU time: the lane that owns the sockets also parses and answers, so it keeps fewer rows.

use crate::Lane;
use flyball_core::Sink;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

/// Waking another lane costs some ten microseconds; less work than this is not worth it.
const SHARE_MIN: Duration = Duration::from_micros(50);

pub(crate) fn share<S: Sink>(lane: &Lane<S>) {
    let mut queue = lane.queue.borrow_mut();
    let Some((model, rows)) = queue.next() else { return };
    let row = model.cost(rows) / u32::try_from(rows).unwrap_or(u32::MAX).max(1);
    if row * u32::try_from(rows / 2).unwrap_or(u32::MAX) < SHARE_MIN {
        return;
    }
    let idle: Vec<usize> =
        model.homes().filter(|&home| home != lane.id && lane.plane.load_ns(home) == 0).collect();
    let give = rows_to_give(rows, row, lane.socket_cost.row(), idle.len());
    if row * u32::try_from(give).unwrap_or(u32::MAX) < SHARE_MIN {
        return;
    }
    for home in idle {
        for job in queue.give(give) {
            let cost_ns = job.cost_ns;
            match lane.plane.send(home, job) {
                Ok(()) => lane.finished(cost_ns),
                // Its inbox filled up meanwhile. What was taken out fits in again, there is one place free for it.
                Err(job) => drop(queue.push(job)),
            }
        }
    }
}

/// How many rows each of `idle` lanes gets, so that all lanes, this one with its sockets, work equally long.
fn rows_to_give(rows: usize, row: Duration, socket: Duration, idle: usize) -> usize {
    if idle == 0 || row.is_zero() {
        return 0;
    }
    let whole = rows as f64 * (row + socket).as_secs_f64();
    let each = whole / (idle + 1) as f64 / row.as_secs_f64();
    (each as usize).min(rows / idle)
}

/// What this lane's sockets cost it for each row, beside running models: measured by the thread's CPU time. The clock
/// is read only when sharing is considered, because it is a system call.
#[derive(Default)]
pub(crate) struct SocketCost {
    since_cpu: Cell<Duration>,
    since_ran: Cell<Duration>,
    since_rows: Cell<usize>,
    row: Cell<Duration>,
}

impl SocketCost {
    pub(crate) fn ran(&self, took: Duration, rows: usize) {
        self.since_ran.set(self.since_ran.get() + took);
        self.since_rows.set(self.since_rows.get() + rows);
    }

    /// The cost of a row, smoothed over past readings.
    fn row(&self) -> Duration {
        const ROWS_MIN: usize = 16;
        if self.since_rows.get() >= ROWS_MIN {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            let cpu = Duration::try_from(time).unwrap_or_default();
            let beside = cpu.saturating_sub(self.since_cpu.get()).saturating_sub(self.since_ran.get());
            let row = beside / u32::try_from(self.since_rows.get()).unwrap_or(u32::MAX);
            self.row.set((self.row.get() * 7 + row) / 8);
            self.since_cpu.set(cpu);
            self.since_ran.set(Duration::ZERO);
            self.since_rows.set(0);
        }
        self.row.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_socket_work_the_rows_are_split_evenly() {
        let us = Duration::from_micros;
        assert_eq!(rows_to_give(32, us(50), us(0), 1), 16);
        assert_eq!(rows_to_give(32, us(50), us(0), 3), 8);
    }

    #[test]
    fn the_lane_with_the_sockets_keeps_fewer_rows() {
        let us = Duration::from_micros;
        assert_eq!(rows_to_give(32, us(50), us(10), 1), 19);
        assert_eq!(rows_to_give(32, us(10), us(50), 1), 32);
    }

    #[test]
    fn nothing_is_given_when_nobody_is_idle_or_nothing_is_known() {
        assert_eq!(rows_to_give(32, Duration::from_micros(50), Duration::ZERO, 0), 0);
        assert_eq!(rows_to_give(32, Duration::ZERO, Duration::ZERO, 1), 0);
    }
}
