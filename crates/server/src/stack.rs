//! The stages of a connection and of a request on it. Transport only; knows nothing of models.
//!
//! A connection: first bytes → protocol → time limits → eviction → drain. A request: room for its stream → host →
//! enter (its head was read) → finish (its reply).

use crate::activity::Activity;
use crate::callers::{Peer, Visitor};
use crate::drain::Phase;
use crate::lane_thread::LaneContext;
use crate::open_connections::Usage;
use crate::open_streams::STRANGER_MAX;
use crate::protocol_stream::ProtocolStream;
use crate::reply::{Lasting, Reply};
use crate::stream::Stream;
use crate::{grpc, hosts, http};
use ::http::{HeaderValue, Request, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Maximum unprocessed streams that a peer opened and reset; more end the connection ("rapid reset").
const RESETS_WAITING_MAX: usize = 20;
/// Maximum streams that we reset for protocol errors; more end the connection.
const RESETS_OF_OURS_MAX: usize = 1024;
const WINDOW_BYTES: u32 = 1 << 20;
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
const PREFACE: &[u8] = b"PRI ";

/// Serves one connection until it ends.
pub(crate) async fn connection(context: Rc<LaneContext>, stream: Stream, peer: Peer, usage: &Arc<Usage>) {
    let config = &context.shared.config;
    let first = tokio::select! {
        first = spoken(&context, &stream) => first,
        () = usage.evicted() => return,
    };
    let Some((protocol, first_byte_at)) = first else { return };
    let in_head_for = first_byte_at.map(|at: Instant| whole_ticks(at.elapsed()));
    let activity = Activity::new(Arc::clone(usage), in_head_for);
    let (head, idle) = (ticks(config.header_timeout_ms), ticks(config.idle_timeout_ms));
    let overdue = || activity.overdue_at_tick(head, idle);
    let http1 = matches!(protocol, Protocol::Http1);
    let io = TokioIo::new(ProtocolStream::new(stream, http1, Rc::clone(&activity)));
    let service = {
        let (context, activity) = (Rc::clone(&context), Rc::clone(&activity));
        let known = Cell::new(http1 || context.shared.callers.is_none());
        service_fn(move |request| {
            // Entered here and not in the future: hyper drops the future without polling it if the client has
            // already left, and a request whose head was read must be counted.
            let entered = match Room::take(&context, &activity, &peer, &known, &request, http1) {
                None => Err(h2::Error::from(h2::Reason::REFUSED_STREAM)),
                Some(room) => {
                    let in_request = activity.request();
                    Ok((room, in_request, enter(&context, &peer, request, activity.unread_for())))
                }
            };
            let (context, activity) = (Rc::clone(&context), Rc::clone(&activity));
            async move {
                let (room, in_request, call) = entered?;
                let reply = finish(&context, call).await;
                // An HTTP/2 connection is never left unread, because it carries other requests.
                if let Some(pause) = context.pause_after(&reply).filter(|_| http1) {
                    activity.park(pause);
                }
                // A request lasts until its last byte is sent: a health watch does not make a connection idle.
                let _until_sent = (in_request, room);
                Ok::<_, h2::Error>(reply.map(|body| Lasting { body, _until_sent }))
            }
        })
    };
    match protocol {
        Protocol::Http1 => {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(None)
                .max_buf_size(config.header_bytes_max)
                // Responses are small: one buffer costs the kernel less than two (1 % more requests a second).
                .writev(false)
                .serve_connection(io, service);
            drive(&context, connection, Phase::Closing, overdue, usage).await;
        }
        Protocol::Http2 => {
            let connection = http2::Builder::new(LocalExecutor)
                .timer(TokioTimer::new())
                .max_concurrent_streams(u32::try_from(config.streams_max).unwrap_or(u32::MAX))
                .max_pending_accept_reset_streams(RESETS_WAITING_MAX)
                .max_local_error_reset_streams(RESETS_OF_OURS_MAX)
                .max_header_list_size(u32::try_from(config.header_bytes_max).unwrap_or(u32::MAX))
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES * 4)
                .keep_alive_interval(Duration::from_millis(config.idle_timeout_ms))
                .serve_connection(io, service);
            drive(&context, connection, Phase::LameDuck, overdue, usage).await;
        }
    }
}

/// An HTTP/2 request's slot among all open streams, released when dropped.
///
/// HTTP/1 has one request per connection, and connections are counted.
struct Room(Option<(Rc<LaneContext>, usize)>);

impl Room {
    /// `None` if there is no room. A connection is a stranger's until a known caller has used it.
    fn take(
        context: &Rc<LaneContext>,
        activity: &Activity,
        peer: &Peer,
        known: &Cell<bool>,
        request: &Request<Incoming>,
        http1: bool,
    ) -> Option<Room> {
        if http1 {
            return Some(Room(None));
        }
        let headers = request.headers();
        if !known.get() {
            known.set(!matches!(context.visitor(peer, headers), Visitor::Nobody(_)));
        }
        let streams = &context.shared.streams;
        if !known.get() && activity.requests() >= STRANGER_MAX {
            streams.refuse();
            return None;
        }
        let head_bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        let entered = streams.enter(head_bytes, !known.get());
        entered.then(|| Room(Some((Rc::clone(context), head_bytes))))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((context, head_bytes)) = &self.0 {
            context.shared.streams.leave(*head_bytes);
        }
    }
}

/// A time in ticks of the watch, rounded up.
fn ticks(ms: u64) -> u32 {
    u32::try_from(u128::from(ms).div_ceil(WATCH_INTERVAL.as_millis())).unwrap_or(u32::MAX)
}

/// A time in complete ticks.
fn whole_ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / WATCH_INTERVAL.as_millis()).unwrap_or(u32::MAX)
}

#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

/// The peer's protocol, from TLS or its first bytes, and when the first byte arrived.
async fn spoken(context: &LaneContext, stream: &Stream) -> Option<(Protocol, Option<Instant>)> {
    match stream.agreed_on_http2() {
        Some(true) => Some((Protocol::Http2, None)),
        Some(false) => Some((Protocol::Http1, None)),
        None => first_bytes(context, stream).await.map(|(protocol, at)| (protocol, Some(at))),
    }
}

/// Peeks at the first bytes. `None` if the peer left or is too slow, or if the server drains.
async fn first_bytes(context: &LaneContext, stream: &Stream) -> Option<(Protocol, Instant)> {
    const RETRY_FIRST: Duration = Duration::from_millis(5);
    let config = &context.shared.config;
    let mut bytes = [0; PREFACE.len()];
    // A peek returns at once if one byte is there, so the rest of the preface is awaited with growing pauses; they add
    // up to at most the time for a head.
    let mut pause = RETRY_FIRST;
    let mut first_byte_at = None;
    loop {
        let peek =
            tokio::time::timeout(Duration::from_millis(config.idle_timeout_ms), stream.peek(&mut bytes));
        let length = tokio::select! {
            peeked = peek => peeked.ok()?.ok()?,
            () = context.shared.drain.reached(Phase::Closing) => return None,
        };
        let since = *first_byte_at.get_or_insert_with(Instant::now);
        let seen = &bytes[..length];
        match seen {
            [] => return None,
            PREFACE => return Some((Protocol::Http2, since)),
            _ if PREFACE.starts_with(seen) => {
                let left = Duration::from_millis(config.header_timeout_ms).checked_sub(since.elapsed())?;
                tokio::time::sleep(pause.min(left)).await;
                pause *= 2;
            }
            _ => return Some((Protocol::Http1, since)),
        }
    }
}

/// Polls a connection to its end.
///
/// Shuts it down gracefully when `leave_at` is reached, and drops it when it is overdue or evicted.
async fn drive<C: GracefulConnection>(
    context: &LaneContext,
    connection: C,
    leave_at: Phase,
    overdue: impl Fn() -> bool,
    usage: &Usage,
) {
    let mut connection = pin!(connection);
    let mut leave = pin!(context.shared.drain.reached(leave_at));
    let mut evicted = pin!(usage.evicted());
    let mut leaving = false;
    let mut watch = tokio::time::interval(WATCH_INTERVAL);
    loop {
        tokio::select! {
            biased;
            // Connection errors are the peer's fault; its requests were counted by their walks.
            _ended = connection.as_mut() => return,
            () = leave.as_mut(), if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            _tick = watch.tick() => if overdue() { return },
            () = evicted.as_mut() => {
                // One more poll, so that an HTTP/2 peer reads GOAWAY. No wait for a response: another connection needs the
                // slot.
                connection.as_mut().graceful_shutdown();
                poll_fn(|context| Poll::Ready(connection.as_mut().poll(context).is_ready())).await;
                return;
            }
        }
    }
}

/// A request whose head has been read.
struct Call {
    version: Version,
    surface: Surface,
}

enum Surface {
    Http(http::Call),
    Grpc(grpc::Call),
    /// Refused because of its head.
    Refused(Reply),
}

fn enter(context: &Rc<LaneContext>, peer: &Peer, request: Request<Incoming>, unread: Duration) -> Call {
    let version = request.version();
    let grpc = grpc::is_grpc(request.headers());
    let misdirected = peer
        .hosts
        .as_deref()
        .and_then(|served| hosts::check(served, version, request.uri(), request.headers()).err());
    let surface = if let Some((status, text)) = misdirected {
        let grpc = grpc && version == Version::HTTP_2;
        Surface::Refused(if grpc { grpc::misdirected(&text) } else { http::malformed(status, &text) })
    } else if grpc {
        if version == Version::HTTP_2 {
            Surface::Grpc(grpc::enter(context, peer, request))
        } else {
            // Without HTTP/2 there are no trailers, and hence no gRPC status.
            Surface::Http(http::Call::needs_http2())
        }
    } else {
        Surface::Http(http::enter(context, peer, request, unread))
    };
    Call { version, surface }
}

async fn finish(context: &LaneContext, call: Call) -> Reply {
    let mut reply = match call.surface {
        Surface::Http(call) => http::finish(context, call).await,
        Surface::Grpc(call) => grpc::finish(context, call).await,
        Surface::Refused(reply) => reply,
    };
    if reply.status() == StatusCode::UNAUTHORIZED {
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if call.version < Version::HTTP_2 && context.shared.drain.leaving() {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// Runs the streams of an HTTP/2 connection on its own lane.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        // Owned by the lane's LocalSet, which ends with the lane's thread.
        drop(tokio::task::spawn_local(async move {
            let _ = future.await;
        }));
    }
}
