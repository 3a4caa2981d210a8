//! Sandboxes this process permanently before it runs untrusted code.
//!
//! Everything is an allow-list that the kernel enforces: seccomp for system calls, Landlock for files, and no
//! capabilities. The process cannot undo it. Must not know what runs inside, nor Python.
#![forbid(unsafe_code)]

mod calls;
mod files;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::path::{Path, PathBuf};

/// Why a process could not be sandboxed; it must not run the code.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Landlock and capabilities apply only to the calling thread and those that it starts.
    #[error("this process already has {0} threads: the kernel would restrict only one of them")]
    Threads(usize),
    /// The kernel has no Landlock, or a container's profile forbids it.
    #[error("Landlock is not available here ({0})")]
    Files(String),
    /// The kernel rejects the filter of system calls.
    #[error("this kernel rejects a seccomp filter: {0}")]
    Calls(String),
    /// Capabilities could not be dropped.
    #[error("this kernel does not allow dropping privileges: {0}")]
    Privileges(#[from] Errno),
}

/// Restricts this process to write below `folder`, and to read there and below `readable`.
///
/// It also has no network, starts no other process and has no capabilities. Call it while the process has one
/// thread. Paths of `readable` that do not exist are skipped.
pub fn enclose(folder: &Path, readable: &[PathBuf]) -> Result<(), Refused> {
    // Landlock hides files of /proc, including this process's: count before.
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(Refused::Threads(threads));
    }
    rustix::thread::set_no_new_privs(true)?;
    files::restrict(folder, readable).map_err(Refused::Files)?;
    drop_capabilities()?;
    calls::restrict().map_err(|error| Refused::Calls(error.to_string()))
}

/// Drops every capability, and the ways to regain one.
fn drop_capabilities() -> Result<(), Errno> {
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Without CAP_SETPCAP the bounding set stays, which is harmless: no program is started from here.
            // Capabilities unknown to this kernel need no removal.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}
