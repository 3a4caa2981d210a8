//! System shared memory: the regions that callers registered, by name.
//!
//! POSIX shared memory is opened by its key and kept as a file (see `Region` in `core`); nothing is mapped.
//! The server decides who may register.

use arc_swap::ArcSwap;
use flyball_core::{Fault, Stage, triton_texts};
use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use rustix::shm;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use flyball_core::{Region, RegionSpan};

/// Maximum registered regions; each holds a file open.
pub const REGIONS_MAX: usize = 1024;
pub const REGION_NAME_BYTES_MAX: usize = 1024;
/// Maximum length of a file name.
const KEY_BYTES_MAX: usize = 255;
/// Keys that Triton reserves for its own backend. Such a server may run on the same machine.
const RESERVED_PREFIX: &str = "triton_python_backend_shm_region_";

/// The status of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionStatus {
    pub name: String,
    pub key: String,
    pub offset: u64,
    pub byte_size: u64,
}

type ByName = BTreeMap<String, Arc<Registered>>;

/// A region, and whether it leaves as soon as no request uses it.
#[derive(Debug)]
struct Registered {
    region: Arc<Region>,
    leaving: AtomicBool,
}

impl Registered {
    fn in_use(&self) -> bool {
        // Requests clone the region, the map and its copies do not.
        Arc::strong_count(&self.region) > 1
    }

    fn has_left(&self) -> bool {
        self.leaving.load(Ordering::Acquire) && !self.in_use()
    }
}

/// Every lane reads it with every request that uses a region, so readers take no lock.
#[derive(Debug, Default)]
pub struct Regions {
    by_name: ArcSwap<ByName>,
    /// Held while the map is changed.
    changing: Mutex<()>,
}

impl Regions {
    pub fn register(&self, name: &str, key: &str, offset: u64, byte_size: u64) -> Result<(), Fault> {
        self.forget();
        if name.is_empty() || name.len() > REGION_NAME_BYTES_MAX {
            return Err(refused(name, &format!("a name has 1 to {REGION_NAME_BYTES_MAX} bytes")));
        }
        if byte_size == 0 {
            return Err(refused(name, "byte_size is 0; register at least one byte"));
        }
        let file = open(name, key)?;
        let region = Region::new(name, key, offset, byte_size, file)?;
        self.change(|regions| {
            if regions.contains_key(name) {
                let taken = triton_texts::region_taken(&shortened(name, 64));
                return Err(invalid(format!("{taken}; unregister it first")));
            }
            if regions.len() >= REGIONS_MAX {
                return Err(refused(
                    name,
                    &format!("{REGIONS_MAX} regions are registered, which is the limit"),
                ));
            }
            let leaving = AtomicBool::new(false);
            regions.insert(name.to_owned(), Arc::new(Registered { region: Arc::new(region), leaving }));
            Ok(())
        })
    }

    /// Removes one region, or all. An unknown name is not an error. One that requests use leaves when they end.
    pub fn unregister(&self, name: Option<&str>) {
        for (known, registered) in self.by_name.load().iter() {
            if name.is_none_or(|name| name == known) {
                registered.leaving.store(true, Ordering::Release);
            }
        }
        self.forget();
    }

    /// Drops the regions that were unregistered and that no request uses any more.
    fn forget(&self) {
        if !self.by_name.load().values().any(|registered| registered.has_left()) {
            return;
        }
        let forgotten = self.change(|regions| {
            regions.retain(|_, registered| !registered.has_left());
            Ok(())
        });
        debug_assert!(forgotten.is_ok(), "removing has no reason to fail");
    }

    /// One region, or all in name order.
    pub fn status(&self, name: Option<&str>) -> Result<Vec<RegionStatus>, Fault> {
        self.forget();
        if let Some(name) = name {
            let region = self.find(name)?;
            return Ok(vec![status(&region)]);
        }
        Ok(self.by_name.load().values().map(|registered| status(&registered.region)).collect())
    }

    pub fn find(&self, name: &str) -> Result<Arc<Region>, Fault> {
        let regions = self.by_name.load();
        let found = regions.get(name).filter(|registered| !registered.has_left());
        found.map(|registered| Arc::clone(&registered.region)).ok_or_else(|| {
            let unknown = triton_texts::unknown_region(&shortened(name, 64));
            invalid(format!("{unknown}; register it first"))
        })
    }

    fn change(&self, change: impl FnOnce(&mut ByName) -> Result<(), Fault>) -> Result<(), Fault> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut regions = (**self.by_name.load()).clone();
        change(&mut regions)?;
        self.by_name.store(Arc::new(regions));
        Ok(())
    }
}

fn status(region: &Region) -> RegionStatus {
    let Region { name, key, offset, byte_size, .. } = region;
    RegionStatus { name: name.clone(), key: key.clone(), offset: *offset, byte_size: *byte_size }
}

/// Opens shared memory as `shm_open` does, but only plain files: a key must not reach anything else.
fn open(name: &str, key: &str) -> Result<File, Fault> {
    if key.trim_start_matches('/').starts_with(RESERVED_PREFIX) {
        let (name, key) = (shortened(name, 64), shortened(key, 64));
        return Err(invalid(triton_texts::reserved_key(&name, &key, RESERVED_PREFIX)));
    }
    let segment = key.strip_prefix('/').unwrap_or(key);
    if segment.is_empty()
        || segment.len() > KEY_BYTES_MAX - 1
        || segment.contains(['/', '\0'])
        || matches!(segment, "." | "..")
    {
        let key = triton_texts::invalid_key(&shortened(name, 64), &shortened(key, 64));
        return Err(invalid(format!("{key}; a key is one name, with or without a '/' before it")));
    }
    let cannot = |error: &dyn std::fmt::Display| refused(name, &format!("'{key}' cannot be opened: {error}"));
    // Anyone may put a link into the shared-memory directory, even to a file that only this server may write.
    // Or a pipe, or a file under a lease: neither is waited for.
    let how = shm::OFlags::from_bits_retain((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits());
    let file = shm::open(segment, shm::OFlags::RDWR | how, Mode::empty()).map_err(|error| cannot(&error))?;
    let file = File::from(file);
    let facts = file.metadata().map_err(|error| cannot(&error))?;
    if !facts.is_file() {
        return Err(cannot(&"it is not shared memory"));
    }
    if private_to_another(facts.uid(), facts.mode(), geteuid().as_raw()) {
        return Err(cannot(
            &"it is private to another user than the server's; create it as that user, or for everybody (mode 0666)",
        ));
    }
    Ok(file)
}

/// Rejects another user's private memory: a server that runs as root could open everything, and would do so
/// for any network caller.
fn private_to_another(owner: u32, mode: u32, server: u32) -> bool {
    const OTHERS: u32 = 0o006;
    owner != server && mode & OTHERS != OTHERS
}

fn refused(name: &str, why: &str) -> Fault {
    invalid(format!("{}: {why}", triton_texts::region_refused(&shortened(name, 64))))
}

fn invalid(text: String) -> Fault {
    Fault::invalid_input(Stage::Parse, text)
}

/// A recognisable prefix of a caller's text.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    let mut start: String = text.chars().take(chars_max).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests;
