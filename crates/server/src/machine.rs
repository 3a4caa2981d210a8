//! What this machine lets the process use: cores by affinity mask and cgroup quota, memory, and rights for tuning.
//! Thread counts come from here, never from the host's core count.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::fs::read_to_string;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores in the affinity mask.
    pub cpus: Vec<usize>,
    /// Cores' worth of time that the cgroup grants; none means no limit.
    pub cpu_quota: Option<f64>,
    /// How many lanes a server gets by default.
    pub lanes: usize,
    pub memory_limit_bytes: Option<u64>,
    pub cpu_model: String,
    pub kernel: String,
    pub rights: Vec<Right>,
}

/// A right that the server uses where it has it: whether it is granted, and the command that grants it.
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
    let by_quota = cpu_quota.map_or(usize::MAX, |quota| quota.floor().max(1.0) as usize);
    Machine {
        lanes: cpus.len().clamp(1, 256).min(by_quota),
        cpu_quota,
        memory_limit_bytes: memory_limit(),
        cpu_model: cpu_model(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        rights: rights(),
        cpus,
    }
}

fn affinity() -> Vec<usize> {
    let mask = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()
}

/// Pins the calling thread to one core. Failing is no fault: the lane then runs where the kernel puts it.
pub(crate) fn pin(cpu: usize) -> bool {
    let mut mask = CpuSet::new();
    mask.set(cpu);
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

fn memory_limit() -> Option<u64> {
    cgroup_files("memory.max").filter_map(|text| text.trim().parse().ok()).min()
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
    vec![Right {
        name: "affinity",
        granted: own.is_ok_and(|mask| sched_setaffinity(None, &mask).is_ok()),
        why: "lanes are pinned to cores, so that their caches stay warm",
        grant: "allow sched_setaffinity in the container's seccomp profile",
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_lanes_than_cores_in_the_mask_and_always_one() {
        let machine = machine();
        assert!((1..=machine.cpus.len().max(1)).contains(&machine.lanes));
    }
}
