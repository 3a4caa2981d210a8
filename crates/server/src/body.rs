//! Reads request bodies within limits on size, time and total memory.

use crate::ServerConfig;
use bytes::{Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, Stage, triton_texts};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

/// How long the rest of a refused body is read, so that the client sees the refusal and not a reset.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// Limits the memory that the bodies of all requests take together.
///
/// A limit on one body does not bound a thousand streams.
pub(crate) struct BodyBudget {
    taken: AtomicUsize,
    bytes_max: usize,
    body_bytes_max: usize,
    timeout: Duration,
}

impl BodyBudget {
    /// This many bodies of the largest size may be in memory at once.
    const LARGEST_AT_ONCE: usize = 16;

    /// `timeout`: how long one body may take to arrive.
    pub(crate) fn new(body_bytes_max: usize, timeout: Duration) -> BodyBudget {
        let bytes_max = body_bytes_max.saturating_mul(BodyBudget::LARGEST_AT_ONCE);
        BodyBudget { taken: AtomicUsize::new(0), bytes_max, body_bytes_max, timeout }
    }

    /// The share of one request; hold it for as long as the body is in memory.
    pub(crate) fn part(&self) -> BodyPart<'_> {
        BodyPart { budget: self, bytes: Cell::new(0) }
    }
}

pub(crate) struct BodyPart<'b> {
    budget: &'b BodyBudget,
    bytes: Cell<usize>,
}

impl BodyPart<'_> {
    /// The number of connections bounds smaller bodies well enough; they skip the shared counter.
    const COUNTED_FROM: usize = 64 << 10;

    pub(crate) fn grow_to(&self, length: usize) -> Result<(), Fault> {
        let more = length.saturating_sub(self.bytes.get());
        if length < BodyPart::COUNTED_FROM || more == 0 {
            return Ok(());
        }
        self.bytes.set(self.bytes.get() + more);
        if self.budget.taken.fetch_add(more, Ordering::Relaxed) + more <= self.budget.bytes_max {
            return Ok(());
        }
        let text = format!(
            "the bodies in flight take {} bytes, the server's limit; try again shortly",
            self.budget.bytes_max
        );
        Err(Fault::new(FaultKind::InFlightFull, Stage::Parse, text))
    }

    /// Reads a body of at most `body_bytes_max` bytes.
    pub(crate) async fn read(
        &self,
        admitted: Result<(), Fault>,
        body: Incoming,
        http2: bool,
    ) -> Result<Bytes, Fault> {
        self.read_up_to(self.budget.body_bytes_max, admitted, body, http2).await
    }

    /// Reads a body whose caller is admitted.
    ///
    /// The rest of a refused or oversized body is discarded for a moment, so that the client reads the refusal.
    pub(crate) async fn read_up_to(
        &self,
        bytes_max: usize,
        admitted: Result<(), Fault>,
        mut body: Incoming,
        http2: bool,
    ) -> Result<Bytes, Fault> {
        let refused = admitted.is_err();
        let result = match admitted {
            Err(fault) => Err(fault),
            Ok(()) => {
                let mut read = pin!(self.read_all(&mut body, bytes_max, http2));
                // Most bodies arrive with their head; only the others need a timer.
                match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
                    Poll::Ready(result) => result,
                    Poll::Pending => within(self.budget.timeout, read).await,
                }
            }
        };
        if refused || result.as_ref().is_err_and(|fault| fault.kind == FaultKind::BodyTooLarge) {
            let rest = discard(&mut body, self.budget.body_bytes_max);
            let _ = tokio::time::timeout(LINGER_MAX, rest).await;
        }
        result
    }

    async fn read_all(&self, body: &mut Incoming, bytes_max: usize, http2: bool) -> Result<Bytes, Fault> {
        let too_large = || {
            let text =
                format!("the body's size {} of {bytes_max} bytes (body_bytes_max)", triton_texts::EXCEEDS);
            Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text)
        };
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(too_large());
        }
        // Most bodies come in one piece, which is used without a copy.
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| gone(&error.to_string()))?;
            let Ok(piece) = frame.into_data() else { continue };
            if first.len() + rest.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            self.grow_to(first.len() + rest.len() + piece.len())?;
            if first.is_empty() {
                first = piece;
            } else {
                if rest.is_empty() {
                    // Reserves what has arrived and is counted, not what the head announced.
                    rest.reserve(piece.len());
                }
                rest.extend_from_slice(&piece);
            }
        }
        // hyper ends the body of a cancelled HTTP/2 stream as if it were complete.
        if http2 && !body.is_end_stream() {
            return Err(gone("the stream was cancelled"));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(first.len() + rest.len());
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&rest);
        Ok(whole.freeze())
    }
}

impl Drop for BodyPart<'_> {
    fn drop(&mut self) {
        if self.bytes.get() > 0 {
            self.budget.taken.fetch_sub(self.bytes.get(), Ordering::Relaxed);
        }
    }
}

async fn within<T>(timeout: Duration, read: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_elapsed| {
        let text = format!("the body did not arrive within {} ms", timeout.as_millis());
        Err(Fault::new(FaultKind::BodyTimeout, Stage::Parse, text))
    })
}

pub(crate) fn gone(why: &str) -> Fault {
    Fault::new(FaultKind::ClientGone, Stage::Parse, format!("the body broke off: {why}"))
}

/// Reads a body to its end without using it.
pub(crate) async fn skip(body: &mut Incoming, config: &ServerConfig) -> Result<(), Fault> {
    let skipped = async {
        discard(body, config.body_bytes_max).await;
        Ok(())
    };
    within(config.body_timeout(), skipped).await?;
    if body.is_end_stream() { Ok(()) } else { Err(gone("it is cancelled, or larger than body_bytes_max")) }
}

async fn discard(body: &mut Incoming, bytes_max: usize) {
    let mut left = bytes_max;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(less) => left = less,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_together_stay_within_the_budget_and_give_their_part_back() {
        let budget = BodyBudget::new(1 << 20, Duration::ZERO);
        let parts: Vec<_> = (0..BodyBudget::LARGEST_AT_ONCE).map(|_| budget.part()).collect();
        assert!(parts.iter().all(|part| part.grow_to(1 << 19).and_then(|()| part.grow_to(1 << 20)).is_ok()));
        let refused = budget.part();
        assert_eq!(refused.grow_to(1 << 20).unwrap_err().kind, FaultKind::InFlightFull);
        drop((parts, refused));
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_bodies_do_not_touch_the_shared_counter() {
        let budget = BodyBudget::new(1 << 20, Duration::ZERO);
        let part = budget.part();
        assert!(part.grow_to(1000).is_ok());
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
    }
}
