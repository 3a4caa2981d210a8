//! A window in Redis, shared by replicas.
//!
//! One script adds and reads in one round trip, by the rules of the embedded one.

use crate::link::Link;
use crate::window::span::{AHEAD_MS_MAX, EventTime};
use crate::window::tally::{Gain, Total, VALUES_MAX};
use crate::window::{Event, WindowState, Windowed};
use crate::{LookupError, SourceKind, push};
use flyball_core::WindowOp;
use redis::Script;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

/// Marks outlive quiet weeks.
const MARKS_LIVE_MS: i64 = 7 * 24 * 3_600_000;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("shared.lua")));

impl WindowState {
    /// The value as of the event, which is added if it is real. Without a timely response, it is unknown
    /// whether it was.
    pub(crate) async fn ask(
        &self,
        link: &Rc<Link>,
        event: &Event<'_>,
        wall_ms: i64,
        limit: Duration,
    ) -> Windowed {
        let gain = match self.gain(event) {
            Ok(gain) => gain,
            Err(why) => return self.failed(why),
        };
        let when = self.span.when(event.at_ms, wall_ms);
        let write = event.write && !when.ahead && gain.is_some();
        let call = self.call(event, gain, when, write, wall_ms);
        let answer = link
            .ask(limit, async |connection| call.invoke_async::<[String; 4]>(connection).await)
            .await
            .and_then(Answer::read);
        match answer {
            Err(why) => self.failed(why),
            Ok(answer) => {
                self.count(event, gain, when, matches!(answer, Answer::Late));
                match answer {
                    Answer::Late => Windowed::Late,
                    Answer::Warming => Windowed::Warming,
                    Answer::Warm(total) => self.value(total),
                }
            }
        }
    }

    /// The newest event that replicas counted, to a bucket's width.
    pub(crate) async fn newest_shared(
        &self,
        link: &Rc<Link>,
        limit: Duration,
    ) -> Result<Option<i64>, LookupError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.marks_key()).arg("newest");
        let newest: Option<f64> =
            link.ask(limit, async |connection| command.query_async(connection).await).await?;
        Ok(newest.map(|newest| newest as i64))
    }

    fn marks_key(&self) -> String {
        format!("flyball:window:{}", self.table)
    }

    fn call(
        &self,
        event: &Event<'_>,
        gain: Option<Gain>,
        when: EventTime,
        write: bool,
        wall_ms: i64,
    ) -> redis::ScriptInvocation<'static> {
        let span = &self.span;
        let numeric = self.def.op != WindowOp::Distinct;
        let gain = match gain {
            None => String::new(),
            Some(Gain::Number(number)) => number.to_string(),
            Some(Gain::Value(value)) => format!("{value:032x}"),
        };
        let key_lives_ms = 2 * (span.last_ms + span.width_ms) + AHEAD_MS_MAX;
        let mut call = SCRIPT.prepare_invoke();
        call.key(format!("flyball:window:{}:{}", self.table, event.key))
            .key(self.marks_key())
            .arg(if numeric { "number" } else { "value" })
            .arg(when.bucket)
            .arg(span.count)
            .arg(gain)
            .arg(u8::from(event.current))
            .arg(u8::from(write))
            .arg(when.at_ms)
            .arg(span.last_ms)
            .arg(span.width_ms)
            .arg(wall_ms)
            .arg(VALUES_MAX)
            .arg(key_lives_ms)
            .arg(2 * span.last_ms + MARKS_LIVE_MS);
        call
    }
}

/// Removes keys from a window in Redis; returns how many it had.
pub(crate) fn erase(window: &WindowState, keys: &[String]) -> Result<u64, String> {
    let Some(SourceKind::Redis { url, .. }) = window.def.source.as_ref().map(|source| &source.0.def.kind)
    else {
        return Ok(0);
    };
    let mut command = redis::cmd("DEL");
    keys.iter().for_each(|key| _ = command.arg(format!("flyball:window:{}:{key}", window.table)));
    let mut connection = push::connect(url).map_err(|fault| fault.to_string())?;
    command.query(&mut connection).map_err(|error| format!("redis did not remove a window's key: {error}"))
}

enum Answer {
    Late,
    Warming,
    Warm(Total),
}

impl Answer {
    fn read([state, count, sum, saturated]: [String; 4]) -> Result<Answer, LookupError> {
        let count: f64 = count.parse().map_err(|_| LookupError::Bad)?;
        let sum: f64 = sum.parse().map_err(|_| LookupError::Bad)?;
        // No key has more events than a double can count.
        let total = Total { count: count as u64, sum, saturated: saturated == "1" };
        match state.as_str() {
            "late" => Ok(Answer::Late),
            "warming" => Ok(Answer::Warming),
            "warm" => Ok(Answer::Warm(total)),
            _ => Err(LookupError::Bad),
        }
    }
}
