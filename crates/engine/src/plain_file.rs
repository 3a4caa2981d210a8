//! Opens a model's files so that only plain files are ever read.
//!
//! The open file itself is checked (`fstat`), so it cannot be swapped in between. Must not know what the
//! bytes mean.

use crate::Refusal;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// An open plain file and its size when opened.
pub(crate) struct PlainFile {
    file: File,
    path: PathBuf,
    pub(crate) size_bytes: u64,
}

impl PlainFile {
    /// Opens the model's own file. Follows a link: the caller chose it.
    pub(crate) fn open(path: &Path) -> Result<PlainFile, Refusal> {
        let opened = openat(CWD, path, flags(), Mode::empty());
        PlainFile::checked(opened.map_err(|cause| unreadable(path, cause))?.into(), path)
    }

    /// Opens a file next to the model, which the model chose. `name` is a plain file name; a link is
    /// rejected.
    pub(crate) fn open_sibling(model: &Path, name: &str) -> Result<PlainFile, Refusal> {
        let folder = match model.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let path = model.with_file_name(name);
        let directory = openat(CWD, folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let directory = directory.map_err(|cause| unreadable(folder, cause))?;
        match openat(&directory, name, flags() | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) => PlainFile::checked(file.into(), &path),
            Err(Errno::LOOP) => Err(Refusal::ExternalDataLink(path)),
            Err(cause) => Err(unreadable(&path, cause)),
        }
    }

    fn checked(file: File, path: &Path) -> Result<PlainFile, Refusal> {
        let found = fstat(&file).map_err(|cause| unreadable(path, cause))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotAFile(path.to_owned()));
        }
        let size_bytes = u64::try_from(found.st_size).unwrap_or(0);
        Ok(PlainFile { file, path: path.to_owned(), size_bytes })
    }

    /// Reads the whole file. Rejects one that changes its size meanwhile: it may grow without end.
    pub(crate) fn read(self) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.size_bytes).unwrap_or(0));
        let read = (&self.file).take(self.size_bytes + 1).read_to_end(&mut bytes);
        read.map_err(|cause| Refusal::Unreadable { path: self.path.clone(), cause })?;
        if bytes.len() as u64 == self.size_bytes { Ok(bytes) } else { Err(Refusal::Changing(self.path)) }
    }

    /// The rest of the file, for hashing or copying in chunks.
    pub(crate) fn pieces(&self) -> impl Read + '_ {
        (&self.file).take(self.size_bytes)
    }

    pub(crate) fn unreadable(&self, cause: std::io::Error) -> Refusal {
        Refusal::Unreadable { path: self.path.clone(), cause }
    }
}

/// Without `NONBLOCK`, opening a pipe would wait for its writer. It has no effect on plain files.
fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

fn unreadable(path: &Path, cause: Errno) -> Refusal {
    Refusal::Unreadable { path: path.to_owned(), cause: cause.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model = folder.path().join("m.onnx");
        std::fs::write(&model, b"model").unwrap();
        (folder, model)
    }

    #[test]
    fn a_link_beside_the_model_is_refused_wherever_it_leads() {
        let (folder, model) = folder();
        std::fs::write(folder.path().join("real.bin"), b"1234").unwrap();
        for (name, target) in [("inside", "real.bin"), ("outside", "/etc/passwd"), ("nowhere", "missing")] {
            symlink(target, folder.path().join(name)).unwrap();
            let refused = PlainFile::open_sibling(&model, name).err().expect("it is refused");
            assert!(matches!(refused, Refusal::ExternalDataLink(_)), "{name}: {refused}");
        }
        assert_eq!(PlainFile::open_sibling(&model, "real.bin").unwrap().read().unwrap(), b"1234");
    }

    #[test]
    fn pipes_devices_and_folders_are_refused_and_nothing_waits_for_them() {
        let (folder, model) = folder();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["pipe", "sub"] {
            let refused = PlainFile::open_sibling(&model, name).err().expect("it is refused");
            assert!(matches!(refused, Refusal::NotAFile(_)), "{name}: {refused}");
        }
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let refused = PlainFile::open(path).err().expect("it is refused");
            assert!(matches!(refused, Refusal::NotAFile(_)), "{refused}");
        }
    }

    #[test]
    fn what_was_opened_is_what_is_read_whatever_takes_its_name_later() {
        let (folder, model) = folder();
        let data = folder.path().join("w.bin");
        std::fs::write(&data, b"good").unwrap();
        let opened = PlainFile::open_sibling(&model, "w.bin").unwrap();
        std::fs::remove_file(&data).unwrap();
        symlink("/etc/passwd", &data).unwrap();
        assert_eq!(opened.read().unwrap(), b"good");
    }

    #[test]
    fn a_file_that_grows_or_shrinks_while_it_is_read_is_refused() {
        let (folder, model) = folder();
        for (name, later) in [("grows", b"123456".as_slice()), ("shrinks", b"1")] {
            let path = folder.path().join(name);
            std::fs::write(&path, b"1234").unwrap();
            let opened = PlainFile::open_sibling(&model, name).unwrap();
            std::fs::write(&path, later).unwrap();
            assert!(matches!(opened.read(), Err(Refusal::Changing(_))), "{name}");
        }
    }
}
