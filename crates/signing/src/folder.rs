//! Verifies a package's directory against its signature: exactly the signed files, no links, all bytes.
//!
//! Directories are opened relative to each other and never by path, so that no link can be inserted
//! meanwhile.

use crate::manifest::{FILES_MAX, IGNORED, Manifest, is_valid_path};
use crate::refused::Refused;
use flyball_core::Digest;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const WHAT: &str = "the package";
/// Maximum nesting of directories.
const DEPTH_MAX: usize = 64;
/// Files and directories: empty directories are not signed, but still have to be visited.
const ENTRIES_MAX: usize = 10 * FILES_MAX;

impl Manifest {
    /// Rejects a directory that is not exactly what was signed. Reads every byte of it.
    pub fn check_folder(&self, folder: &Path) -> Result<(), Refused> {
        let found =
            Walk { signed: Some(self), whole: false, found: BTreeMap::new(), entries: 0 }.top(folder)?;
        self.files.iter().try_for_each(|(file, signed)| match found.get(file) {
            Some(is) if is == signed => Ok(()),
            Some(_) => Err(Refused::ChangedFile { file: file.clone() }),
            None => Err(Refused::MissingFile { file: file.clone(), why: "it is not there".to_owned() }),
        })
    }

    /// Ignored names at the top of a directory, unless something in it was signed.
    fn ignores(&self, name: &str) -> bool {
        let top = |file: &String| file.split('/').next() == Some(name);
        IGNORED.contains(&name) && !self.files.keys().any(top)
    }
}

/// The digests of a directory's files, by name. `whole` includes files that OMS signers ignore.
pub fn files_of(folder: &Path, whole: bool) -> Result<BTreeMap<String, Digest>, Refused> {
    let found = Walk { signed: None, whole, found: BTreeMap::new(), entries: 0 }.top(folder)?;
    if found.is_empty() {
        let why = "it has no file".to_owned();
        return Err(Refused::MissingFile { file: folder.display().to_string(), why });
    }
    Ok(found)
}

struct Walk<'m> {
    /// None: every file is accepted.
    signed: Option<&'m Manifest>,
    whole: bool,
    found: BTreeMap<String, Digest>,
    entries: usize,
}

impl Walk<'_> {
    fn top(mut self, folder: &Path) -> Result<BTreeMap<String, Digest>, Refused> {
        let shown = folder.display().to_string();
        let unread = |fault: Errno| Refused::MissingFile { file: shown.clone(), why: fault.to_string() };
        let kind = statat(CWD, folder, AtFlags::SYMLINK_NOFOLLOW).map_err(unread)?.st_mode;
        check_kind(&shown, FileType::from_raw_mode(kind), FileType::Directory)?;
        let top = open(CWD, folder, OFlags::DIRECTORY).map_err(unread)?;
        self.folder(&top, "", 0)?;
        Ok(self.found)
    }

    fn ignores(&self, name: &str) -> bool {
        !self.whole && self.signed.map_or(IGNORED.contains(&name), |signed| signed.ignores(name))
    }

    /// Rejects a name that is unsigned or not UTF-8: only text can be signed.
    fn check_name(&self, name: &CString, shown: &str) -> Result<(), Refused> {
        match self.signed {
            Some(signed) if name.to_str().is_err() || !signed.files.contains_key(shown) => {
                Err(Refused::ExtraFile { file: shown.to_owned() })
            }
            None if name.to_str().is_err() || !is_valid_path(shown) => {
                Err(Refused::PathEscape { name: shown.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Collects everything below a directory; `path` is its path in the package, ending with a slash.
    fn folder(&mut self, folder: &OwnedFd, path: &str, depth: usize) -> Result<(), Refused> {
        if depth > DEPTH_MAX {
            let limit = format!("{DEPTH_MAX} folders within each other");
            return Err(Refused::TooLarge { what: WHAT, limit });
        }
        let unread = |fault: Errno| Refused::MissingFile { file: path.to_owned(), why: fault.to_string() };
        for name in self.names(folder).map_err(unread)? {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                let limit = format!("{ENTRIES_MAX} files and folders");
                return Err(Refused::TooLarge { what: WHAT, limit });
            }
            let shown = format!("{path}{}", name.to_string_lossy());
            if path.is_empty() && self.ignores(&shown) {
                continue;
            }
            let kind = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(unread)?.st_mode;
            if FileType::from_raw_mode(kind) == FileType::Directory {
                let below = open(folder.as_fd(), &name, OFlags::DIRECTORY).map_err(unread)?;
                self.folder(&below, &format!("{shown}/"), depth + 1)?;
                continue;
            }
            check_kind(&shown, FileType::from_raw_mode(kind), FileType::RegularFile)?;
            self.check_name(&name, &shown)?;
            let digest = digest(folder.as_fd(), &name, &shown)?;
            self.found.insert(shown, digest);
        }
        Ok(())
    }

    /// Sorted, so that the same one of several faults is reported every time.
    fn names(&self, folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
        let mut names = Vec::new();
        // One more than allowed suffices for a rejection.
        for entry in Dir::read_from(folder)?.take(ENTRIES_MAX + 3) {
            let name = entry?.file_name().to_owned();
            if !matches!(name.as_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The digest of a file. Does not follow a link that replaced it, and does not wait for a pipe.
fn digest(folder: BorrowedFd<'_>, name: &CString, shown: &str) -> Result<Digest, Refused> {
    let changed = || Refused::ChangedFile { file: shown.to_owned() };
    let file = open(folder, name, OFlags::NONBLOCK).map_err(|_| changed())?;
    let kind = fstat(&file).map_err(|_| changed())?.st_mode;
    check_kind(shown, FileType::from_raw_mode(kind), FileType::RegularFile)?;
    Digest::of_reader(File::from(file)).map_err(|_| changed())
}

fn open(folder: BorrowedFd<'_>, name: impl rustix::path::Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(folder, name, flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn check_kind(shown: &str, is: FileType, wanted: FileType) -> Result<(), Refused> {
    match is {
        is if is == wanted => Ok(()),
        FileType::Symlink => Err(Refused::Symlink { file: format!("'{shown}'") }),
        _ => Err(Refused::SpecialFile { file: shown.to_owned() }),
    }
}
