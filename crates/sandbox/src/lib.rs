//! Closes this process off for good before it runs code that nobody vouches for: system calls, files, capabilities.
//!
//! Everything is an allow-list. The kernel enforces it: seccomp for system calls, Landlock for files. Nothing in the process
//! can take it back. Must not know what runs inside, nor Python.
#![forbid(unsafe_code)]

mod calls;
mod files;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::path::{Path, PathBuf};

/// Why a process could not be closed off; it must not go on to run the code.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Landlock and capabilities bind the calling thread and those that it starts, no others.
    #[error("this process has {0} threads already: the kernel would bind only one of them")]
    Threads(usize),
    /// The kernel has no Landlock, or a container's profile forbids it.
    #[error("there is no Landlock here ({0})")]
    Files(String),
    /// The kernel does not take the filter of system calls.
    #[error("this kernel refuses a seccomp filter: {0}")]
    Calls(String),
    /// Capabilities could not be given up.
    #[error("this kernel does not let it give up privileges: {0}")]
    Privileges(#[from] Errno),
}

/// From here on this process writes below `folder` only, and reads only there and below `readable`.
///
/// It also has no network, starts no other process and has no capabilities. Call it while the process has one thread. Paths
/// of `readable` that do not exist are skipped.
pub fn enclose(folder: &Path, readable: &[PathBuf]) -> Result<(), Refused> {
    // Landlock does not show other processes' files in /proc, nor this one's: count before.
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(Refused::Threads(threads));
    }
    rustix::thread::set_no_new_privs(true)?;
    files::restrict(folder, readable).map_err(Refused::Files)?;
    drop_capabilities()?;
    calls::restrict().map_err(|error| Refused::Calls(error.to_string()))
}

/// Gives up every capability, and the ways to get one back.
fn drop_capabilities() -> Result<(), Errno> {
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Without CAP_SETPCAP the set stays as it is, and matters to nobody: no program is started from here.
            // Of capabilities that this kernel does not know there is nothing to remove.
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
