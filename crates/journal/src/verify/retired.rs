//! Checks that the list of retired segments can be compaction's work.
//!
//! Anyone who can write to the directory can write that list, so it excuses only what compaction does:
//! removing the start of a log, in order.

use super::{Finding, FindingKind, Run};

impl Run<'_> {
    pub(super) fn retired(&mut self) {
        let listing = &self.log.listing;
        let first = listing.segments.first().map(|listed| listed.number);
        for (place, retired) in listing.retired.iter().enumerate() {
            let number = retired.segment;
            if listing.segment(number).is_some() {
                // Compaction was stopped before it could remove the file.
                continue;
            }
            let mut add = |what| self.verified.add(Finding::of_segment(number, what));
            if let Some(before) = first.filter(|first| *first < number) {
                add(FindingKind::RetiredInside { before });
            }
            let listed = retired.first_seq.saturating_add(retired.frames);
            let next = listing.retired.get(place + 1).filter(|next| next.segment == number + 1);
            let header = || listing.segment(number + 1)?.header.as_ref().ok().map(|header| header.first_seq);
            if let Some(found) = next.map(|next| next.first_seq).or_else(header)
                && found != listed
            {
                add(FindingKind::RetiredSeq { listed, found });
            }
        }
    }
}
