//! Schedules: the arrivals of each kind, stable for a seed and any thread count.

use super::*;
use proptest::prelude::*;

fn offsets(arrivals: &Arrivals, until_s: f64) -> Vec<f64> {
    Offsets::new(Arc::new(arrivals.clone()), until_s, 0, 1).map(|(_, offset)| offset).collect()
}

fn burst(rate_per_s: f64, burst_per_s: f64, burst_s: f64, every_s: f64) -> Arrivals {
    Arrivals::Burst { rate_per_s, burst_per_s, burst_s, every_s }
}

/// Arrivals within a time range.
fn count(offsets: &[f64], from_s: f64, to_s: f64) -> usize {
    offsets.iter().filter(|offset| (from_s..to_s).contains(*offset)).count()
}

#[test]
fn constant_arrivals_do_not_drift() {
    let offsets = offsets(&Arrivals::Constant { rate_per_s: 3.0 }, 100_000.0);
    assert_eq!(offsets.len(), 300_000);
    assert_eq!(offsets[150_000], 50_000.0);
}

#[test]
fn poisson_arrivals_come_at_their_rate_with_the_spread_of_independent_events() {
    let offsets = offsets(&Arrivals::Poisson { rate_per_s: 1000.0, seed: 7 }, 100.0);
    let mean = offsets.len() as f64 / 100.0;
    assert!((mean - 1000.0).abs() < 4.0 * (1000.0_f64 / 100.0).sqrt(), "{mean}");
    let gaps: Vec<_> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) * 1000.0).collect();
    let mean_gap = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean_gap).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance - 1.0).abs() < 0.05, "an exponential's variance is its mean squared: {variance}");
}

#[test]
fn a_seed_gives_one_schedule_for_ever_and_another_seed_another() {
    let first = |seed| {
        let offsets = offsets(&Arrivals::Poisson { rate_per_s: 10.0, seed }, 1.0);
        offsets.into_iter().take(3).map(|offset| (offset * 1e6).round() as u64).collect::<Vec<_>>()
    };
    assert_eq!(first(7), POISSON_SEED_7);
    assert_ne!(first(7), first(8));
}

/// In µs; if this changes, recorded seeds change their meaning.
const POISSON_SEED_7: [u64; 3] = [17_173, 35_564, 157_397];

#[test]
fn every_period_begins_with_its_burst() {
    let offsets = offsets(&burst(100.0, 1000.0, 0.2, 2.0), 10.0);
    assert_eq!(offsets.len(), 5 * (200 + 180));
    for period in 0..5 {
        let start = f64::from(period) * 2.0 - 1e-9;
        assert_eq!(
            (count(&offsets, start, start + 0.2), count(&offsets, start + 0.2, start + 2.0)),
            (200, 180)
        );
    }
}

#[test]
fn a_ramp_has_the_mean_of_its_ends_and_goes_both_ways() {
    for (from_per_s, to_per_s) in [(100.0, 900.0), (900.0, 100.0), (500.0, 500.0)] {
        let offsets = offsets(&Arrivals::Ramp { from_per_s, to_per_s }, 10.0);
        assert!(offsets.len().abs_diff(5000) <= 1, "{}", offsets.len());
        let first_half = 5.0 * (3.0 * from_per_s + to_per_s) / 4.0;
        assert!((count(&offsets, 0.0, 5.0) as f64 - first_half).abs() <= 1.0);
    }
}

#[test]
fn a_trace_is_sent_as_recorded_and_ends_the_run_where_it_is_shorter() {
    let trace = Arrivals::Trace { offsets_s: vec![0.0, 0.5, 0.5, 2.0] };
    assert_eq!(offsets(&trace, 10.0), [0.0, 0.5, 0.5, 2.0]);
    assert_eq!(offsets(&trace, 1.0), [0.0, 0.5, 0.5]);
    assert_eq!((trace.span_s(1.0), trace.span_s(10.0)), (1.0, 2.0 * 4.0 / 3.0));
    let at_once = Arrivals::Trace { offsets_s: vec![0.0, 0.0] };
    assert_eq!(at_once.span_s(3.0), 3.0);
}

#[test]
fn the_warm_up_has_one_rate() {
    let rate = |arrivals: Arrivals| match arrivals.warmup(10.0) {
        Arrivals::Constant { rate_per_s } => rate_per_s,
        other => panic!("{other:?}"),
    };
    assert_eq!(rate(burst(100.0, 1000.0, 0.2, 2.0)), 100.0);
    assert_eq!(rate(Arrivals::Ramp { from_per_s: 5.0, to_per_s: 9.0 }), 5.0);
    assert_eq!(rate(Arrivals::Trace { offsets_s: vec![0.0, 1.0, 2.0, 3.0] }), 1.0);
    let poisson = Arrivals::Poisson { rate_per_s: 5.0, seed: 1 };
    assert_eq!(poisson.warmup(10.0), poisson);
}

fn any_arrivals() -> impl Strategy<Value = Arrivals> {
    let rate = 1.0..2000.0_f64;
    prop_oneof![
        rate.clone().prop_map(|rate_per_s| Arrivals::Constant { rate_per_s }),
        (rate.clone(), any::<u64>()).prop_map(|(rate_per_s, seed)| Arrivals::Poisson { rate_per_s, seed }),
        (rate.clone(), rate.clone(), 0.01..0.5_f64, 0.6..3.0_f64)
            .prop_map(|(low, high, burst_s, every_s)| burst(low, high, burst_s, every_s)),
        (rate.clone(), rate).prop_map(|(from_per_s, to_per_s)| Arrivals::Ramp { from_per_s, to_per_s }),
        prop::collection::vec(0.0..5.0_f64, 1..100).prop_map(|mut offsets_s| {
            offsets_s.sort_by(f64::total_cmp);
            Arrivals::Trace { offsets_s }
        }),
    ]
}

proptest! {
    #[test]
    fn offsets_ascend_and_end_with_the_time(arrivals in any_arrivals()) {
        let offsets = offsets(&arrivals, 4.0);
        prop_assert!(offsets.is_sorted());
        prop_assert!(offsets.iter().all(|offset| (0.0..4.0).contains(offset)));
    }

    #[test]
    fn threads_share_one_schedule_among_them(arrivals in any_arrivals(), threads in 1_u64..5) {
        let arrivals = Arc::new(arrivals);
        let mut dealt: Vec<_> =
            (0..threads).flat_map(|thread| Offsets::new(Arc::clone(&arrivals), 4.0, thread, threads)).collect();
        dealt.sort_by_key(|(place, _)| *place);
        let whole: Vec<_> = Offsets::new(arrivals, 4.0, 0, 1).collect();
        prop_assert_eq!(dealt, whole);
    }
}
