//! Requests by caller.
//!
//! There are twice as many counters as a callers file may name, so that a file of only new names finds room
//! next to callers with requests in flight. They are allocated once, and a lane only adds.

use crate::{Counter, Telemetry};
use flyball_core::{CallerIndex, Outcome};
use std::sync::PoisonError;

/// Maximum callers of one file.
pub const CALLERS_MAX: usize = 256;

const PLACES: usize = CallerIndex::FIRST + 2 * CALLERS_MAX;

type Counts<T> = [T; Outcome::ALL.len()];

/// One lane's counters.
#[derive(Debug)]
pub(crate) struct CallerTally(Box<[Counts<Counter>]>);

impl Default for CallerTally {
    fn default() -> CallerTally {
        CallerTally((0..PLACES).map(|_| Counts::default()).collect())
    }
}

impl CallerTally {
    pub(crate) fn record(&self, caller: CallerIndex, outcome: Outcome) {
        if let Some(counts) = self.0.get(caller.0 as usize) {
            counts[outcome as usize].add(1);
        }
    }
}

/// The caller of each index, after the two reserved ones.
#[derive(Debug, Default)]
pub(crate) struct CallerNames(Vec<Named>);

#[derive(Debug)]
struct Named {
    name: String,
    /// The index's counts from its previous caller.
    before: Counts<u64>,
}

impl Telemetry {
    /// The indexes of a file's callers.
    ///
    /// A name keeps its index from file to file; a new one takes an unused index, or else that of a name that
    /// left the file.
    pub fn caller_indexes(&self, names: &[&str]) -> Vec<CallerIndex> {
        let mut known = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let place_of = |name: &str| {
            let taken = known.0.iter().position(|named| named.name == name);
            let place = taken.or_else(|| {
                let fresh = known.0.len() + CallerIndex::FIRST < PLACES;
                let free = || known.0.iter().position(|named| !names.contains(&named.name.as_str()));
                let place = if fresh { known.0.len() } else { free()? };
                let before = self.counted(place + CallerIndex::FIRST);
                let named = Named { name: name.to_owned(), before };
                if fresh {
                    known.0.push(named)
                } else {
                    known.0[place] = named
                }
                Some(place)
            });
            let index = place.and_then(|place| u32::try_from(place + CallerIndex::FIRST).ok());
            index.map_or(CallerIndex::NONE, CallerIndex)
        };
        names.iter().copied().map(place_of).collect()
    }

    fn counted(&self, place: usize) -> Counts<u64> {
        Outcome::ALL
            .map(|outcome| self.lanes.iter().map(|lane| lane.callers.0[place][outcome as usize].get()).sum())
    }

    /// The counts of each caller, including unknown ones.
    pub(crate) fn caller_counts(&self) -> Vec<(String, Counts<u64>)> {
        let nobody = [("none", CallerIndex::NONE), ("anonymous", CallerIndex::ANONYMOUS)];
        let mut all: Vec<_> =
            nobody.map(|(name, place)| (name.to_owned(), self.counted(place.0 as usize))).to_vec();
        let known = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, named) in known.0.iter().enumerate() {
            let mut counts = self.counted(place + CallerIndex::FIRST);
            for (count, before) in counts.iter_mut().zip(named.before) {
                *count = count.saturating_sub(before);
            }
            all.push((named.name.clone(), counts));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_place_and_its_count_from_file_to_file() {
        let telemetry = Telemetry::new(1);
        let first = telemetry.caller_indexes(&["a", "b"]);
        telemetry.lanes[0].callers.record(first[1], Outcome::Answered);
        assert_eq!(telemetry.caller_indexes(&["b", "c"])[0], first[1]);
        let counts = telemetry.caller_counts();
        assert!(counts.contains(&("b".to_owned(), [1, 0, 0, 0])), "{counts:?}");
        assert!(counts.contains(&("none".to_owned(), [0; 4])), "{counts:?}");
    }

    #[test]
    fn callers_that_come_and_go_never_need_more_places_and_never_inherit_a_count() {
        let telemetry = Telemetry::new(1);
        for generation in 0..5 {
            let names: Vec<_> = (0..CALLERS_MAX).map(|place| format!("{generation}-{place}")).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let places = telemetry.caller_indexes(&names);
            assert!(places.iter().all(|place| *place != CallerIndex::NONE));
            places.iter().for_each(|place| telemetry.lanes[0].callers.record(*place, Outcome::Refused));
        }
        let counts = telemetry.caller_counts();
        assert_eq!(counts.len(), PLACES);
        assert!(counts.iter().skip(CallerIndex::FIRST).all(|(_, counts)| *counts == [0, 1, 0, 0]));
    }
}
