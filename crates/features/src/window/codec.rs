//! Encodes a key's tally for the windows file, little-endian. The reader trusts nothing.

use crate::window::tally::{Cell, Tally, VALUES_MAX};

const VERSION: u8 = 1;
/// Twice the buckets that a value covers, and the current one.
const CELLS_MAX: usize = 121;
const NONE: i64 = i64::MIN;
/// Buckets are within this, so that sums of them cannot overflow.
const BUCKET_MAX: u64 = 1 << 53;

pub(crate) fn write(tally: &Tally, into: &mut Vec<u8>) {
    into.push(VERSION);
    into.extend(tally.newest.unwrap_or(NONE).to_le_bytes());
    into.extend(tally.overflow.unwrap_or(NONE).to_le_bytes());
    into.extend((tally.cells.len() as u32).to_le_bytes());
    for cell in &tally.cells {
        into.extend(cell.bucket.to_le_bytes());
        into.extend(cell.count.to_le_bytes());
        into.extend(cell.sum.to_le_bytes());
    }
    into.extend((tally.values.len() as u32).to_le_bytes());
    for (value, bucket) in &tally.values {
        into.extend(value.to_le_bytes());
        into.extend(bucket.to_le_bytes());
    }
}

pub(crate) fn read(mut bytes: &[u8]) -> Option<Tally> {
    let from = &mut bytes;
    if take::<1>(from)? != [VERSION] {
        return None;
    }
    let newest = bucket_or_none(from)?;
    let overflow = bucket_or_none(from)?;
    let count = u32::from_le_bytes(take(from)?) as usize;
    if count > CELLS_MAX {
        return None;
    }
    let mut cells: Vec<Cell> = Vec::with_capacity(count);
    for _ in 0..count {
        let bucket = bucket_or_none(from)??;
        let (count, sum) = (u64::from_le_bytes(take(from)?), f64::from_le_bytes(take(from)?));
        // A larger count could not be summed, and no key has it.
        if !sum.is_finite() || count > 1 << 48 || cells.last().is_some_and(|last| last.bucket >= bucket) {
            return None;
        }
        cells.push(Cell { bucket, count, sum });
    }
    let count = u32::from_le_bytes(take(from)?) as usize;
    if count > VALUES_MAX {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let pair = (u128::from_le_bytes(take(from)?), bucket_or_none(from)??);
        if values.last().is_some_and(|last| *last >= pair) {
            return None;
        }
        values.push(pair);
    }
    let held = cells.iter().map(|cell| cell.bucket).chain(values.iter().map(|(_, bucket)| *bucket));
    let whole = from.is_empty() && held.max().is_none_or(|most| newest.is_some_and(|newest| most <= newest));
    whole.then_some(Tally { newest, cells, values, overflow })
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*head)
}

/// The outer none: invalid.
fn bucket_or_none(from: &mut &[u8]) -> Option<Option<i64>> {
    let bucket = i64::from_le_bytes(take(from)?);
    if bucket == NONE {
        return Some(None);
    }
    (bucket.unsigned_abs() <= BUCKET_MAX).then_some(Some(bucket))
}
