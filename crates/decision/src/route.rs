//! Which variant decides a request: the champion, or another by its share.

use crate::rows::Rows;
use crate::slot::{KeyBuffer, Slot};

#[derive(Clone, Debug, Default)]
pub struct RoutePlan {
    /// Variants but the champion, and the sum of the shares up to and with theirs.
    pub(crate) split: Vec<(usize, f64)>,
    pub(crate) sticky: Option<Slot>,
    pub shadow: Vec<usize>,
    pub fallback: Option<usize>,
}

impl RoutePlan {
    /// The variant of a row. `draw` is random; where requests stick and the row has a key, the key alone decides.
    pub fn choose(&self, rows: &Rows, row: usize, draw: u64) -> usize {
        if self.split.is_empty() {
            return 0;
        }
        let mut buffer = KeyBuffer::new();
        let key = self.sticky.as_ref().and_then(|slot| slot.text(rows, row, &mut buffer));
        let point = unit(key.map_or(draw, stable_hash));
        self.split.iter().find(|&&(_, end)| point < end).map_or(0, |&(variant, _)| variant)
    }
}

/// The low half of MurmurHash3 (x64, 128 bits, seed 0): the same on every machine and in every version.
fn stable_hash(key: &str) -> u64 {
    murmur3::murmur3_x64_128(&mut key.as_bytes(), 0).map_or(0, |hash| hash as u64)
}

/// From 0 up to, not including, 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
