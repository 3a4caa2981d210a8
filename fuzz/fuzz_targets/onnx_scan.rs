//! No bytes of a model's file may panic the scan that looks at it first, or make it hold more than its limits allow.
#![no_main]

use flyball_engine::{ScanFacts, ScanLimits};
use libfuzzer_sys::fuzz_target;

/// Small, so that inputs reach them.
const LIMITS: ScanLimits = ScanLimits {
    file_bytes_max: 1 << 20,
    nodes_max: 100,
    depth_max: 4,
    initialisers_max: 50,
    weight_bytes_max: 1 << 20,
    attribute_bytes_max: 1 << 10,
    functions_max: 10,
    external_files_max: 3,
};

fuzz_target!(|model: &[u8]| {
    match ScanFacts::of(model, &LIMITS) {
        Ok(facts) => {
            assert!(facts.nodes <= LIMITS.nodes_max && facts.nodes_expanded <= LIMITS.nodes_max);
            assert!(facts.depth <= LIMITS.depth_max && facts.functions <= LIMITS.functions_max);
            assert!(
                facts.initialisers <= LIMITS.initialisers_max
                    && facts.weight_bytes <= LIMITS.weight_bytes_max
            );
            assert!(facts.external_data.len() as u64 <= LIMITS.external_files_max);
            assert!(facts.external_data.keys().all(|name| !name.contains(['/', '\\', '\0']) && name != ".."));
        }
        Err(refusal) => assert!(refusal.to_string().len() < 8192),
    }
});
