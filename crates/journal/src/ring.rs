//! A lock-free, bounded ring between one lane and the writer: records out, empty ones back.
//!
//! Knows the age of the oldest record and the total size, not their content.

use crate::sync::{ArrayQueue, AtomicU64, AtomicUsize, Ordering};
use flyball_core::JournalRecord;

pub(crate) const RING_RECORDS: usize = 8192;
pub(crate) const RING_BYTES_MAX: usize = 32 << 20;
/// More than wait at once on a lane that keeps up.
const BLANKS_MAX: usize = 1024;
/// A buffer that one long record enlarged is not kept for short ones.
const BLANK_BYTES_MAX: usize = 64 << 10;

pub(crate) struct Ring {
    records: ArrayQueue<Box<JournalRecord>>,
    blanks: ArrayQueue<Box<JournalRecord>>,
    bytes: AtomicUsize,
    offered: AtomicU64,
    /// When the oldest record came, or earlier. Meaningless while the ring is empty.
    since_ns: AtomicU64,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            records: ArrayQueue::new(RING_RECORDS),
            blanks: ArrayQueue::new(BLANKS_MAX),
            bytes: AtomicUsize::new(0),
            offered: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
        }
    }
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// All records ever offered.
    pub(crate) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// Since when the oldest record waits.
    pub(crate) fn since_ns(&self) -> Option<u64> {
        (!self.records.is_empty()).then(|| self.since_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn blank(&self) -> Box<JournalRecord> {
        self.blanks.pop().unwrap_or_default()
    }

    /// Pushes a record and returns its number from one. Returns the record if full, which never happens with
    /// a reserved slot.
    pub(crate) fn push(
        &self,
        record: Box<JournalRecord>,
        now_ns: impl FnOnce() -> u64,
    ) -> Result<u64, Box<JournalRecord>> {
        if self.records.is_empty() {
            self.since_ns.store(now_ns(), Ordering::Relaxed);
        }
        let bytes = weight(&record);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        match self.records.push(record) {
            Ok(()) => Ok(self.offered.fetch_add(1, Ordering::Relaxed) + 1),
            Err(record) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                Err(record)
            }
        }
    }

    /// Takes the records that are present, at most `most`, and returns how many.
    pub(crate) fn drain(&self, most: usize, now_ns: u64, mut take: impl FnMut(Box<JournalRecord>)) -> usize {
        let length = self.records.len();
        for taken in 0..length.min(most) {
            let Some(record) = self.records.pop() else { return taken };
            self.bytes.fetch_sub(weight(&record), Ordering::Relaxed);
            take(record);
        }
        if length <= most {
            // The remaining records came after the length was read. A lane may have stored a later time
            // meanwhile; the earlier one is only more careful, until the next round.
            self.since_ns.store(now_ns, Ordering::Relaxed);
        }
        length.min(most)
    }

    pub(crate) fn give_back(&self, mut record: Box<JournalRecord>) {
        record.clear();
        if weight_of_buffers(&record) <= BLANK_BYTES_MAX {
            // With enough blanks, this one is freed.
            let _ = self.blanks.push(record);
        }
    }
}

fn weight(record: &JournalRecord) -> usize {
    let JournalRecord { pairs, input, personal, subject, .. } = record;
    size_of::<JournalRecord>() + pairs.len() + input.len() + personal.len() + subject.len()
}

fn weight_of_buffers(record: &JournalRecord) -> usize {
    let JournalRecord { pairs, input, personal, subject, .. } = record;
    pairs.capacity() + input.capacity() + personal.capacity() + subject.capacity()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::DecisionId;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn record(number: u64, bytes: usize) -> Box<JournalRecord> {
        Box::new(JournalRecord {
            id: DecisionId(u128::from(number)),
            pairs: vec![0; bytes],
            ..JournalRecord::default()
        })
    }

    proptest! {
        #[test]
        fn a_ring_gives_what_it_took_in_order_and_knows_what_it_holds(
            steps in prop::collection::vec((any::<bool>(), 1..200_usize), 1..200),
        ) {
            let ring = Ring::default();
            let mut model = VecDeque::new();
            let mut offered = 0;
            for (now, (push, count)) in steps.into_iter().enumerate() {
                let now = now as u64 + 1;
                if push {
                    for bytes in 0..count {
                        offered += 1;
                        prop_assert_eq!(ring.push(record(offered, bytes), || now).unwrap(), offered);
                        model.push_back((offered, size_of::<JournalRecord>() + bytes, now));
                    }
                } else {
                    let mut taken = Vec::new();
                    let had = model.len().min(count);
                    let drained = ring.drain(count, now, |record| taken.push(record.id.0 as u64));
                    let expected: Vec<u64> = model.drain(..had).map(|(number, ..)| number).collect();
                    prop_assert_eq!((drained, taken), (had, expected));
                }
                prop_assert_eq!((ring.len(), ring.offered()), (model.len(), offered));
                prop_assert_eq!(ring.bytes(), model.iter().map(|(_, bytes, _)| bytes).sum::<usize>());
                let oldest = model.front().map(|(.., since)| *since);
                prop_assert_eq!(ring.since_ns().is_some(), oldest.is_some());
                prop_assert!(ring.since_ns() <= oldest, "younger than it is");
            }
        }
    }

    #[test]
    fn a_full_ring_gives_an_entry_back() {
        let ring = Ring::default();
        (0..RING_RECORDS as u64).for_each(|number| assert!(ring.push(record(number, 0), || 1).is_ok()));
        let bytes = ring.bytes();
        assert!(ring.push(record(0, 9), || 1).is_err());
        assert_eq!((ring.bytes(), ring.offered()), (bytes, RING_RECORDS as u64));
    }

    #[test]
    fn buffers_are_used_again_unless_they_are_large() {
        let ring = Ring::default();
        ring.give_back(record(1, 100));
        assert_eq!(ring.blank().pairs.capacity(), 100);
        ring.give_back(record(1, BLANK_BYTES_MAX + 1));
        assert_eq!(ring.blank().pairs.capacity(), 0);
    }
}
