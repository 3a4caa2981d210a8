//! Rows for a proof: around every threshold, and every special value of a float.
//!
//! Seeded: the same ensemble gives the same rows in every process.

/// Generates rows without end.
#[derive(Clone, Debug)]
pub struct ProbeRows {
    seed: u64,
    row: u64,
    /// Of each column, in order.
    thresholds: Vec<Vec<f32>>,
}

/// Values that comparisons treat in their own way. A converter's mistake shows at the next float to a threshold, and a wrong order
/// of missing values at NaN.
const SPECIAL: [f32; 14] = [
    f32::NAN,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1.1e-38,
    -1.1e-38,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    1.0,
];

impl ProbeRows {
    pub(crate) fn new(columns: usize, tested: &[(u32, f32)]) -> ProbeRows {
        let mut thresholds = vec![Vec::new(); columns];
        for &(feature, threshold) in tested {
            thresholds[feature as usize].push(threshold);
        }
        ProbeRows { seed: 1, row: 0, thresholds }
    }

    /// Appends this many rows.
    pub fn extend(&mut self, rows: usize, values: &mut Vec<f32>) {
        for _ in 0..rows {
            // Four kinds: numbers, thresholds, both, and both with special values in between.
            let kind = self.row % 4;
            self.row += 1;
            for column in 0..self.thresholds.len() {
                let value = match (kind, self.next() % 8) {
                    (3, 0..=1) => SPECIAL[(self.next() % SPECIAL.len() as u64) as usize],
                    (0, _) | (2 | 3, 2..=4) => self.number(),
                    _ => self.near_threshold(column),
                };
                values.push(value);
            }
        }
    }

    fn near_threshold(&mut self, column: usize) -> f32 {
        let (place, side) = (self.next(), self.next() % 3);
        let thresholds = &self.thresholds[column];
        if thresholds.is_empty() {
            return self.number();
        }
        let threshold = thresholds[(place % thresholds.len() as u64) as usize];
        match side {
            0 => threshold.next_down(),
            1 => threshold,
            _ => threshold.next_up(),
        }
    }

    /// Of any size, most near one.
    fn number(&mut self) -> f32 {
        const SPREADS: [f32; 6] = [1.0, 100.0, 0.01, 7.0, 1e6, 1e-20];
        let unit = (self.next() >> 40) as f32 / (1_u32 << 23) as f32 - 1.0;
        unit * SPREADS[(self.next() % SPREADS.len() as u64) as usize]
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_for_one_ensemble_and_hold_thresholds_their_neighbours_and_special_values() {
        let mut rows = ProbeRows::new(3, &[(0, 2.5), (2, -7.0)]);
        let (mut again, mut values, mut others) = (rows.clone(), Vec::new(), Vec::new());
        rows.extend(1000, &mut values);
        (0..10).for_each(|_| again.extend(100, &mut others));
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&values), bits(&others));
        assert_eq!(values.len(), 3000);
        let column: Vec<f32> = values.chunks(3).map(|row| row[0]).collect();
        for wanted in [2.5, 2.5_f32.next_up(), 2.5_f32.next_down(), f32::INFINITY, 1e-45] {
            assert!(column.contains(&wanted), "{wanted}");
        }
        assert!(column.iter().any(|value| value.is_nan()));
        assert!(values.chunks(3).all(|row| row[1] != -7.0), "another column's threshold");
    }
}
