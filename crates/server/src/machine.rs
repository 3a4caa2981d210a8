//! The resources of this process: cores (affinity mask, cgroup quota), memory, and rights.
//!
//! Thread counts come from here, never from the host's core count.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::read_to_string;
use std::io;
use std::time::{Duration, Instant};

const LANES_MAX: usize = 256;
/// The number of CAP_IPC_LOCK, which is its bit in /proc/self/status.
const CAP_IPC_LOCK: u32 = 14;
const GRANT_MEMLOCK: &str = "ulimit -l unlimited; under systemd LimitMEMLOCK=infinity; under docker --ulimit memlock=-1; \
                             or the capability CAP_IPC_LOCK";

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores in the affinity mask.
    pub cpus: Vec<usize>,
    /// The cgroup's CPU quota in cores; `None`: no limit.
    pub cpu_quota: Option<f64>,
    /// The default number of lanes.
    pub lanes: usize,
    /// Physical memory of the machine.
    pub memory_bytes: u64,
    /// The cgroup's limit, which may exceed the physical memory.
    pub memory_limit_bytes: Option<u64>,
    pub cpu_model: String,
    pub kernel: String,
    pub rights: Vec<Right>,
}

/// An optional right of the server, and how to grant it.
#[derive(Clone, Debug, Serialize)]
pub struct Right {
    pub name: &'static str,
    pub granted: bool,
    pub why: &'static str,
    pub grant: &'static str,
}

pub fn machine() -> Machine {
    let cpus = affinity();
    let cpu_quota = cpu_quota();
    Machine {
        lanes: lanes_for(cpus.len(), cpu_quota),
        cpu_quota,
        memory_bytes: memory(),
        memory_limit_bytes: memory_limit(),
        cpu_model: cpu_model(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        rights: rights(),
        cpus,
    }
}

/// One lane per core, but at most the whole cores of the quota.
///
/// A lane that is throttled within a period stops all of its requests, which costs more than a fraction of a core
/// gains.
fn lanes_for(cpus: usize, cpu_quota: Option<f64>) -> usize {
    let by_quota = cpu_quota.map_or(LANES_MAX, |quota| quota.floor() as usize);
    cpus.min(by_quota).clamp(1, LANES_MAX)
}

/// Locks the process's current and future memory, so that it is not swapped out.
pub(crate) fn lock_memory() -> io::Result<()> {
    // Under a finite limit the call may succeed now and a later allocation fail, which would end the process.
    if !may_lock_memory() {
        let text = format!("the right to lock memory is missing; grant it: {GRANT_MEMLOCK}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// Measures the unused share of this process's cores since the last look.
///
/// Other processes count: a thread with the idle policy starves because of them as well.
pub(crate) struct SpareTime {
    began: Instant,
    used: Duration,
    ticks: CpuTicks,
    /// The share at the last look.
    share: Option<f64>,
}

/// The least time that tells anything.
const LOOK_MIN: Duration = Duration::from_millis(100);
/// An average over a longer time does not tell what is free now.
const LOOK_MAX: Duration = Duration::from_secs(10);

impl SpareTime {
    pub(crate) fn begin(machine: &Machine) -> SpareTime {
        let used = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
        let ticks = cpu_ticks(&read_to_string("/proc/stat").unwrap_or_default(), &machine.cpus);
        SpareTime { began: Instant::now(), used, ticks, share: None }
    }

    /// Waits only if the last look was too long ago, or if there was none.
    pub(crate) fn share(&mut self, machine: &Machine) -> f64 {
        if self.began.elapsed() > LOOK_MAX {
            *self = SpareTime::begin(machine);
        }
        if let (Some(share), true) = (self.share, self.began.elapsed() < LOOK_MIN) {
            return share;
        }
        std::thread::sleep(LOOK_MIN.saturating_sub(self.began.elapsed()));
        let cores = machine.cpu_quota.unwrap_or(f64::MAX).min(machine.cpus.len().max(1) as f64);
        let now = SpareTime::begin(machine);
        let lasted = now.began.duration_since(self.began).as_secs_f64();
        let own = now.used.saturating_sub(self.used).as_secs_f64() / (lasted * cores);
        let share = (1.0 - own).clamp(0.0, now.ticks.idle_share_since(&self.ticks));
        *self = SpareTime { share: Some(share), ..now };
        share
    }
}

/// Clock ticks of cores since the machine started.
#[derive(Debug, PartialEq, Eq)]
struct CpuTicks {
    idle: u64,
    all: u64,
}

impl CpuTicks {
    /// 1 if the kernel shows no ticks: then only the process's own use is known.
    fn idle_share_since(&self, earlier: &CpuTicks) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        if all == 0 { 1.0 } else { self.idle.saturating_sub(earlier.idle) as f64 / all as f64 }
    }
}

/// Reads `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. The first two include guests.
fn cpu_ticks(stat: &str, cpus: &[usize]) -> CpuTicks {
    let mut ticks = CpuTicks { idle: 0, all: 0 };
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        if cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
            let counts: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
            ticks.all += counts.iter().sum::<u64>();
            ticks.idle += counts.iter().skip(3).take(2).sum::<u64>();
        }
    }
    ticks
}

fn affinity() -> Vec<usize> {
    let mask = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()
}

/// Restricts the calling thread to these cores. If that fails, the kernel chooses the core.
pub(crate) fn pin(cpus: &[usize]) -> bool {
    let mut mask = CpuSet::new();
    cpus.iter().for_each(|&cpu| mask.set(cpu));
    sched_setaffinity(None, &mask).is_ok()
}

/// The tightest quota from this process's cgroup (version 2) up to the root.
fn cpu_quota() -> Option<f64> {
    let quota = |text: String| {
        let (quota, period) = text.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    cgroup_files("cpu.max").filter_map(quota).min_by(f64::total_cmp)
}

fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

fn memory_limit() -> Option<u64> {
    let newer = cgroup_files("memory.max").filter_map(|text| text.trim().parse().ok());
    newer.chain(memory_limit_of_version_1()).min()
}

/// The limit of a version 1 memory controller, as on older hosts. An unset limit exceeds any memory.
fn memory_limit_of_version_1() -> Option<u64> {
    let own = read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.split_once(":memory:"))?.1;
    let folder = std::path::Path::new("/sys/fs/cgroup/memory");
    // Inside a container the own group is often mounted as the root.
    let inside = [folder.join(own.trim_start_matches('/')), folder.to_owned()];
    let limits = inside.iter().filter_map(|at| read_to_string(at.join("memory.limit_in_bytes")).ok());
    limits.filter_map(|text| text.trim().parse().ok()).min()
}

fn cgroup_files(name: &str) -> impl Iterator<Item = String> {
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    let folder = std::path::Path::new("/sys/fs/cgroup").join(own.trim_start_matches('/'));
    let files: Vec<_> = folder
        .ancestors()
        .take_while(|at| at.starts_with("/sys/fs/cgroup"))
        .map(|at| at.join(name))
        .collect();
    files.into_iter().filter_map(|file| read_to_string(file).ok())
}

fn cpu_model() -> String {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": "))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.to_owned())
}

fn rights() -> Vec<Right> {
    let own = sched_getaffinity(None);
    vec![
        Right {
            name: "affinity",
            granted: own.is_ok_and(|mask| sched_setaffinity(None, &mask).is_ok()),
            why: "lanes are pinned to cores, so that their caches stay warm",
            grant: "allow sched_setaffinity in the container's seccomp profile",
        },
        Right {
            name: "memlock",
            granted: may_lock_memory(),
            why: "the setting mlock keeps models from being swapped out",
            grant: GRANT_MEMLOCK,
        },
    ]
}

fn may_lock_memory() -> bool {
    let unlimited = getrlimit(Resource::Memlock).current.is_none();
    unlimited || has_capability(&read_to_string("/proc/self/status").unwrap_or_default(), CAP_IPC_LOCK)
}

/// Whether the effective set in the text of /proc/PID/status has a capability.
fn has_capability(status: &str, number: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> number & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_lanes_than_cores_in_the_mask_and_always_one() {
        let machine = machine();
        assert!((1..=machine.cpus.len().max(1)).contains(&machine.lanes));
    }

    #[test]
    fn neighbours_on_our_cores_leave_no_spare_time_and_those_on_others_do_not_count() {
        let before = "cpu  9 9 9 9\ncpu0 10 0 5 100 5 0 0 0 0 0\ncpu1 10 0 5 100 5 0 0 0 0 0\nintr 1 2 3\n";
        let after = "cpu  9 9 9 9\ncpu0 20 5 10 100 5 0 0 0 20 5\ncpu1 10 0 5 115 10 0 0 0 0 0\nintr 1 2 3\n";
        for (cpus, spare) in [(&[0][..], 0.0), (&[1], 1.0), (&[0, 1], 0.5), (&[7], 1.0)] {
            let share = cpu_ticks(after, cpus).idle_share_since(&cpu_ticks(before, cpus));
            assert!((share - spare).abs() < 1e-9, "{cpus:?}: {share}");
        }
        assert_eq!(cpu_ticks("", &[0]), CpuTicks { idle: 0, all: 0 });
    }

    #[test]
    fn spare_time_is_a_share_and_is_kept_for_a_moment() {
        let machine = machine();
        let mut spare = SpareTime::begin(&machine);
        let share = spare.share(&machine);
        assert!((0.0..=1.0).contains(&share), "{share}");
        let began = spare.began;
        assert_eq!((spare.share(&machine), spare.began), (share, began), "the next look is too early");
    }

    #[test]
    fn lanes_are_the_cores_of_the_mask_or_the_whole_cores_of_the_quota() {
        for (cpus, quota, lanes) in [
            (4, None, 4),
            (4, Some(8.0), 4),
            (4, Some(3.0), 3),
            (4, Some(2.5), 2),
            (4, Some(1.99), 1),
            (4, Some(0.5), 1),
            (0, None, 1),
            (1000, None, 256),
            (1000, Some(300.0), 256),
        ] {
            assert_eq!(lanes_for(cpus, quota), lanes, "{cpus} cores, quota {quota:?}");
        }
    }

    #[test]
    fn the_machine_has_the_memory_that_the_kernel_tells() {
        let text = read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        assert_eq!(machine().memory_bytes >> 10, kib);
    }

    #[test]
    fn a_capability_is_one_bit_of_the_effective_set() {
        let status = |set: &str| format!("CapPrm:\tffffffffffffffff\nCapEff:\t{set}\n");
        assert!(has_capability(&status("0000000000004000"), CAP_IPC_LOCK));
        assert!(!has_capability(&status("ffffffffffffbfff"), CAP_IPC_LOCK));
        assert!(!has_capability("", CAP_IPC_LOCK));
    }
}
