//! Identifies callers and enforces their limits.
//!
//! A caller is known by an API key in the request, by the certificate of its TLS connection, or by the user of its
//! Unix socket. The callers' file maps these to callers, and is reloaded when it changes. A lane looks callers up
//! without a lock.
//!
//! Keys are found by their SHA-256. A key is 32 random bytes, so it cannot be guessed and a slow hash would only
//! cost time. Comparison times leak only hashes, which an attacker cannot steer towards a wanted value.

mod file;

use crate::config::{ConfigFault, list};
use crate::files::Reloads;
use crate::hosts::Hosts;
use ::http::{HeaderMap, HeaderName, header};
use arc_swap::ArcSwap;
use file::{ANONYMOUS, Entry, Terms, canonical_san};
use flyball_core::{Access, CallerIndex, Digest, Fault, FaultKind, Granted, Stage};
use flyball_telemetry::Telemetry;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use x509_parser::extensions::GeneralName;

static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The retry delay for a caller with too many requests in flight: one of them has ended by then.
const CROWDED_PAUSE: Duration = Duration::from_millis(100);
/// Maximum names of one certificate that are looked up.
const SANS_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum CallersError {
    #[error("cannot read the callers' file {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("the callers' file {} is refused: {}", path.display(), list(faults))]
    Faulty { path: PathBuf, faults: Vec<ConfigFault> },
}

pub use file::check_callers;

/// The other end of a connection, as far as the connection identifies it.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Whether its listener serves anonymous callers.
    pub(crate) anonymous: bool,
    /// Whether it is on this machine.
    pub(crate) near: bool,
    /// The hosts that its listener serves; `None` if requests need not name any.
    pub(crate) hosts: Option<Arc<Hosts>>,
    pub(crate) mark: Mark,
}

#[derive(Clone)]
pub(crate) enum Mark {
    Nothing,
    /// The user at the other end of a Unix socket.
    User(u32),
    /// The names in a client's certificate, verified by its authority.
    Names(Vec<String>),
}

impl Mark {
    pub(crate) fn of_certificate(certificate: &[u8]) -> Mark {
        let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else {
            return Mark::Nothing;
        };
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return Mark::Nothing };
        let text = |name: &GeneralName<'_>| match name {
            // One kind of name must not be mistaken for another.
            GeneralName::DNSName(name) => (!name.contains([':', '@'])).then(|| canonical_san(name)),
            GeneralName::URI(name) => name.contains(':').then(|| (*name).to_owned()),
            GeneralName::RFC822Name(name) => {
                (name.contains('@') && !name.contains(':')).then(|| (*name).to_owned())
            }
            _ => None,
        };
        Mark::Names(names.value.general_names.iter().filter_map(text).take(SANS_MAX).collect())
    }
}

pub(crate) struct Caller {
    granted: Arc<Granted>,
    index: CallerIndex,
    terms: Terms,
    rate: Option<DefaultDirectRateLimiter>,
    in_flight: AtomicUsize,
}

/// The contents of the file at the last reload.
#[derive(Default)]
struct Known {
    /// Increases with every reload.
    reading: u64,
    callers: Vec<Arc<Caller>>,
    /// Anonymous callers.
    anonymous: Option<Arc<Caller>>,
    keys: HashMap<Digest, usize>,
    names: HashMap<String, usize>,
    users: HashMap<u32, usize>,
}

pub(crate) struct Callers {
    path: PathBuf,
    telemetry: Arc<Telemetry>,
    known: ArcSwap<Known>,
    /// Anonymous callers, if the file has no entry for them.
    unnamed: Arc<Caller>,
    pub(crate) reloads: Reloads,
}

impl Callers {
    pub(crate) fn open(path: PathBuf, telemetry: Arc<Telemetry>) -> Result<Callers, CallersError> {
        let nothing = Granted { caller: ANONYMOUS.into(), rights: Vec::new() };
        let unnamed = Arc::new(Caller::new(nothing, CallerIndex::ANONYMOUS, Terms::default()));
        let (known, reloads) = (ArcSwap::default(), Reloads::default());
        let callers = Callers { path, telemetry, known, unnamed, reloads };
        callers.take(callers.read()?);
        Ok(callers)
    }

    fn read(&self) -> Result<Vec<Entry>, CallersError> {
        let unreadable = |cause| CallersError::Unreadable { path: self.path.clone(), cause };
        let bytes = std::fs::read(&self.path).map_err(unreadable)?;
        file::parse(&bytes).map_err(|faults| CallersError::Faulty { path: self.path.clone(), faults })
    }

    /// Reads the file again; keeps the last good state if it has faults.
    pub(crate) fn reload(&self) {
        let refused = "the new callers' file is not used; the last one stays";
        self.reloads.apply(self.read(), refused, |entries| {
            tracing::info!(callers = entries.len(), "the callers' file was read again");
            self.take(entries);
        });
    }

    fn take(&self, entries: Vec<Entry>) {
        // Anonymous callers keep their index, whatever rights they get.
        let names: Vec<_> =
            entries.iter().map(|entry| entry.name.as_str()).filter(|name| *name != ANONYMOUS).collect();
        let mut places = self.telemetry.caller_indexes(&names).into_iter();
        let before = self.known.load();
        let mut known = Known { reading: before.reading + 1, ..Known::default() };
        for (place, entry) in entries.into_iter().enumerate() {
            let anonymous = entry.name == ANONYMOUS;
            let index =
                if anonymous { CallerIndex::ANONYMOUS } else { places.next().unwrap_or(CallerIndex::NONE) };
            known.keys.extend(entry.keys.into_iter().map(|key| (key, place)));
            known.names.extend(entry.sans.into_iter().map(|name| (name, place)));
            known.users.extend(entry.uids.into_iter().map(|user| (user, place)));
            // An unchanged caller keeps its used limits.
            let granted = Granted { caller: entry.name.into(), rights: entry.rights };
            let same = |caller: &&Arc<Caller>| *caller.granted == granted && caller.terms == entry.terms;
            let caller = before.callers.iter().find(same).cloned();
            let caller = caller.unwrap_or_else(|| Arc::new(Caller::new(granted, index, entry.terms)));
            known.anonymous = anonymous.then(|| Arc::clone(&caller)).or(known.anonymous);
            known.callers.push(caller);
        }
        self.known.store(Arc::new(known));
    }

    /// The caller of a request, by its key, else by its connection.
    ///
    /// An unknown key is a fault even if anonymous callers are served: a client that sends a key expects to be
    /// identified.
    fn find(&self, mark: &Mark, key: Option<&Digest>) -> Result<Option<Arc<Caller>>, Fault> {
        let known = self.known.load();
        let unknown_key =
            || unknown("the API key is not known here; ask for a new one, or check how it is sent");
        let place = match (key, mark) {
            (Some(key), _) => Some(known.keys.get(key).ok_or_else(unknown_key)?),
            (None, Mark::Nothing) => None,
            (None, Mark::User(user)) => known.users.get(user),
            (None, Mark::Names(names)) => names.iter().find_map(|name| known.names.get(name)),
        };
        Ok(place.and_then(|place| known.callers.get(*place)).map(Arc::clone))
    }

    /// Anonymous callers. Without an entry in the file they may only query health.
    fn anonymous(&self) -> Arc<Caller> {
        let known = self.known.load();
        known.anonymous.as_ref().map_or_else(|| Arc::clone(&self.unnamed), Arc::clone)
    }
}

impl Caller {
    fn new(granted: Granted, index: CallerIndex, terms: Terms) -> Caller {
        let quota = |per_second| {
            let quota = Quota::per_second(per_second);
            terms.burst.map_or(quota, |burst| quota.allow_burst(burst))
        };
        let rate = terms.per_second.map(|per_second| RateLimiter::direct(quota(per_second)));
        Caller { granted: Arc::new(granted), index, terms, rate, in_flight: AtomicUsize::new(0) }
    }

    fn name(&self) -> &str {
        &self.granted.caller
    }

    fn visit(self: &Arc<Caller>) -> Visit {
        let admitted = self.admit().map_err(Box::new);
        // Anonymous callers have no name in records.
        let name = (self.index != CallerIndex::ANONYMOUS).then(|| Arc::clone(&self.granted.caller));
        Visit { caller: self.index, name, access: Access::granted(Arc::clone(&self.granted)), admitted }
    }

    /// Admits one more request within the caller's limits.
    fn admit(self: &Arc<Caller>) -> Result<Option<InFlight>, Fault> {
        let limited =
            |text: String, wait| Fault::new(FaultKind::CallerLimited, Stage::Admit, text).retry_after(wait);
        let in_flight = match self.terms.in_flight_max {
            None => None,
            Some(max) => {
                let in_flight = InFlight(Arc::clone(self));
                if self.in_flight.fetch_add(1, Ordering::Relaxed) >= max {
                    let text = format!(
                        "caller '{}' has {max} requests in flight, its limit; wait for one",
                        self.name()
                    );
                    return Err(limited(text, CROWDED_PAUSE));
                }
                Some(in_flight)
            }
        };
        if let Some(Err(until)) = self.rate.as_ref().map(|rate| rate.check()) {
            let wait = until.wait_time_from(DefaultClock::default().now());
            let rate = self.terms.per_second.map_or(0, u32::from);
            let text = format!(
                "caller '{}' may send {rate} requests a second; try again in {} ms",
                self.name(),
                wait.as_millis() + 1
            );
            return Err(limited(text, wait));
        }
        Ok(in_flight)
    }
}

/// One request of a caller in flight.
pub(crate) struct InFlight(Arc<Caller>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sender of a request, by its connection or its head.
pub(crate) enum Visitor {
    /// The server has no callers' file.
    Anybody,
    Known(Arc<Caller>),
    Nobody(Box<Fault>),
}

impl Visitor {
    pub(crate) fn find(callers: Option<&Callers>, peer: &Peer, headers: &HeaderMap) -> Visitor {
        match callers {
            Some(callers) => Visitor::of(callers, peer, digest_of(headers).as_ref()),
            None if peer.anonymous => Visitor::Anybody,
            None => Visitor::Nobody(Box::new(unknown(&nobody(&peer.mark)))),
        }
    }

    fn of(callers: &Callers, peer: &Peer, key: Option<&Digest>) -> Visitor {
        match callers.find(&peer.mark, key) {
            Ok(Some(caller)) => Visitor::Known(caller),
            Ok(None) if peer.anonymous => Visitor::Known(callers.anonymous()),
            Ok(None) => Visitor::Nobody(Box::new(unknown(&nobody(&peer.mark)))),
            Err(fault) => Visitor::Nobody(Box::new(fault)),
        }
    }

    /// The rights, without counting a request.
    pub(crate) fn access(&self) -> Access {
        match self {
            Visitor::Anybody => Access::default(),
            Visitor::Known(caller) => Access::granted(Arc::clone(&caller.granted)),
            Visitor::Nobody(_) => Access::none(),
        }
    }

    /// Counts one request.
    pub(crate) fn visit(&self) -> Visit {
        match self {
            Visitor::Anybody => Visit::open(),
            Visitor::Known(caller) => caller.visit(),
            Visitor::Nobody(fault) => Visit {
                caller: CallerIndex::NONE,
                name: None,
                access: Access::none(),
                admitted: Err(fault.clone()),
            },
        }
    }
}

/// The sender of a stream's messages.
///
/// A stream may outlive a key, so the caller is looked up again after each reload of the file.
pub(crate) struct Guest {
    pub(crate) visitor: Visitor,
    peer: Peer,
    key: Option<Digest>,
    reading: u64,
}

impl Guest {
    pub(crate) fn find(callers: Option<&Callers>, peer: &Peer, headers: &HeaderMap) -> Guest {
        // Before the lookup: a reload in between is then noticed at the next message.
        let reading = callers.map_or(0, |callers| callers.known.load().reading);
        let visitor = Visitor::find(callers, peer, headers);
        Guest { visitor, peer: peer.clone(), key: digest_of(headers), reading }
    }

    /// Counts one message.
    pub(crate) fn visit(&mut self, callers: Option<&Callers>) -> Visit {
        self.look_again(callers);
        self.visitor.visit()
    }

    fn look_again(&mut self, callers: Option<&Callers>) {
        let Some(callers) = callers else { return };
        // Before the lookup: a reload in between is then noticed at the next message.
        let reading = callers.known.load().reading;
        if reading != self.reading {
            self.visitor = Visitor::of(callers, &self.peer, self.key.as_ref());
            self.reading = reading;
        }
    }
}

/// The caller of a request, and whether it is admitted. Hold it for as long as the request lasts.
pub(crate) struct Visit {
    pub(crate) caller: CallerIndex,
    /// The name in the callers' file.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) access: Access,
    /// Boxed, because every request has this and few are refused.
    pub(crate) admitted: Result<Option<InFlight>, Box<Fault>>,
}

impl Visit {
    /// A request that needs no caller, such as a health check.
    pub(crate) fn open() -> Visit {
        Visit { caller: CallerIndex::ANONYMOUS, name: None, access: Access::default(), admitted: Ok(None) }
    }

    /// The same visit, or one that is not admitted because of this fault.
    pub(crate) fn if_allowed(self, allowed: Result<(), Fault>) -> Visit {
        match allowed {
            Ok(()) => self,
            Err(fault) => Visit { admitted: self.admitted.and(Err(Box::new(fault))), ..self },
        }
    }

    /// The guard to hold while the request lasts, and whether it is admitted.
    pub(crate) fn split(self) -> (Option<InFlight>, Result<(), Fault>) {
        match self.admitted {
            Ok(in_flight) => (in_flight, Ok(())),
            Err(fault) => (None, Err(*fault)),
        }
    }
}

fn unknown(text: &str) -> Fault {
    Fault::new(FaultKind::Unauthenticated, Stage::Admit, text.to_owned())
}

fn nobody(mark: &Mark) -> String {
    const KEY: &str = "send an API key as 'authorization: Bearer KEY' or 'x-api-key: KEY'";
    match mark {
        Mark::Nothing => format!("only known callers are served here; {KEY}"),
        Mark::User(user) => format!("user {user} is no known caller here; {KEY}"),
        Mark::Names(_) => format!("the client certificate names no known caller; {KEY}"),
    }
}

fn digest_of(headers: &HeaderMap) -> Option<Digest> {
    key_of(headers).map(Digest::of)
}

fn key_of(headers: &HeaderMap) -> Option<&[u8]> {
    const BEARER: &[u8] = b"bearer ";
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then_some(key.trim_ascii())
    });
    bearer.or_else(|| headers.get(&API_KEY).map(|value| value.as_bytes()))
}

#[cfg(test)]
mod tests;
