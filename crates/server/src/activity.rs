//! Tracks a connection's activity, to close idle connections and slow request heads.
//!
//! hyper's own header timeout also counts the idle time between requests, so it cannot distinguish the two. A refused
//! connection may also be left unread for a while ("parked"): when most requests are refused, refusals take the time
//! that responses need.

use crate::open_connections::Usage;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Counts time in ticks of the connection's watch, so that requests read no clock.
pub(crate) struct Activity {
    requests: Cell<usize>,
    /// Ticks since the first byte of an incomplete head, or on HTTP/2 of a preface or frame.
    in_head: Cell<Option<u32>>,
    /// Ticks without a change.
    still: Cell<u32>,
    /// The part that the acceptor sees.
    usage: Arc<Usage>,
    /// Nothing is read before this timer fires.
    parked: RefCell<Option<Pin<Box<Sleep>>>>,
    /// When bytes arrived that were left unread because of it.
    unread_since: Cell<Option<Instant>>,
}

impl Activity {
    /// `in_head_for`: ticks since the connection's first byte, if there is one.
    pub(crate) fn new(usage: Arc<Usage>, in_head_for: Option<u32>) -> Rc<Activity> {
        let (requests, in_head, still) = (Cell::new(0), Cell::new(in_head_for), Cell::new(0));
        let (parked, unread_since) = (RefCell::new(None), Cell::new(None));
        Rc::new(Activity { requests, in_head, still, usage, parked, unread_since })
    }

    /// Leaves the connection unread for a while.
    pub(crate) fn park(&self, time: Duration) {
        *self.parked.borrow_mut() = Some(Box::pin(tokio::time::sleep(time)));
    }

    /// How long the bytes that are read now were left unread.
    pub(crate) fn unread_for(&self) -> Duration {
        self.unread_since.take().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Ready once the connection may be read. `here`: whether bytes are waiting.
    pub(crate) fn poll_unparked(
        &self,
        context: &mut Context<'_>,
        here: impl FnOnce(&mut Context<'_>) -> bool,
    ) -> Poll<()> {
        let mut parked = self.parked.borrow_mut();
        let Some(alarm) = parked.as_mut() else { return Poll::Ready(()) };
        if alarm.as_mut().poll(context).is_ready() {
            *parked = None;
            return Poll::Ready(());
        }
        if self.unread_since.get().is_none() && here(context) {
            self.unread_since.set(Some(Instant::now()));
        }
        Poll::Pending
    }

    /// Requests in flight.
    pub(crate) fn requests(&self) -> usize {
        self.requests.get()
    }

    /// A head is complete and its request begins; it ends when the guard is dropped.
    pub(crate) fn request(self: &Rc<Activity>) -> InRequest {
        self.requests.set(self.requests.get() + 1);
        self.usage.begin();
        self.in_head.set(None);
        self.still.set(0);
        InRequest(Rc::clone(self))
    }

    /// Counts a tick; true once the connection has been idle, or in one head, for too long.
    pub(crate) fn overdue_at_tick(&self, head_ticks_max: u32, idle_ticks_max: u32) -> bool {
        if self.requests.get() > 0 {
            return false;
        }
        self.still.set(self.still.get().saturating_add(1));
        match self.in_head.get() {
            Some(ticks) => {
                self.in_head.set(Some(ticks.saturating_add(1)));
                ticks >= head_ticks_max
            }
            None => self.still.get() > idle_ticks_max,
        }
    }

    /// Bytes arrived. `unfinished`: a head or frame is still incomplete.
    pub(crate) fn bytes_came(&self, unfinished: bool) {
        if self.requests.get() > 0 {
            return;
        }
        match (unfinished, self.in_head.get()) {
            (true, None) => self.in_head.set(Some(0)),
            (false, Some(_)) => self.in_head.set(None),
            _ => {}
        }
    }

    /// A peer that reads a response, however slowly, is not idle.
    pub(crate) fn bytes_went(&self, count: usize) {
        self.still.set(0);
        // Smaller writes may be replies to HTTP/2 pings, which would make an unused connection look used.
        if count >= ANSWER_BYTES_MIN {
            self.usage.touch();
        }
    }
}

const ANSWER_BYTES_MIN: usize = 1024;

pub(crate) struct InRequest(Rc<Activity>);

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.requests.set(self.0.requests.get().saturating_sub(1));
        self.0.still.set(0);
        if self.0.requests.get() == 0 {
            self.0.usage.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_connections::OpenConnections;
    use crate::protocol_stream::ProtocolStream;
    use crate::stream::Stream;
    use std::future::poll_fn;
    use std::pin::pin;
    use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

    fn activity() -> Rc<Activity> {
        Activity::new(Arc::clone(&Arc::new(OpenConnections::default()).enter().usage), None)
    }

    #[test]
    fn a_connection_is_overdue_after_its_idle_ticks_and_sooner_inside_a_head() {
        let activity = activity();
        let ticks = |count: usize| (0..count).filter(|_| activity.overdue_at_tick(2, 5)).count();
        assert_eq!(ticks(5), 0);
        assert_eq!(ticks(1), 1, "idle for more than five ticks");
        activity.bytes_came(true);
        assert_eq!(ticks(2), 0);
        activity.bytes_came(true);
        assert_eq!(ticks(1), 1, "a head that arrives byte by byte does not restart the timer");
    }

    #[test]
    fn whole_control_frames_do_not_keep_an_idle_connection_and_what_is_written_does() {
        let activity = activity();
        let ticks = |count: usize| (0..count).filter(|_| activity.overdue_at_tick(2, 5)).count();
        activity.bytes_came(true);
        activity.bytes_came(false);
        assert_eq!(ticks(5), 0, "a whole frame ends what it began");
        activity.bytes_came(true);
        activity.bytes_came(false);
        assert_eq!(ticks(1), 1, "and is no reason to stay");
        activity.bytes_went(1);
        assert_eq!(ticks(5), 0);
        assert_eq!(ticks(1), 1);
    }

    #[test]
    fn time_that_passed_since_the_first_byte_counts_towards_the_first_head() {
        let usage = Arc::clone(&Arc::new(OpenConnections::default()).enter().usage);
        let activity = Activity::new(usage, Some(2));
        activity.bytes_came(true);
        assert!(!activity.overdue_at_tick(3, 9));
        assert!(activity.overdue_at_tick(3, 9));
    }

    #[test]
    fn a_connection_with_a_request_is_never_overdue() {
        let activity = activity();
        let request = activity.request();
        assert!((0..100).all(|_| !activity.overdue_at_tick(2, 5)));
        drop(request);
        assert!(!activity.overdue_at_tick(2, 5));
    }

    #[tokio::test]
    async fn what_is_sent_to_a_parked_connection_is_read_once_the_time_is_over() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = listener.accept().await.unwrap().0;
        let activity = activity();
        let mut stream = ProtocolStream::new(Stream::Tcp(socket), true, Rc::clone(&activity));
        activity.park(Duration::from_secs(3600));
        client.write_all(b"again").await.unwrap();
        assert!(
            poll_fn(|context| match stream.stream.bytes_are_here(context) {
                true => Poll::Ready(true),
                false => Poll::Pending,
            })
            .await
        );
        let mut bytes = [0; 8];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut read = pin!(poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut buffer)));
        let pending = poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await;
        assert!(pending && activity.unread_since.get().is_some());
        // From here on nothing but the alarm can wake the reader: time jumps to it when all else is still.
        tokio::time::pause();
        read.await.unwrap();
        assert_eq!(buffer.filled(), b"again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_parked_connection_is_not_read_and_knows_how_long_its_bytes_lay_there() {
        let activity = activity();
        let look = |here: bool| poll_fn(move |context| Poll::Ready((here, context.waker().clone())));
        let unparked = |here: bool| {
            let activity = Rc::clone(&activity);
            async move {
                let (here, waker) = look(here).await;
                activity.poll_unparked(&mut Context::from_waker(&waker), |_| here).is_ready()
            }
        };
        assert!(unparked(true).await, "nothing holds it back");
        activity.park(Duration::from_millis(20));
        assert!(!unparked(false).await);
        assert_eq!(activity.unread_for(), Duration::ZERO);
        assert!(!unparked(true).await);
        tokio::time::advance(Duration::from_millis(21)).await;
        assert!(unparked(true).await);
        assert!(activity.unread_since.get().is_some());
        assert!(activity.unread_for() > Duration::ZERO);
        assert_eq!(activity.unread_for(), Duration::ZERO, "told once");
    }
}
