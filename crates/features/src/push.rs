//! Fills a source: batches of rows become records in Redis or the embedded store.
//!
//! Runs off the request path, and waits.

use crate::record::KEY_BYTES_MAX;
use crate::source::{check_set, redis_key};
use crate::store::{StoreWriter, look};
use crate::{Record, link};
use flyball_core::Scalar;
use serde_json::Value as Json;
use std::path::PathBuf;
use std::time::Duration;

/// A longer wait for a response is a fault.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub enum PushTarget {
    /// Adds and replaces records one by one; only `expire_s` removes any.
    Redis { url: String, expire_s: Option<u64> },
    /// Replaces the whole set when the push is done.
    Store { path: PathBuf },
}

/// Why a push failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushFault {
    #[error("{0}")]
    Refused(String),
    /// The server is unreachable.
    #[error("{0}")]
    Unreachable(String),
}

impl From<String> for PushFault {
    fn from(text: String) -> PushFault {
        PushFault::Refused(text)
    }
}

/// The result of a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Rows stored as records. A later row of the same key replaces the earlier.
    pub rows: u64,
    pub bytes: u64,
}

enum To {
    Redis { connection: Box<redis::Connection>, expire_s: Option<u64> },
    Store(Box<StoreWriter>),
}

pub struct Pusher {
    to: To,
    set: String,
    written_at_ms: i64,
    pushed: Pushed,
}

impl Pusher {
    pub fn begin(target: PushTarget, set: &str, written_at_ms: i64) -> Result<Pusher, PushFault> {
        check_set(set)?;
        let to = match target {
            PushTarget::Redis { url, expire_s } => {
                To::Redis { connection: Box::new(connect(&url)?), expire_s }
            }
            PushTarget::Store { path } => To::Store(Box::new(StoreWriter::begin(&path, set)?)),
        };
        Ok(Pusher { to, set: set.to_owned(), written_at_ms, pushed: Pushed::default() })
    }

    /// Adds a JSON list of `[key, {field: value}]`. All rows of a batch are valid, or the first fault is
    /// returned.
    pub fn put(&mut self, batch: &[u8]) -> Result<(), PushFault> {
        let rows: Vec<(String, serde_json::Map<String, Json>)> =
            serde_json::from_slice(batch).map_err(|error| format!("rows must be [key, fields]: {error}"))?;
        let mut records = Vec::with_capacity(rows.len());
        for (key, fields) in rows {
            records.push(self.record(key, &fields)?);
        }
        match &mut self.to {
            To::Store(writer) => writer.put(&records)?,
            To::Redis { connection, expire_s } => {
                let mut pipe = redis::pipe();
                for (key, record) in &records {
                    let set = pipe.cmd("SET").arg(redis_key(&self.set, key)).arg(record);
                    if let Some(expire_s) = *expire_s {
                        set.arg("EX").arg(expire_s);
                    }
                    set.ignore();
                }
                pipe.query::<()>(connection).map_err(|error| failed("a batch", &error))?;
            }
        }
        self.pushed.rows += records.len() as u64;
        self.pushed.bytes +=
            records.iter().map(|(key, record)| (key.len() + record.len()) as u64).sum::<u64>();
        Ok(())
    }

    fn record(
        &self,
        key: String,
        fields: &serde_json::Map<String, Json>,
    ) -> Result<(String, Vec<u8>), String> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(format!("a key must have 1 to {KEY_BYTES_MAX} bytes; one has {}", key.len()));
        }
        let mut record = Record::new(Some(self.written_at_ms));
        let named = |fault| format!("key {key:?}: {fault}");
        for (name, value) in fields {
            record.put(name, scalar(value)).map_err(named)?;
        }
        let mut bytes = Vec::new();
        record.write(&mut bytes).map_err(named)?;
        Ok((key, bytes))
    }

    /// Publishes the push. Until then the embedded store is unchanged.
    pub fn finish(self) -> Result<Pushed, PushFault> {
        if let To::Store(writer) = self.to {
            writer.finish()?;
        }
        Ok(self.pushed)
    }
}

fn scalar(value: &Json) -> Scalar<'_> {
    match value {
        Json::Null => Scalar::Null,
        Json::Bool(value) => Scalar::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Scalar::Int(value),
            (None, Some(value)) if number.is_f64() => Scalar::Float(value),
            _ => Scalar::Other("an integer beyond 64 bits"),
        },
        Json::String(value) => Scalar::Text(value),
        Json::Array(_) => Scalar::Other("a list"),
        Json::Object(_) => Scalar::Other("an object"),
    }
}

/// The stored bytes of one record; none: no such key.
pub fn get(target: &PushTarget, set: &str, key: &str) -> Result<Option<Vec<u8>>, PushFault> {
    check_set(set)?;
    match target {
        PushTarget::Store { path } => Ok(look(path, set, key)?),
        PushTarget::Redis { url, .. } => redis::cmd("GET")
            .arg(redis_key(set, key))
            .query(&mut connect(url)?)
            .map_err(|error| failed("a key", &error)),
    }
}

pub(crate) fn connect(url: &str) -> Result<redis::Connection, PushFault> {
    let client = link::client(url)?;
    let address = client.get_connection_info().addr().to_string();
    let unreachable = |error| PushFault::Unreachable(format!("no redis answers at {address}: {error}"));
    let connection = client.get_connection_with_timeout(ANSWER_MAX).map_err(unreachable)?;
    connection.set_read_timeout(Some(ANSWER_MAX)).map_err(unreachable)?;
    connection.set_write_timeout(Some(ANSWER_MAX)).map_err(unreachable)?;
    Ok(connection)
}

fn failed(what: &str, error: &redis::RedisError) -> PushFault {
    if error.is_unrecoverable_error() || error.is_timeout() {
        return PushFault::Unreachable(format!("redis did not answer to {what}: {error}"));
    }
    PushFault::Refused(format!("redis rejected {what}: {error}"))
}
