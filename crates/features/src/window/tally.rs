//! A key's stored events by bucket: counts and sums, or distinct values.
//!
//! Plain data, without clock or lock. A sum is the same for the same events in the same order: within a
//! bucket they are added in arrival order, and buckets from oldest to newest, from zero.

use crate::window::span::Span;

/// Maximum distinct values of one key; more are not stored, which is reported.
pub(crate) const VALUES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) bucket: i64,
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

/// The contribution of a validated event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gain {
    Number(f64),
    /// The first 128 bits of the value's SHA-256.
    Value(u128),
}

/// The total over a window's buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Total {
    /// Of events, or of distinct values.
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) saturated: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) newest: Option<i64>,
    /// Sorted by bucket.
    pub(crate) cells: Vec<Cell>,
    /// Sorted by value, then bucket.
    pub(crate) values: Vec<(u128, i64)>,
    /// The newest bucket with a value that was not stored.
    pub(crate) overflow: Option<i64>,
}

impl Tally {
    /// The total at `bucket`, including `current`. None: too late.
    pub(crate) fn total(&self, span: &Span, bucket: i64, current: Option<Gain>) -> Option<Total> {
        if span.late(bucket, self.newest) {
            return None;
        }
        let covered = span.first(bucket)..=bucket;
        let mut total = Total::default();
        let mut last = 0.0;
        for cell in self.cells.iter().filter(|cell| covered.contains(&cell.bucket)) {
            total.count += cell.count;
            if cell.bucket == bucket {
                last = cell.sum;
            } else {
                total.sum += cell.sum;
            }
        }
        let mut counted = None;
        for (value, at) in &self.values {
            if covered.contains(at) && counted != Some(value) {
                total.count += 1;
                counted = Some(value);
            }
        }
        match current {
            Some(Gain::Number(number)) => {
                total.count += 1;
                last += number;
            }
            Some(Gain::Value(value)) => {
                total.count += u64::from(!self.has(value, span.first(bucket), bucket))
            }
            None => {}
        }
        total.sum += last;
        total.saturated = self.overflow.is_some_and(|overflow| covered.contains(&overflow));
        Some(total)
    }

    /// Adds an event; false if it is too late.
    pub(crate) fn add(&mut self, span: &Span, bucket: i64, gain: Gain) -> bool {
        if span.late(bucket, self.newest) {
            return false;
        }
        if self.newest.is_none_or(|newest| bucket > newest) {
            self.newest = Some(bucket);
            let kept = span.kept(bucket);
            self.cells.retain(|cell| cell.bucket >= kept);
            self.values.retain(|(_, at)| *at >= kept);
        }
        match gain {
            Gain::Number(number) => {
                let place = self.cells.partition_point(|cell| cell.bucket < bucket);
                match self.cells.get_mut(place) {
                    Some(cell) if cell.bucket == bucket => {
                        cell.count += 1;
                        cell.sum += number;
                    }
                    _ => self.cells.insert(place, Cell { bucket, count: 1, sum: number }),
                }
            }
            Gain::Value(value) => match self.values.binary_search(&(value, bucket)) {
                Ok(_) => {}
                Err(_) if self.values.len() >= VALUES_MAX => {
                    self.overflow = Some(self.overflow.map_or(bucket, |overflow| overflow.max(bucket)));
                }
                Err(place) => self.values.insert(place, (value, bucket)),
            },
        }
        true
    }

    fn has(&self, value: u128, first: i64, last: i64) -> bool {
        let from = self.values.partition_point(|pair| *pair < (value, first));
        self.values.get(from).is_some_and(|pair| *pair <= (value, last))
    }
}
