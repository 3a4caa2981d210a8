//! Whether a window has covered its full length of event time. Until then it is warming up.
//!
//! Quiet times count: that nothing happened is known too. But if event time leaps ahead by more than a window
//! while the clock did not, the earlier events were from another period, and warm-up starts again.

use crate::window::span::{EventTime, Span};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The time of the first event.
    pub(crate) since_ms: i64,
    /// The newest event, to a bucket's width.
    pub(crate) newest_ms: i64,
    /// The wall time of that event, corrected for late arrival by the quickest one before it.
    pub(crate) wall_ms: i64,
}

#[derive(Debug)]
pub(crate) struct Warmth {
    /// Copies for readers, which take no lock.
    since_ms: AtomicI64,
    next_ms: AtomicI64,
    marks: Mutex<Option<Marks>>,
}

const NEVER: i64 = i64::MAX;

impl Warmth {
    pub(crate) fn new(marks: Option<Marks>, span: &Span) -> Warmth {
        let warmth = Warmth {
            since_ms: AtomicI64::new(NEVER),
            next_ms: AtomicI64::new(i64::MIN),
            marks: Mutex::new(marks),
        };
        if let Some(marks) = marks {
            warmth.show(&marks, span);
        }
        warmth
    }

    fn show(&self, marks: &Marks, span: &Span) {
        self.since_ms.store(marks.since_ms, Ordering::Relaxed);
        self.next_ms.store(marks.newest_ms.saturating_add(span.width_ms), Ordering::Relaxed);
    }

    /// Notes an added event.
    pub(crate) fn note(&self, span: &Span, when: EventTime, wall_ms: i64) {
        // Sixty times a window, not for every event.
        if when.at_ms < self.next_ms.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut marks) = self.marks.lock() else { return };
        let noted = match *marks {
            None => Marks { since_ms: when.at_ms, newest_ms: when.at_ms, wall_ms },
            Some(before) => before.after(span, when.at_ms, wall_ms),
        };
        *marks = Some(noted);
        self.show(&noted, span);
    }

    pub(crate) fn warm(&self, span: &Span, when: EventTime) -> bool {
        when.at_ms.saturating_sub(self.since_ms.load(Ordering::Relaxed)) >= span.last_ms
    }

    pub(crate) fn marks(&self) -> Option<Marks> {
        self.marks.lock().ok().and_then(|marks| *marks)
    }
}

impl Marks {
    fn after(self, span: &Span, at_ms: i64, wall_ms: i64) -> Marks {
        if at_ms < self.newest_ms + span.width_ms {
            return self;
        }
        let gap = at_ms - self.newest_ms;
        let leapt = gap > span.last_ms && gap > wall_ms - self.wall_ms + span.last_ms;
        if leapt {
            return Marks { since_ms: at_ms, newest_ms: at_ms, wall_ms };
        }
        // A late event must not make the next, timely one look like a leap.
        Marks { newest_ms: at_ms, wall_ms: wall_ms.min(self.wall_ms.saturating_add(gap)), ..self }
    }
}
