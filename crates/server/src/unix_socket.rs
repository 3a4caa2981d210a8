//! The file of a Unix socket: whose it is is settled before anybody can connect, a dead one is replaced, a live one is
//! not, and ours is gone when the server is.

use crate::listen::BACKLOG;
use nix::unistd::{Group, User};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Removes the socket's file when dropped, unless somebody has put another in its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    is: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|is| is == self.is) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

pub(crate) fn bind(path: &Path, mode: u32, owner: Option<&str>) -> io::Result<(UnixListener, SocketFile)> {
    let owner = owner.map(ids).transpose()?;
    remove_dead(path)?;
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    let file = SocketFile { path: path.to_owned(), is: identity(path)? };
    // Until `listen` every connection is refused, so nobody gets in under the mode that the file was made with.
    if let Some((user, group)) = owner {
        chown(path, Some(user), group)?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((UnixListener::from(socket), file))
}

/// What a server left that was killed. A file that is no socket, or that somebody listens on, is left alone.
fn remove_dead(path: &Path) -> io::Result<()> {
    let Ok(file) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        return Err(io::Error::other("a file is there that is no socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::from(io::ErrorKind::AddrInUse)),
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

    #[test]
    fn owners_are_names_or_numbers_and_unknown_ones_are_told() {
        assert_eq!(ids("0:0").unwrap(), (0, Some(0)));
        assert_eq!(ids("root").unwrap(), (0, None));
        assert!(ids("root:no-such-group").unwrap_err().to_string().contains("no-such-group"));
    }
}
