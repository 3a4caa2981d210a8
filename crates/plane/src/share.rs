//! Sharing a lane's surplus with other homes of the model that have less to do. A single HTTP/2 connection belongs to
//! one lane; without this, the others would stand idle while that one runs everything.
//!
//! The split aims at equal CPU time: the lane that owns the sockets also parses and answers, so it keeps fewer rows.

use crate::Lane;
use crate::queue::Job;
use flyball_core::Sink;
use rustix::time::{ClockId, clock_gettime};
use smallvec::SmallVec;
use std::cell::Cell;
use std::time::Duration;

/// Waking another lane costs some ten microseconds; less work than this is not worth it.
const SHARE_MIN_NS: u64 = 50_000;

pub(crate) fn share<S: Sink>(lane: &Lane<S>) {
    let mut queue = lane.queue.borrow_mut();
    let Some((model, rows)) = queue.next() else { return };
    let row = model.row_cost();
    if model.runners.len() < 2 || nanos(row).saturating_mul(rows as u64) < 2 * SHARE_MIN_NS {
        return;
    }
    let others: SmallVec<[(usize, u64); 8]> =
        model.homes().filter(|&home| home != lane.id).map(|home| (home, lane.plane.load_ns(home))).collect();
    let sockets = nanos(lane.socket_cost.row()).saturating_mul(rows as u64);
    let own = lane.plane.load_ns(lane.id).saturating_add(sockets);
    let level = level(own, others.iter().map(|(_, load)| *load));
    for (home, load) in others {
        let gap = level.saturating_sub(load);
        if gap < SHARE_MIN_NS {
            continue;
        }
        for job in queue.give(usize::try_from(gap / nanos(row).max(1)).unwrap_or(usize::MAX)) {
            let cost_ns = job.cost_ns;
            match lane.plane.send(home, Job { moved: true, ..job }) {
                Ok(()) => lane.finished(cost_ns),
                // Its inbox filled up meanwhile. What was taken out fits in again: its place is still free.
                Err(job) => drop(queue.push(Job { moved: false, ..job })),
            }
        }
    }
}

/// The load that each lane would have if all were equal. Lanes above it cannot be helped and are left out.
fn level(own: u64, others: impl Iterator<Item = u64> + Clone) -> u64 {
    let mut level = u64::MAX;
    loop {
        let below = others.clone().filter(|&load| load < level);
        let (sum, lanes) = below.fold((own, 1), |(sum, lanes), load| (sum.saturating_add(load), lanes + 1));
        let next = sum / lanes;
        if next >= level {
            return level;
        }
        level = next;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
    /// A run on this lane, by what it is known to cost: its time on the wall would count who else had the core.
    pub(crate) fn ran(&self, cost: Duration) {
        self.since_ran.set(self.since_ran.get() + cost);
    }

    /// Rows that came in on this lane's own sockets, wherever they will run.
    pub(crate) fn accepted(&self, rows: usize) {
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
    fn the_level_is_the_mean_of_the_lanes_that_can_take_something() {
        assert_eq!(level(100, [0].into_iter()), 50);
        assert_eq!(level(90, [0, 30].into_iter()), 40);
        assert_eq!(level(100, [0, 1000].into_iter()), 50, "a lane above the level takes nothing");
        assert_eq!(level(100, [].into_iter()), 100, "alone, all of it is its own");
    }

    #[test]
    fn a_lane_below_all_others_gives_nothing_away() {
        assert!([500, 700].into_iter().all(|load| level(100, [500, 700].into_iter()) <= load));
    }
}
