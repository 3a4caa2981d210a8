//! Admission, scheduler and batcher under a virtual clock: seeded arrivals, simulated runs, callers that hang up, runs that
//! hang. Everything except the run itself and the sockets is the code that serves. Thousands of seeds, each checked against
//! the invariants.

mod checks;
mod world;

use world::World;

/// Seeds of an ordinary test run; `make test-full` sets `PROPTEST_CASES` for more.
const SEEDS: u64 = 2000;

fn seeds() -> u64 {
    let more = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    more.map_or(SEEDS, |cases: u64| cases.max(SEEDS))
}

#[test]
fn bounds_order_and_fairness_hold_whatever_arrives() {
    for seed in 0..seeds() {
        let mut world = World::new(seed);
        world.run();
        world.check_at_the_end();
    }
}

#[test]
fn a_seed_gives_the_same_history_twice() {
    let history = |seed| {
        let mut world = World::new(seed);
        world.run();
        world.history()
    };
    for seed in 0..20 {
        assert!(history(seed) == history(seed), "seed {seed}");
    }
}

#[test]
fn a_lane_at_twice_its_capacity_gives_most_of_it_to_answers_in_time() {
    for seed in 0..50 {
        let mut world = World::overloaded(seed, 2.0);
        world.run();
        world.check_at_the_end();
        let useful = world.in_time_share_of_capacity();
        assert!(useful >= 0.9, "seed {seed}: {useful}");
    }
}
