//! Reading request bodies: never more than the limit, never longer than the timeout.

use crate::ServerConfig;
use bytes::{Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, Stage};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

/// A client that sent too much is heard out for this long, so that it gets to read the refusal instead of a reset.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A bound on what the bodies of all requests take together: a limit on one body does not bound a thousand streams.
pub(crate) struct BodyBudget {
    taken: AtomicUsize,
    bytes_max: usize,
}

impl BodyBudget {
    /// This many bodies of the largest size may be in memory at once.
    const LARGEST_AT_ONCE: usize = 16;

    pub(crate) fn new(body_bytes_max: usize) -> BodyBudget {
        let bytes_max = body_bytes_max.saturating_mul(BodyBudget::LARGEST_AT_ONCE);
        BodyBudget { taken: AtomicUsize::new(0), bytes_max }
    }

    /// One request's part, to be held for as long as its body is.
    pub(crate) fn part(&self) -> BodyPart<'_> {
        BodyPart { budget: self, bytes: Cell::new(0) }
    }
}

pub(crate) struct BodyPart<'b> {
    budget: &'b BodyBudget,
    bytes: Cell<usize>,
}

impl BodyPart<'_> {
    /// Bodies below this are bounded well enough by the number of connections, and cost no shared counter.
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
}

impl Drop for BodyPart<'_> {
    fn drop(&mut self) {
        if self.bytes.get() > 0 {
            self.budget.taken.fetch_sub(self.bytes.get(), Ordering::Relaxed);
        }
    }
}

pub(crate) async fn read(
    body: Incoming,
    http2: bool,
    config: &ServerConfig,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    read_up_to(config.body_bytes_max, body, http2, config, part).await
}

async fn read_up_to(
    bytes_max: usize,
    mut body: Incoming,
    http2: bool,
    config: &ServerConfig,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    let result = {
        let mut read = pin!(read_all(&mut body, bytes_max, http2, part));
        // Most bodies came with their head; a timer is only set up for those that did not.
        match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
            Poll::Ready(result) => result,
            Poll::Pending => within(config.body_timeout(), read).await,
        }
    };
    if result.as_ref().is_err_and(|fault| fault.kind == FaultKind::BodyTooLarge) {
        let _ = tokio::time::timeout(LINGER_MAX, discard(&mut body, config.body_bytes_max)).await;
    }
    result
}

/// Reads the body of a caller in good standing. Another is heard out for a moment, without anything being kept, so that
/// it gets to read why it is refused.
pub(crate) async fn read_from(
    standing: Result<(), Fault>,
    body: Incoming,
    http2: bool,
    config: &ServerConfig,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    read_from_up_to(config.body_bytes_max, standing, body, http2, config, part).await
}

/// The same, for requests whose bodies have a limit of their own.
pub(crate) async fn read_from_up_to(
    bytes_max: usize,
    standing: Result<(), Fault>,
    mut body: Incoming,
    http2: bool,
    config: &ServerConfig,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    if standing.is_err() {
        let _ = tokio::time::timeout(LINGER_MAX, discard(&mut body, config.body_bytes_max)).await;
    }
    standing?;
    read_up_to(bytes_max, body, http2, config, part).await
}

async fn within(timeout: Duration, read: impl Future<Output = Result<Bytes, Fault>>) -> Result<Bytes, Fault> {
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_elapsed| {
        let text = format!("the body did not arrive within {} ms", timeout.as_millis());
        Err(Fault::new(FaultKind::BodyTimeout, Stage::Parse, text))
    })
}

async fn read_all(
    body: &mut Incoming,
    bytes_max: usize,
    http2: bool,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    let too_large = || {
        let text = format!("the body is larger than {bytes_max} bytes, the server's limit (body_bytes_max)");
        Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text)
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    // Most bodies come in one piece, which is then used as it is.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| gone(&error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + rest.len() + piece.len() > bytes_max {
            return Err(too_large());
        }
        part.grow_to(first.len() + rest.len() + piece.len())?;
        if first.is_empty() {
            first = piece;
        } else {
            if rest.is_empty() {
                // What the head promised is not believed before it comes: only what is counted is reserved.
                rest.reserve(piece.len());
            }
            rest.extend_from_slice(&piece);
        }
    }
    // hyper ends the body of a cancelled HTTP/2 stream as if it were whole.
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

pub(crate) fn gone(why: &str) -> Fault {
    Fault::new(FaultKind::ClientGone, Stage::Parse, format!("the body broke off: {why}"))
}

/// Hears a body out that nothing is made of.
pub(crate) async fn pass_over(body: &mut Incoming, config: &ServerConfig) -> Result<(), Fault> {
    let passed = within(config.body_timeout(), async {
        discard(body, config.body_bytes_max).await;
        Ok(Bytes::new())
    });
    passed.await?;
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
        let budget = BodyBudget::new(1 << 20);
        let parts: Vec<_> = (0..BodyBudget::LARGEST_AT_ONCE).map(|_| budget.part()).collect();
        assert!(parts.iter().all(|part| part.grow_to(1 << 19).and_then(|()| part.grow_to(1 << 20)).is_ok()));
        let refused = budget.part();
        assert_eq!(refused.grow_to(1 << 20).unwrap_err().kind, FaultKind::InFlightFull);
        drop((parts, refused));
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_bodies_do_not_touch_the_shared_counter() {
        let budget = BodyBudget::new(1 << 20);
        let part = budget.part();
        assert!(part.grow_to(1000).is_ok());
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
    }
}
