//! Checks whether a listener serves the host that a request names.
//!
//! A web page whose name resolves to this machine ("DNS rebinding") reaches a loopback listener from its visitor's
//! browser; the host name reveals it. Also checks RFC 9112's other rules for heads. Must not know the request's target.

use crate::listen::Address;
use ::http::uri::Authority;
use ::http::{HeaderMap, StatusCode, Uri, Version, header};
use std::net::IpAddr;

/// The hosts that a listener serves.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// In lower case; `None`: any host.
    names: Option<Vec<String>>,
    /// The bound address.
    own: IpAddr,
}

/// The status and reason of a refused head.
pub(crate) type Refused = (StatusCode, String);

impl Hosts {
    /// `None` for Unix sockets: no web page can reach them, and their clients name no host.
    pub(crate) fn of(address: &Address, named: &[String]) -> Option<Hosts> {
        let own = match address {
            Address::Tcp(address) | Address::Tls(address) => address.ip(),
            Address::Unix(_) => return None,
        };
        let any = named.iter().any(|name| name == "*") || (named.is_empty() && !own.is_loopback());
        Some(Hosts {
            names: (!any).then(|| named.iter().map(|name| bare(name).to_ascii_lowercase()).collect()),
            own,
        })
    }

    fn serves(&self, host: &str) -> bool {
        let Some(names) = &self.names else { return true };
        if host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        if let Ok(address) = bare(host).parse::<IpAddr>() {
            // Systems connect 0.0.0.0 and :: to loopback, and Triton's Java example names the former.
            let local = address.to_canonical().is_loopback() || address.is_unspecified();
            // A web page's name is never an address of another machine, so beyond loopback any address is valid.
            let near = local || address == self.own || !self.own.is_loopback();
            return near || names.iter().any(|name| name == bare(host));
        }
        names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    fn check(&self, authority: &str) -> Result<(), Refused> {
        let host = host_of(authority).ok_or_else(|| {
            (StatusCode::BAD_REQUEST, format!("host '{}' is not HOST or HOST:PORT", shown(authority)))
        })?;
        if self.serves(host) {
            return Ok(());
        }
        let text =
            format!("host '{}' is not served here; to allow it, add it to the setting hosts", shown(host));
        Err((StatusCode::MISDIRECTED_REQUEST, text))
    }
}

/// Checks a request's head against the hosts of its listener.
pub(crate) fn check(hosts: &Hosts, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
    let refuse = |text: &str| Err((StatusCode::BAD_REQUEST, text.to_owned()));
    let mut named = headers.get_all(header::HOST).iter();
    let (host, more) = (named.next(), named.next());
    if more.is_some() {
        return refuse("the request has more than one Host header; send one");
    }
    let host = match host.map(|host| host.to_str()) {
        None => None,
        Some(Ok(host)) => Some(host),
        Some(Err(_)) => return refuse("the Host header is not plain text"),
    };
    let authority = uri.authority().map(Authority::as_str);
    match (version, authority, host) {
        (Version::HTTP_11, _, None) => return refuse("the request has no Host header; HTTP/1.1 needs one"),
        (Version::HTTP_2, None, None) => {
            return refuse("the request has neither :authority nor Host; send one");
        }
        (Version::HTTP_2, Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            return refuse(":authority and Host differ; send one of them");
        }
        _ => {}
    }
    authority.into_iter().chain(host).try_for_each(|named| hosts.check(named))?;
    coding(headers)
}

/// Only the transfer coding `chunked` is supported; HTTP/2 has none.
fn coding(headers: &HeaderMap) -> Result<(), Refused> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(first) = codings.next() else { return Ok(()) };
    if codings.next().is_none() && first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let text = format!(
        "transfer-encoding '{}' is not supported; allowed: chunked",
        shown(&String::from_utf8_lossy(first.as_bytes()))
    );
    Err((StatusCode::NOT_IMPLEMENTED, text))
}

/// Whether a host may be given in `hosts`: a name or an address without a port, or `*`.
pub(crate) fn is_valid(host: &str) -> bool {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    host == "*"
        || (!host.is_empty() && host.bytes().all(named))
        || bare(host).parse::<std::net::Ipv6Addr>().is_ok()
}

/// The host of `HOST[:PORT]`, an IPv6 address with its brackets.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let sound = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.bytes().all(plain),
    };
    (sound && port.bytes().all(|digit| digit.is_ascii_digit())).then_some(host)
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// A short form without terminal control characters.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    text.chars().take(CHARS_MAX).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(address: &str, named: &[&str]) -> Hosts {
        let named: Vec<_> = named.iter().map(|name| (*name).to_owned()).collect();
        Hosts::of(&Address::Tcp(address.parse().unwrap()), &named).unwrap()
    }

    #[test]
    fn a_loopback_listener_serves_its_own_names_and_those_of_the_setting() {
        let own = hosts("127.0.0.1:80", &["API.example", "2001:db8::1"]);
        for host in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.9.8.7:1",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
            "0.0.0.0:8000",
            "[::]",
            "api.EXAMPLE:443",
            "[2001:db8::1]",
        ] {
            assert!(own.check(host).is_ok(), "{host}");
        }
        for host in
            ["evil.example", "", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example", "localhost."]
        {
            assert_eq!(own.check(host).unwrap_err().0, StatusCode::MISDIRECTED_REQUEST, "{host}");
        }
        for host in ["a b", "me@localhost", "localhost:x", "[::1", "a/b", "\u{1b}[2J"] {
            let (status, text) = own.check(host).unwrap_err();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{host}");
            assert!(!text.chars().any(char::is_control), "{text}");
        }
    }

    #[test]
    fn an_outer_listener_serves_any_host_unless_the_setting_names_some() {
        assert!(hosts("10.0.0.1:80", &[]).check("evil.example").is_ok());
        assert!(hosts("127.0.0.1:80", &["*"]).check("evil.example").is_ok());
        let named = hosts("10.0.0.1:80", &["api.example"]);
        assert!(named.check("evil.example").is_err());
        for host in ["api.example", "10.0.0.1", "10.9.9.9:80", "localhost"] {
            assert!(named.check(host).is_ok(), "{host}: probes ask by address");
        }
        assert!(Hosts::of(&Address::Unix("/run/f".into()), &[]).is_none());
    }

    #[test]
    fn a_head_names_one_host_and_at_most_one_coding() {
        let asked = |version, uri: &str, fields: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(::http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
            }
            let checked = check(&hosts("127.0.0.1:80", &[]), version, &uri.parse().unwrap(), &headers);
            checked.map_or_else(|(status, _)| status.as_u16(), |()| 200)
        };
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        for (status, version, uri, fields) in [
            (200, one, "/", vec![("host", "localhost")]),
            (400, one, "/", vec![]),
            (200, Version::HTTP_10, "/", vec![]),
            (400, one, "/", vec![("host", "localhost"), ("host", "localhost")]),
            (421, one, "/", vec![("host", "evil.example")]),
            (421, one, "http://evil.example/", vec![("host", "localhost")]),
            (421, one, "http://localhost/", vec![("host", "evil.example")]),
            (200, two, "http://localhost/", vec![]),
            (200, two, "http://localhost/", vec![("host", "localhost")]),
            (400, two, "http://localhost/", vec![("host", "127.0.0.1")]),
            (400, two, "/", vec![]),
            (421, two, "http://evil.example/", vec![]),
            (200, one, "/", vec![("host", "localhost"), ("transfer-encoding", "Chunked")]),
            (501, one, "/", vec![("host", "localhost"), ("transfer-encoding", "gzip, chunked")]),
            (501, one, "/", vec![("host", "localhost"), ("transfer-encoding", "xchunked")]),
            (
                501,
                one,
                "/",
                vec![
                    ("host", "localhost"),
                    ("transfer-encoding", "chunked"),
                    ("transfer-encoding", "chunked"),
                ],
            ),
        ] {
            assert_eq!(asked(version, uri, &fields), status, "{version:?} {uri} {fields:?}");
        }
    }

    #[test]
    fn the_setting_takes_names_and_addresses_without_ports() {
        for good in ["*", "api.example", "10.0.0.1", "[::1]", "::1"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "a b", "api.example:80", "http://a", "a/b", "[::1]:80"] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
