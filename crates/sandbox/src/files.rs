//! The files that the process may open: an allow-list for Landlock, from Linux 5.13 on.
//!
//! Landlock does not govern modes, owners and times of files, nor lengths before its third version: `calls`
//! blocks those.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};
use std::path::{Path, PathBuf};

/// The newest requested version; older kernels enforce the rights that they know.
const NEWEST: ABI = ABI::V6;
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
/// Plain files and directories. Links, pipes, sockets and devices are not needed: a device would give access
/// to the disk behind it.
const OWN: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
});
const SINK: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});

/// What every interpreter process reads: no user's directory, and nothing of other processes.
const SYSTEM: &[&str] = &[
    // Shared libraries, and where the dynamic linker finds them.
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    // Time zones, and what OpenSSL reads while loading.
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/etc/ssl/openssl.cnf",
    // The number of cores and the memory, for OpenMP, BLAS and allocators. Nothing else of /proc.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup/cpu.max",
    "/sys/kernel/mm/transparent_hugepage",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory",
    // Random numbers.
    "/dev/urandom",
];

/// Applies to this thread and those that it starts. Fails if the kernel would not enforce it.
pub(crate) fn restrict(folder: &Path, readable: &[PathBuf]) -> Result<(), String> {
    let own = PathFd::new(folder).map_err(|error| error.to_string())?;
    match ruleset(own, readable).map_err(|error| error.to_string())? {
        RulesetStatus::NotEnforced => Err("it is not enforced".into()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

fn ruleset(own: PathFd, readable: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rule(PathBeneath::new(own, OWN))?
        .add_rules(path_beneath_rules(["/dev/null"], SINK))?
        .add_rules(path_beneath_rules(SYSTEM, READ))?
        .add_rules(path_beneath_rules(readable, READ))?;
    Ok(created.restrict_self()?.ruleset)
}
