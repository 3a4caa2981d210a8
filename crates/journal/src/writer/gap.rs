//! Gap records: decisions that were answered without a record.
//!
//! They state from when to when, how many and why, and count lost records of other kinds, all signed. An open
//! gap record is written as soon as possible; the closing one, with the same `from`, has the final count.

use super::Writer;
use crate::counts::InternalKind;
use crate::format::Hash;
use crate::payload;
use crate::shared::Missed;
use flyball_core::nanos;
use flyball_core::{RecordKind, Unavailable};
use std::time::Duration;

/// Misses closer together than this share one gap.
const QUIET: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(1) };

#[derive(Clone, Debug)]
pub(super) struct Gap {
    missed: Missed,
    /// On disk as an open gap.
    opened: bool,
    last_ns: u64,
}

impl Gap {
    fn add(&mut self, more: &Missed) {
        self.missed.last_unix_ns = more.last_unix_ns.max(self.missed.last_unix_ns);
        self.missed.by_why.iter_mut().zip(more.by_why).for_each(|(count, more)| *count += more);
        self.missed.others.iter_mut().zip(more.others).for_each(|(count, more)| *count += more);
    }

    /// The payload. Everything but the last pair is signed together with the previous frame, so that a gap
    /// record cannot be moved.
    fn payload(&self, open: bool, prev: &Hash, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut signed = self.written(open, None);
        signed.extend_from_slice(&prev.0);
        self.written(open, Some(&sign(&signed)))
    }

    fn written(&self, open: bool, signature: Option<&[u8]>) -> Vec<u8> {
        let Missed { by_why, others, first_unix_ns, last_unix_ns } = &self.missed;
        let reasons: Vec<Unavailable> =
            Unavailable::ALL.into_iter().filter(|why| by_why[why.index()] > 0).collect();
        let lost: Vec<RecordKind> =
            RecordKind::ALL.into_iter().filter(|kind| others[kind.index()] > 0).collect();
        payload::own(InternalKind::Gap, |pairs| {
            pairs.key("from")?.i64(*first_unix_ns)?;
            pairs.key("to")?.i64(*last_unix_ns)?;
            pairs.key("count")?.u64(by_why.iter().sum())?;
            let out = pairs.key("reasons")?.map(reasons.len() as u64)?;
            for why in &reasons {
                out.str(why.label())?.u64(by_why[why.index()])?;
            }
            if !lost.is_empty() {
                let out = pairs.key("others")?.map(lost.len() as u64)?;
                for kind in &lost {
                    out.str(kind.label())?.u64(others[kind.index()])?;
                }
            }
            pairs.key("open")?.bool(open)?;
            signature.map_or(Ok(()), |signature| pairs.key("signature")?.bytes(signature)?.ok())
        })
    }
}

impl Writer {
    pub(super) fn write_due_gap(&mut self, closing: bool) {
        let now = self.shared.now_ns();
        if let Some(missed) = self.shared.take_missed() {
            match &mut self.gap {
                Some(gap) => {
                    gap.add(&missed);
                    gap.last_ns = now;
                }
                None => self.gap = Some(Gap { missed, opened: false, last_ns: now }),
            }
        }
        let Some(gap) = &self.gap else { return };
        let quiet = now - gap.last_ns >= nanos(QUIET)
            && self.fault.state(&self.segment, self.next.is_some()).is_none();
        let open = !(closing || (gap.opened && quiet));
        if (gap.opened && open) || self.fault.given_up.is_some() {
            if closing {
                tracing::error!(
                    decisions = gap.missed.by_why.iter().sum::<u64>(),
                    "cannot record a gap in the journal"
                );
            }
            return;
        }
        let kept = self.add_gap(&gap.clone(), open).is_ok() && self.commit();
        match (kept, &mut self.gap) {
            (true, Some(gap)) if open => gap.opened = true,
            (true, gap) => *gap = None,
            (false, _) => {}
        }
    }

    fn add_gap(&mut self, gap: &Gap, open: bool) -> Result<(), Unavailable> {
        let payload = |writer: &Writer| {
            gap.payload(open, &writer.segment.reach.last, |bytes| {
                writer.node.key.sign(bytes).as_ref().to_vec()
            })
        };
        // Make space first: in the next segment the previous frame would differ.
        self.make_room(payload(self).len(), 0)?;
        self.add_internal(InternalKind::Gap, &payload(self))
    }
}
