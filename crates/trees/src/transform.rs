//! The transforms of a row's scores, in ONNX Runtime's arithmetic: the same operations on 32-bit floats, in the
//! same order. `exp` and `ln` are the C library's, which ONNX Runtime calls too.

use crate::Transform;

/// A score, and whether any leaf gave one: otherwise it counts as zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score {
    pub(crate) value: f32,
    pub(crate) given: bool,
}

impl Score {
    pub(crate) fn get(self) -> f32 {
        if self.given { self.value } else { 0.0 }
    }

    pub(crate) fn negated(self) -> f32 {
        if self.given { -self.value } else { 0.0 }
    }
}

/// Writes the transformed scores of a row, of which there are at least two.
pub(crate) fn write(transform: Transform, scores: impl Iterator<Item = Score> + Clone, out: &mut [f32]) {
    let each = out.iter_mut().zip(scores.clone());
    match transform {
        Transform::None => each.for_each(|(out, score)| *out = score.get()),
        Transform::Logistic => each.for_each(|(out, score)| *out = logistic(score.get())),
        Transform::Probit => each.for_each(|(out, score)| *out = probit(score.get())),
        Transform::Softmax => {
            let largest = largest(scores);
            let mut sum = 0.0;
            for (out, score) in each {
                *out = (score.get() - largest).exp();
                sum += *out;
            }
            out.iter_mut().for_each(|out| *out /= sum);
        }
        Transform::SoftmaxZero => {
            let largest = largest(scores);
            let of_zero = (-largest).exp();
            let mut sum = 0.0;
            for (out, score) in each {
                let value = score.get();
                if value.abs() > ZERO {
                    *out = (value - largest).exp();
                    sum += *out;
                } else {
                    *out = if score.given { value * of_zero } else { 0.0 };
                }
            }
            out.iter_mut().for_each(|out| *out /= sum);
        }
    }
}

/// What SOFTMAX_ZERO takes for zero.
const ZERO: f32 = 0.000_000_1;

fn largest(scores: impl Iterator<Item = Score>) -> f32 {
    // Not `f32::max`: NaN is never the largest.
    scores.fold(f32::MIN, |largest, score| if score.get() > largest { score.get() } else { largest })
}

pub(crate) fn logistic(value: f32) -> f32 {
    let likelier = 1.0 / (1.0 + (-value.abs()).exp());
    if value < 0.0 { 1.0 - likelier } else { likelier }
}

pub(crate) fn probit(value: f32) -> f32 {
    std::f32::consts::SQRT_2 * inverse_erf(2.0 * value - 1.0)
}

/// An approximation with 0.147 as its constant, good to three digits.
///
/// Outside of -1 to 1 it is NaN, with a sign that depends on the compiler: such an ensemble fails its proof.
fn inverse_erf(value: f32) -> f32 {
    let sign = if value < 0.0 { -1.0 } else { 1.0 };
    let log = ((1.0 - value) * (1.0 + value)).ln();
    let half = 2.0 / (std::f32::consts::PI * 0.147) + 0.5 * log;
    let other = 1.0 / 0.147 * log;
    sign * (-half + (half * half - other).sqrt()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(transform: Transform, values: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        write(transform, values.iter().map(|&value| Score { value, given: true }), &mut out);
        out
    }

    #[test]
    fn scores_without_a_transform_stay_and_missing_ones_are_zero() {
        assert_eq!(written(Transform::None, &[1.5, -2.0]), [1.5, -2.0]);
        let mut out = [7.0; 2];
        write(
            Transform::None,
            [3.0, 4.0].map(|value| Score { value, given: value > 3.5 }).into_iter(),
            &mut out,
        );
        assert_eq!(out, [0.0, 4.0]);
    }

    #[test]
    fn the_logistic_function_is_symmetric_and_saturates() {
        assert_eq!(written(Transform::Logistic, &[0.0, 200.0, -200.0]), [0.5, 1.0, 0.0]);
        assert_eq!(logistic(1.25) + logistic(-1.25), 1.0);
    }

    #[test]
    fn softmax_sums_to_one_and_softmax_zero_leaves_zeros_small() {
        let soft = written(Transform::Softmax, &[1.0, 2.0, 3.0]);
        assert!((soft.iter().sum::<f32>() - 1.0).abs() < 1e-6 && soft[2] > soft[1] && soft[1] > soft[0]);
        let zero = written(Transform::SoftmaxZero, &[1.0, 0.0, 3.0]);
        assert_eq!(zero[1], 0.0);
        assert!((zero[0] + zero[2] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn probit_of_one_half_is_zero_and_grows() {
        assert_eq!(probit(0.5), 0.0);
        // The approximation's own value; the exact one is 1.6449.
        assert!((probit(0.95) - 1.645).abs() < 5e-3 && probit(0.05) < 0.0);
    }
}
