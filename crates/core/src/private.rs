//! Directories and files that only their owner can read, whatever the umask. Knows nothing of their contents.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Creates the directory and its parents for the owner alone.
///
/// Returns a warning if it exists and other users can open it.
pub fn private_folder(path: &Path) -> io::Result<Option<String>> {
    if let Ok(facts) = path.metadata() {
        let mode = facts.permissions().mode() & 0o777;
        let shown = path.display();
        return Ok((mode & OTHERS != 0)
            .then(|| format!("other users may open {shown} (mode {mode:o}); run: chmod 700 {shown}")));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    Ok(None)
}

/// Opens a file for reading and writing; creates it if needed.
///
/// Removes other users' permissions from a file that we own.
pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone_and_what_is_open_is_told_or_closed() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, file) = (parent.path().join("a/b"), parent.path().join("a/b/c"));
        assert_eq!(private_folder(&folder).unwrap(), None);
        assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let warning = private_folder(&folder).unwrap().unwrap();
        assert!(warning.contains("mode 755") && warning.contains("chmod 700 "), "{warning}");
        private_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        private_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }
}
