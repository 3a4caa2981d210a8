//! Binds the listeners: TCP, TLS and Unix sockets, before anything else starts.
//!
//! Does not know the protocols on them.

use crate::config::{Endpoint, ServerConfig};
use crate::hosts::Hosts;
use crate::unix_socket::{self, SocketFile};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// Connections that the kernel queues before they are accepted.
pub(crate) const BACKLOG: i32 = 1024;

/// The bound address of a listener, with its real port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Tls(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// The form for clients.
    pub(crate) fn url(&self) -> String {
        match self {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Tls(address) => format!("https://{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Whether only this machine can reach it.
    fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) | Address::Tls(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

/// The form in `listen`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Tls(address) => write!(f, "tls://{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// All addresses on one line; first the one that most clients want.
pub(crate) fn ready_words(addresses: &[Address]) -> (String, String) {
    let kind = |address: &&Address| match address {
        Address::Tcp(_) => 0,
        Address::Tls(_) => 1,
        Address::Unix(_) => 2,
    };
    let first = addresses.iter().min_by_key(kind);
    let others = addresses.iter().filter(|address| !first.is_some_and(|first| std::ptr::eq(first, *address)));
    let others: Vec<_> = others.map(Address::url).collect();
    let also = if others.is_empty() { String::new() } else { format!(" also={}", others.join(",")) };
    (first.map(Address::url).unwrap_or_default(), also)
}

pub(crate) enum Socket {
    Tcp { listener: TcpListener, tls: bool },
    Unix(UnixListener, SocketFile),
}

pub(crate) struct Listener {
    pub(crate) socket: Socket,
    pub(crate) address: Address,
    /// Whether anonymous callers are served here.
    pub(crate) anonymous: bool,
    /// The hosts that requests may name here; `None` if they need not name any.
    pub(crate) hosts: Option<Arc<Hosts>>,
}

/// Binds one entry of `listen`.
pub(crate) fn bind(entry: &str, config: &ServerConfig) -> io::Result<Listener> {
    let (socket, address) = match Endpoint::parse(entry) {
        Some(Endpoint::Tcp(address)) => {
            let (listener, address) = bind_tcp(address)?;
            (Socket::Tcp { listener, tls: false }, Address::Tcp(address))
        }
        Some(Endpoint::Tls(address)) => {
            let (listener, address) = bind_tcp(address)?;
            (Socket::Tcp { listener, tls: true }, Address::Tls(address))
        }
        Some(Endpoint::Unix(path)) => {
            let mode = config.unix_mode().unwrap_or(0o600);
            let (listener, file) = unix_socket::bind(path, mode, config.unix_owner.as_deref())?;
            (Socket::Unix(listener, file), Address::Unix(path.to_owned()))
        }
        None => return Err(io::Error::other("it is not an address")),
    };
    let anonymous = config.allow_anonymous.unwrap_or_else(|| address.is_local());
    let hosts = Hosts::of(&address, &config.hosts).map(Arc::new);
    Ok(Listener { socket, address, anonymous, hosts })
}

fn bind_tcp(address: &str) -> io::Result<(TcpListener, SocketAddr)> {
    let resolved = address.to_socket_addrs()?.next();
    let resolved = resolved.ok_or_else(|| io::Error::other("the name resolves to nothing"))?;
    let socket = socket2::Socket::new(socket2::Domain::for_address(resolved), socket2::Type::STREAM, None)?;
    // A restart must not wait until connections of the last run time out.
    socket.set_reuse_address(true)?;
    if resolved.is_ipv6() {
        // [::] is IPv6 only, so that 0.0.0.0 can be bound as well.
        socket.set_only_v6(true)?;
    }
    socket.bind(&resolved.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_tcp_address_stands_first_and_the_others_beside_it() {
        let tcp: SocketAddr = "[::1]:80".parse().unwrap();
        let all = [Address::Unix("/run/f".into()), Address::Tls(tcp), Address::Tcp(tcp)];
        let (first, also) = ready_words(&all);
        assert_eq!(first, "http://[::1]:80");
        assert_eq!(also, " also=unix:/run/f,https://[::1]:80");
        assert_eq!(ready_words(&all[2..]).1, "");
    }

    #[test]
    fn anonymous_callers_are_served_on_this_machine_only_unless_it_is_said() {
        let anonymous = |listen: &str, allow_anonymous| {
            bind(listen, &ServerConfig { allow_anonymous, ..ServerConfig::default() }).unwrap().anonymous
        };
        assert!(anonymous("127.0.0.1:0", None));
        assert!(!anonymous("0.0.0.0:0", None));
        assert!(anonymous("0.0.0.0:0", Some(true)));
        assert!(!anonymous("127.0.0.1:0", Some(false)));
    }
}
