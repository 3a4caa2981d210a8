//! A small journal with fixed keys in `tests/golden/journal`.
//!
//! The format's page shows its bytes, and other implementations are tested against it. `FLYBALL_GOLDEN=write`
//! regenerates it.

use super::Sample;
use crate::format::StartReason;
use crate::log::{Log, notes_path, segment_path};
use crate::verify::VerifyOptions;
use flyball_core::DecisionId;
use minicbor::Encoder;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/journal")
}

fn decided(number: u128, outcome: &str) -> Vec<u8> {
    let id = DecisionId::new(1_794_787_200_000, number).0.to_be_bytes();
    let mut map = Encoder::new(Vec::new());
    let written = map.map(5).and_then(|map| {
        map.str("kind")?.str("decision")?.str("id")?.bytes(&id)?;
        map.str("at")?.i64(1_794_787_200_000_000_000 + number as i64)?;
        map.str("decision")?.str("card")?.str("outcome")?.str(outcome).map(drop)
    });
    written.expect("memory takes it");
    map.into_writer()
}

/// Two sealed segments, the second abandoned with its last frame, and an open one.
fn sample() -> Sample {
    let mut sample = Sample::new();
    sample.push(&decided(1, "accept"));
    sample.push(&decided(2, "review"));
    sample.push(&decided(3, "reject"));
    sample.checkpoint();
    sample.begin(StartReason::Rotated, 0);
    sample.checkpoint();
    sample.push(&decided(4, "accept"));
    sample.push(&decided(5, "accept"));
    sample.begin(StartReason::Abandoned, 1);
    sample.push(&decided(5, "accept"));
    sample.checkpoint();
    sample
}

fn files(sample: &Sample) -> Vec<(String, Vec<u8>)> {
    let log = sample.log();
    let paths = [log.folder().join("node.json"), notes_path(log.folder())];
    let segments = (1..=sample.segments.len() as u64).map(|number| segment_path(log.folder(), number));
    let name =
        |path: &Path| path.strip_prefix(log.folder()).expect("it is below the folder").display().to_string();
    paths
        .into_iter()
        .chain(segments)
        .map(|path| (name(&path), fs::read(&path).expect("it was written")))
        .collect()
}

#[test]
fn the_golden_journal_is_what_this_build_writes_and_it_holds() {
    let sample = sample();
    let files = files(&sample);
    if std::env::var_os("FLYBALL_GOLDEN").is_some_and(|what| what == "write") {
        fs::create_dir_all(golden().join("segments")).unwrap();
        files.iter().for_each(|(name, bytes)| fs::write(golden().join(name), bytes).unwrap());
    }
    for (name, bytes) in files {
        let kept = fs::read(golden().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            kept == bytes,
            "{name} is another; FLYBALL_GOLDEN=write writes it, and the format's page shows it"
        );
    }
    let log = Log::open(&golden()).unwrap();
    let verified = log.verify(&VerifyOptions::default(), &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((&verified.findings[..], verified.frames, verified.checkpoints), (&[][..], 5, 3));
    assert_eq!(log.prove(4).unwrap().verify(Some(&sample.public())), []);
}
