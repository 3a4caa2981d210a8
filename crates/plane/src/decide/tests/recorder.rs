//! A recorder for tests: keeps offered records, and refuses, waits or fails on request.

use flyball_core::{
    JournalRecord, LaneRecorder, RecordKind, Recorder, Registered, Served, Ticket, Unavailable,
};
use minicbor::Decoder;
use minicbor::data::Type;
use serde_json::{Map, Value as Json, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
pub(super) struct Progress {
    /// The results of the next attempts to reserve slots; later ones succeed.
    pub(super) refusals: VecDeque<Unavailable>,
    held: usize,
    pub(super) entries: Vec<JournalRecord>,
    missed: Vec<(usize, Unavailable)>,
    pub(super) orphans: Vec<Ticket>,
    /// The results of the next synchronous records, in order; later ones are kept.
    pub(super) commits: VecDeque<Option<Unavailable>>,
    /// For each offered record, why it is lost.
    lost: Vec<Option<Unavailable>>,
    /// While set, records are neither kept nor lost.
    pub(super) hangs: bool,
    waker: Option<Waker>,
    pub(super) served: Vec<Served>,
    spare: Vec<JournalRecord>,
}

impl Progress {
    fn why_lost(&self, ticket: Ticket) -> Option<Unavailable> {
        self.lost[ticket.0 as usize - 1]
    }
}

/// Shared by the test and the plane.
#[derive(Clone, Default)]
pub(super) struct Book(Arc<Mutex<Progress>>);

impl Book {
    pub(super) fn state(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap()
    }

    /// The records of a kind, as JSON.
    pub(super) fn of(&self, kind: RecordKind) -> Vec<Json> {
        self.state().entries.iter().filter(|entry| entry.kind == kind).map(decoded).collect()
    }

    pub(super) fn held(&self) -> usize {
        self.state().held
    }

    pub(super) fn offered(&self) -> usize {
        self.state().entries.len()
    }

    /// Decisions whose record is not lost.
    pub(super) fn recorded(&self) -> Vec<Json> {
        let state = self.state();
        let kept = state.entries.iter().zip(&state.lost).filter(|(_, lost)| lost.is_none());
        kept.filter(|(entry, _)| entry.kind == RecordKind::Decision)
            .map(|(entry, _)| decoded(entry))
            .collect()
    }

    pub(super) fn missed(&self) -> Vec<(usize, Unavailable)> {
        self.state().missed.clone()
    }

    /// Wakes the waiting walks.
    pub(super) fn commit(&self) {
        let mut state = self.state();
        state.hangs = false;
        state.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Recorder for Book {
    fn lane(&self, _lane: usize) -> Box<dyn LaneRecorder> {
        Box::new(self.clone())
    }

    fn served(&self, served: Served) {
        self.state().served.push(served);
    }

    fn registered(&self, _registered: Registered) {}
}

impl LaneRecorder for Book {
    fn reserve(&self, entries: usize) -> Result<(), Unavailable> {
        let mut state = self.state();
        match state.refusals.pop_front() {
            Some(why) => Err(why),
            None => {
                state.held += entries;
                Ok(())
            }
        }
    }

    fn release(&self, entries: usize) {
        self.state().held -= entries;
    }

    fn blank(&self) -> Box<JournalRecord> {
        Box::new(self.state().spare.pop().unwrap_or_default())
    }

    fn offer(&self, mut entry: Box<JournalRecord>) -> Ticket {
        let mut state = self.state();
        state.held = state.held.checked_sub(1).expect("every entry has its place");
        let lost = if entry.sync { state.commits.pop_front().flatten() } else { None };
        state.lost.push(lost);
        state.entries.push((*entry).clone());
        entry.clear();
        state.spare.push(*entry);
        Ticket(state.entries.len() as u64)
    }

    fn poll_durable(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Result<(), Unavailable>> {
        let mut state = self.state();
        if state.hangs {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.why_lost(ticket).map_or(Ok(()), Err))
    }

    fn orphan(&self, ticket: Ticket) {
        let mut state = self.state();
        state.orphans.push(ticket);
        let lost = state.why_lost(ticket);
        state.missed.extend(lost.map(|why| (1, why)));
    }

    fn missed(&self, decisions: usize, why: Unavailable) {
        self.state().missed.push((decisions, why));
    }
}

/// A record as JSON, decoded to its last byte.
pub(super) fn decoded(entry: &JournalRecord) -> Json {
    let mut decoder = Decoder::new(&entry.pairs);
    let mut pairs = Map::new();
    for _ in 0..entry.pairs_count {
        let key = decoder.str().unwrap().to_owned();
        let value = value(&mut decoder);
        assert!(pairs.insert(key, value).is_none(), "each key once");
    }
    assert_eq!(decoder.position(), entry.pairs.len(), "there are as many pairs as were counted");
    for (key, bytes) in [("input", &entry.input), ("personal", &entry.personal)] {
        if !bytes.is_empty() {
            let mut decoder = Decoder::new(bytes);
            pairs.insert(key.to_owned(), value(&mut decoder));
            assert_eq!(decoder.position(), bytes.len());
        }
    }
    pairs.insert("id".to_owned(), json!(entry.id.to_string()));
    pairs.insert("subject".to_owned(), json!(String::from_utf8(entry.subject.clone()).unwrap()));
    pairs.insert("sync".to_owned(), json!(entry.sync));
    Json::Object(pairs)
}

fn value(decoder: &mut Decoder<'_>) -> Json {
    match decoder.datatype().unwrap() {
        Type::Null => decoder.null().map(|()| Json::Null).unwrap(),
        Type::Bool => json!(decoder.bool().unwrap()),
        Type::F64 => json!(decoder.f64().unwrap()),
        Type::String => json!(decoder.str().unwrap()),
        Type::Bytes => json!(decoder.bytes().unwrap()),
        Type::Array => {
            let length = decoder.array().unwrap().unwrap();
            (0..length).map(|_| value(decoder)).collect()
        }
        Type::Map => {
            let length = decoder.map().unwrap().unwrap();
            let pairs = (0..length).map(|_| {
                let key = match value(decoder) {
                    Json::String(key) => key,
                    other => other.to_string(),
                };
                (key, value(decoder))
            });
            Json::Object(pairs.collect())
        }
        Type::Tag => json!([decoder.tag().unwrap().as_u64(), value(decoder)]),
        _ => json!(decoder.i64().unwrap()),
    }
}
