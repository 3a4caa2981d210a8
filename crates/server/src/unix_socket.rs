//! The file of a Unix socket.
//!
//! Owner and mode are set before anyone can connect. A dead socket is replaced, a live one is not, and ours is removed at
//! shutdown. The socket is created next to its path and renamed once it listens, so that the path always accepts
//! connections.

use crate::listen::BACKLOG;
use nix::libc::{O_NOFOLLOW, O_PATH};
use nix::unistd::{Group, User};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Servers lock a folder while they create or remove a socket, which is short.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// Shorter, because the stopping thread also serves other connections.
const STOP_PATIENCE: Duration = Duration::from_millis(200);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Maximum bytes of the file name within the temporary name: the whole path must stay below the kernel's limit.
const NAME_BYTES_KEPT: usize = 48;

/// Removes the socket's file when dropped, unless it has been replaced.
pub(crate) struct SocketFile {
    folder: Folder,
    name: OsString,
    /// Kept open, so that no other file gets the same inode number.
    ours: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Without the lock another server could put its socket there between the check and the removal. A socket that is
        // left behind is dead, and the next server replaces it.
        let Ok(_lock) = self.folder.lock(STOP_PATIENCE) else { return };
        let path = self.folder.path_of(&self.name);
        let (there, ours) = (std::fs::symlink_metadata(&path), self.ours.metadata());
        if let (Ok(there), Ok(ours)) = (there, ours)
            && identity(&there) == identity(&ours)
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

pub(crate) fn bind(path: &Path, mode: u32, owner: Option<&str>) -> io::Result<(UnixListener, SocketFile)> {
    let owner = owner.map(ids).transpose()?;
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?.to_owned();
    let folder = Folder::open(path)?;
    let lock = folder.lock(START_PATIENCE)?;
    refuse_unless_dead(path)?;
    let draft = folder.path_of(&draft_name(&name));
    let made = make(&draft, mode, owner).and_then(|made| {
        // Other programs create sockets without the lock.
        refuse_unless_dead(path)?;
        std::fs::rename(&draft, folder.path_of(&name))?;
        Ok(made)
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    drop(lock);
    let (listener, ours) = made?;
    Ok((listener, SocketFile { folder, name, ours }))
}

fn draft_name(name: &OsStr) -> OsString {
    let kept = &name.as_bytes()[..name.len().min(NAME_BYTES_KEPT)];
    OsString::from_vec([b".", kept, b".", std::process::id().to_string().as_bytes()].concat())
}

/// A socket that listens at `draft`, and its file.
fn make(draft: &Path, mode: u32, owner: Option<(u32, Option<u32>)>) -> io::Result<(UnixListener, File)> {
    match std::fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(draft)?)?;
    let file = OpenOptions::new().read(true).custom_flags(O_PATH | O_NOFOLLOW).open(draft)?;
    let made = file.metadata()?;
    // A hard link would let us change a file that was not created here.
    if !made.file_type().is_socket() || made.nlink() != 1 {
        return Err(io::Error::other("another file replaced the new socket"));
    }
    // By descriptor, never by name, which others could replace by a link. Until `listen` every connection is refused, so
    // nobody connects under the initial mode.
    let opened = by_descriptor(&file);
    if let Some((user, group)) = owner {
        chown(&opened, Some(user), group)?;
    }
    std::fs::set_permissions(&opened, std::fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((UnixListener::from(OwnedFd::from(socket)), file))
}

fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Only the socket of a killed server may be replaced: not another file, and not a live socket.
fn refuse_unless_dead(path: &Path) -> io::Result<()> {
    let file = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    if !file.file_type().is_socket() {
        return Err(io::Error::other("a file that is not a socket exists there"));
    }
    let probe = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    // A server with a full backlog would block us until it accepts.
    probe.set_nonblocking(true)?;
    match probe.connect(&socket2::SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(io::Error::from(io::ErrorKind::AddrInUse)),
    }
}

/// The folder of a socket. Paths use its descriptor: it stays the same folder, and they are short.
struct Folder(File);

impl Folder {
    fn open(of: &Path) -> io::Result<Folder> {
        let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).map(Folder)
    }

    fn path_of(&self, name: &OsStr) -> PathBuf {
        by_descriptor(&self.0).join(name)
    }

    /// Locks the folder itself, so that no lock file is left behind.
    fn lock(&self, patience: Duration) -> io::Result<Lock<'_>> {
        let until = Instant::now() + patience;
        loop {
            match self.0.try_lock() {
                Ok(()) => return Ok(Lock(&self.0)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(io::Error::other(
                        "its folder is locked by another process; find it with fuser",
                    ));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
    }
}

/// Unlocks explicitly: a process forked meanwhile has the descriptor too, and closing ours would not unlock.
struct Lock<'a>(&'a File);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// `user` or `user:group`, each a name or a number.
fn ids(owner: &str) -> io::Result<(u32, Option<u32>)> {
    let unknown = |what: &str, name: &str| io::Error::other(format!("there is no {what} '{name}' here"));
    let (user, group) = owner.split_once(':').map_or((owner, None), |(user, group)| (user, Some(group)));
    let user_id = match user.parse() {
        Ok(id) => id,
        Err(_) => User::from_name(user)?.ok_or_else(|| unknown("user", user))?.uid.as_raw(),
    };
    let group_id = match group.map(|group| (group, group.parse())) {
        None => None,
        Some((_, Ok(id))) => Some(id),
        Some((group, Err(_))) => {
            Some(Group::from_name(group)?.ok_or_else(|| unknown("group", group))?.gid.as_raw())
        }
    };
    Ok((user_id, group_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_has_its_mode_and_is_gone_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (_listener, file) = bind(&path, 0o640, None).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        let (listener, file) = bind(&path, 0o600, None).unwrap();
        assert_eq!(bind(&path, 0o600, None).err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(bind(&path, 0o600, None).is_err());
        drop((listener, file));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine", "only our own file is removed");
    }

    fn names(folder: &Path) -> Vec<OsString> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn nothing_but_the_socket_is_left_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let bound = bind(&path, 0o600, None).unwrap();
        assert!(bind(&path, 0o600, None).is_err());
        assert_eq!(names(folder.path()), ["s"]);
        drop(bound);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn of_servers_that_start_at_once_one_has_the_path_and_answers_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let together = std::sync::Barrier::new(4);
        let start = || {
            together.wait();
            bind(&path, 0o600, None)
        };
        for _ in 0..50 {
            drop(UnixListener::bind(&path).unwrap());
            let bound: Vec<_> = std::thread::scope(|scope| {
                let starting: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                starting.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
            });
            assert_eq!(bound.len(), 1);
            let _client = UnixStream::connect(&path).unwrap();
            assert!(bound[0].0.accept().is_ok(), "the path is the winner's");
            drop(bound);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_path_as_long_as_the_kernel_takes_is_bound() {
        let folder = tempfile::tempdir().unwrap();
        let left = 107 - folder.path().as_os_str().len() - 1;
        let path = folder.path().join("x".repeat(left));
        let _bound = bind(&path, 0o600, None).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_live_socket_with_its_backlog_full_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        let address = socket2::SockAddr::unix(&path).unwrap();
        socket.bind(&address).unwrap();
        socket.listen(0).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        assert_eq!(bind(&path, 0o600, None).err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    }

    #[test]
    fn a_link_at_the_path_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("s"), folder.path().join("other"));
        std::fs::write(&other, "mine").unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(bind(&path, 0o666, None).is_err());
        assert_eq!(std::fs::metadata(&other).unwrap().mode() & 0o777, 0o600);
        assert!(path.is_symlink());
    }

    #[test]
    fn a_socket_that_was_put_in_our_place_stays_when_we_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let bound = bind(&path, 0o600, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(bound);
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn owners_are_names_or_numbers_and_unknown_ones_are_told() {
        assert_eq!(ids("0:0").unwrap(), (0, Some(0)));
        assert_eq!(ids("root").unwrap(), (0, None));
        assert!(ids("root:no-such-group").unwrap_err().to_string().contains("no-such-group"));
    }
}
