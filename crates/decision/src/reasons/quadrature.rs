//! Gauss-Legendre points and weights on 0..1.
//!
//! n points integrate every polynomial of degree 2n - 1 exactly. Knows nothing of trees.

use std::f64::consts::PI;

/// The points in ascending order with their weights, which sum to 1.
pub(super) fn points<const N: usize>() -> [(f64, f64); N] {
    let mut points = [(0.5, 1.0); N];
    for (place, point) in points.iter_mut().enumerate() {
        // Newton's method from a start close enough for every n; a few steps reach the last bit.
        let mut x = -(PI * (place as f64 + 0.75) / (N as f64 + 0.5)).cos();
        for _ in 0..16 {
            let (value, slope) = legendre(N, x);
            x -= value / slope;
        }
        let (_, slope) = legendre(N, x);
        *point = ((x + 1.0) / 2.0, 1.0 / ((1.0 - x * x) * slope * slope));
    }
    points
}

/// The polynomial of degree `n` and its derivative, for x strictly between -1 and 1.
fn legendre(n: usize, x: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, x);
    for degree in 2..=n {
        let k = degree as f64;
        (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
    }
    (value, n as f64 * (before - x * value) / (1.0 - x * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>() {
        let points = points::<N>();
        for power in 0..2 * N {
            let sum: f64 = points.iter().map(|(t, weight)| weight * t.powi(power as i32)).sum();
            let exact = 1.0 / (power as f64 + 1.0);
            assert!((sum - exact).abs() < 1e-14, "{N} points, t^{power}: {sum} for {exact}");
        }
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(points.iter().all(|(t, _)| *t > 0.0 && *t < 1.0));
    }

    #[test]
    fn powers_up_to_twice_the_points_less_one_are_integrated_exactly() {
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
        check::<32>();
    }
}
