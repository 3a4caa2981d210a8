//! Shares a lane's surplus jobs with less loaded homes of the model. A single HTTP/2 connection belongs to one lane; without
//! this, the other lanes would idle while that one runs everything.
//!
//! The split aims at equal CPU time: the lane that owns the sockets also parses and answers, so it keeps fewer rows. How many
//! fewer is first estimated from the cost of its sockets, then corrected by the CPU time that the lanes really used.

use crate::job::Job;
use crate::{Lane, Model};
use flyball_core::{Sink, nanos};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// The minimum work worth moving: waking another lane, whose caches are cold, costs some ten microseconds on both sides (8
/// busy lanes with the GBDT: a third more CPU time a request when 0.05 ms were moved).
const SHARE_MIN_NS: u64 = 200_000;
/// Shorter runs are measured in wall time: reading the CPU time is a system call.
const CLOCKED_MIN_NS: u64 = 50_000;

pub(crate) fn share<S: Sink>(lane: &Lane<S>) {
    let mut schedule = lane.schedule.borrow_mut();
    lane.plane.show_shares(lane.id, schedule.shares());
    let Some((next, rows)) = schedule.next() else { return };
    let (model, row_ns) = (Arc::clone(&next.model), row_ns(&next.model, next.scale));
    if model.homes.len() < 2 || row_ns.saturating_mul(rows as u64) < 2 * SHARE_MIN_NS {
        return;
    }
    let homes = lane.plane.homes(&model, lane.has_sockets());
    let mut others: SmallVec<[(usize, u64); 8]> =
        homes.filter(|&home| home != lane.id).map(|home| (home, lane.plane.load_ns(home))).collect();
    if others.is_empty() {
        return;
    }
    let others_cpu_ns =
        others.iter().map(|(home, _)| lane.plane.cpu_ns(*home)).sum::<u64>() / others.len() as u64;
    lane.socket_cost.lean_against(lane.plane.cpu_ns(lane.id), others_cpu_ns);
    let sockets = nanos(lane.socket_cost.row(lane.plane.thread_time)).saturating_mul(rows as u64);
    let own = lane.plane.load_ns(lane.id).saturating_add(sockets);
    let level = level(own, others.iter().map(|(_, load)| *load));
    // The least loaded first, and of those the one that has used the least CPU time.
    others.sort_unstable_by_key(|&(home, load)| (load, lane.plane.cpu_ns(home)));
    let mut given = lane.given.borrow_mut();
    for (home, load) in others {
        let gap = level.saturating_sub(load);
        if gap < SHARE_MIN_NS {
            continue;
        }
        let rows = usize::try_from(gap / row_ns.max(1)).unwrap_or(usize::MAX);
        schedule.give(rows, |job| !job.moved, &mut given);
        for mut job in given.drain(..) {
            lane.plane.unbook(lane.id, &mut job);
            job.promise.moves();
            // Its inbox is full: the job stays here.
            if let Some(mut job) = lane.plane.send(home, Job { moved: true, ..job }) {
                job.moved = false;
                lane.plane.book(lane.id, &mut job);
                schedule.push(job);
            }
        }
    }
}

/// The expected cost of a row in a full batch; zero while unknown. One figure for all batch sizes, so that lanes' loads can be
/// added and compared.
fn row_ns<M>(model: &Model<M>, scale: usize) -> u64 {
    let rows_max = model.batching.rows_max.max(1);
    nanos(model.service.run_time(rows_max * scale)) / rows_max as u64
}

/// The expected cost of a job of this many rows.
pub(crate) fn cost_ns<M>(model: &Model<M>, rows: usize) -> u64 {
    row_ns(model, 1).saturating_mul(rows as u64)
}

/// The load of each lane if all were equal. Lanes above it are left out.
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

/// Whether a run is long enough to be measured in CPU time. Wall time includes other threads on the core, but for shorter runs
/// the system calls cost too much.
pub(crate) fn worth_clocking(expected: Duration) -> bool {
    nanos(expected) >= CLOCKED_MIN_NS
}

/// The CPU time of this lane's sockets for each row, without running models. The clock is read only when sharing is
/// considered, because that is a system call.
pub(crate) struct SocketCost {
    since_cpu: Cell<Duration>,
    since_ran: Cell<Duration>,
    since_rows: Cell<usize>,
    row: Cell<Duration>,
    /// The correction factor, and the two CPU times at the last correction.
    lean: Cell<f64>,
    corrected_at: Cell<(u64, u64)>,
}

impl SocketCost {
    pub(crate) fn new() -> SocketCost {
        let zero = || Cell::new(Duration::ZERO);
        SocketCost {
            since_cpu: zero(),
            since_ran: zero(),
            since_rows: Cell::new(0),
            row: zero(),
            lean: Cell::new(1.0),
            corrected_at: Cell::new((0, 0)),
        }
    }

    /// Shares more while this lane uses more CPU time than the others, and less while it uses less: in small steps, once for
    /// each 20 ms of its CPU time.
    fn lean_against(&self, own_ns: u64, others_ns: u64) {
        const PERIOD_NS: u64 = 20_000_000;
        let (own_before, others_before) = self.corrected_at.get();
        let own = own_ns.saturating_sub(own_before);
        if own < PERIOD_NS {
            return;
        }
        let others = others_ns.saturating_sub(others_before);
        self.corrected_at.set((own_ns, others_ns));
        // Within 5 % is equal: further correction would oscillate.
        let step = match own as f64 / others.max(1) as f64 {
            more if more > 1.05 => 1.1,
            less if less < 0.95 => 1.0 / 1.1,
            _ => 1.0,
        };
        self.lean.set((self.lean.get() * step).clamp(0.25, 8.0));
    }

    pub(crate) fn ran(&self, took: Duration) {
        self.since_ran.set(self.since_ran.get() + took);
    }

    /// Counts rows that arrived on this lane's sockets, wherever they will run.
    pub(crate) fn accepted(&self, rows: usize) {
        self.since_rows.set(self.since_rows.get() + rows);
    }

    /// The cost of a row, smoothed over past readings.
    fn row(&self, thread_time: fn() -> Duration) -> Duration {
        const ROWS_MIN: usize = 16;
        if self.since_rows.get() >= ROWS_MIN {
            let cpu = thread_time();
            let beside = cpu.saturating_sub(self.since_cpu.get()).saturating_sub(self.since_ran.get());
            let row = beside / u32::try_from(self.since_rows.get()).unwrap_or(u32::MAX);
            self.row.set((self.row.get() * 7 + row) / 8);
            self.since_cpu.set(cpu);
            self.since_ran.set(Duration::ZERO);
            self.since_rows.set(0);
        }
        self.row.get().mul_f64(self.lean.get())
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
    fn a_lane_leans_on_the_others_until_all_use_the_same_cpu_time() {
        let cost = SocketCost::new();
        // Of each 100 ms of work the lane keeps 50 and a part that shrinks as it leans.
        let (mut own, mut others) = (0.0, 0.0);
        for _ in 0..200 {
            let kept = 50.0 + 20.0 / cost.lean.get();
            own += kept * 1e6;
            others += (120.0 - kept) * 1e6;
            cost.lean_against(own as u64, others as u64);
        }
        let kept = 50.0 + 20.0 / cost.lean.get();
        assert!((kept / (120.0 - kept) - 1.0).abs() < 0.1, "{kept}");
    }

    #[test]
    fn a_lane_below_all_others_gives_nothing_away() {
        assert!([500, 700].into_iter().all(|load| level(100, [500, 700].into_iter()) <= load));
    }
}
