//! Fills a source: batches of rows become records in Redis or in the embedded store. Off the request path, and it waits.

use crate::record::KEY_BYTES_MAX;
use crate::source::{check_set, redis_key};
use crate::store::{StoreWriter, look};
use crate::{Record, link};
use flyball_core::Scalar;
use serde_json::Value as Json;
use std::path::PathBuf;
use std::time::Duration;

/// Waiting for an answer longer than this is a fault.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub enum PushTarget {
    /// Records are added and replaced one by one; none is removed, but by `expire_s`.
    Redis { url: String, expire_s: Option<u64> },
    /// The set is replaced as a whole when the push is done.
    Store { path: PathBuf },
}

/// Why nothing, or no more, is pushed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushFault {
    #[error("{0}")]
    Refused(String),
    /// Nobody answers there.
    #[error("{0}")]
    Unreachable(String),
}

impl From<String> for PushFault {
    fn from(text: String) -> PushFault {
        PushFault::Refused(text)
    }
}

/// What a push came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Rows that became records. A later row of the same key replaces the earlier.
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

    /// A JSON list of `[key, {field: value}]`. Either all rows of a batch are right or the first fault is told.
    pub fn put(&mut self, batch: &[u8]) -> Result<(), PushFault> {
        let rows: Vec<(String, serde_json::Map<String, Json>)> =
            serde_json::from_slice(batch).map_err(|error| format!("rows are not [key, fields]: {error}"))?;
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
            return Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes, and one has {}", key.len()));
        }
        let mut record = Record::new(Some(self.written_at_ms));
        let told = |fault| format!("key {key:?}: {fault}");
        for (name, value) in fields {
            record.put(name, scalar(value)).map_err(told)?;
        }
        let mut bytes = Vec::new();
        record.write(&mut bytes).map_err(told)?;
        Ok((key, bytes))
    }

    /// Until then the embedded store is as it was.
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

/// The bytes of one record as they lie there; none: no such key.
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
    let told = |error| PushFault::Unreachable(format!("no redis answers at {address}: {error}"));
    let connection = client.get_connection_with_timeout(ANSWER_MAX).map_err(told)?;
    connection.set_read_timeout(Some(ANSWER_MAX)).map_err(told)?;
    connection.set_write_timeout(Some(ANSWER_MAX)).map_err(told)?;
    Ok(connection)
}

fn failed(what: &str, error: &redis::RedisError) -> PushFault {
    if error.is_unrecoverable_error() || error.is_timeout() {
        return PushFault::Unreachable(format!("redis did not answer for {what}: {error}"));
    }
    PushFault::Refused(format!("redis refused {what}: {error}"))
}
