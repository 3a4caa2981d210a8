//! The writer's output as readers verify it: during writing, after close, and after tampering.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

use flyball_core::{DecisionId, JournalRecord, RecordKind};
use flyball_journal::{Journal, JournalSettings, KekSource, Keys, Log, Verified, VerifyOptions, render};
use minicbor::Encoder;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

fn open(folder: &Path) -> Arc<Journal> {
    Journal::open(JournalSettings { segment_bytes: 1 << 20, ..JournalSettings::new(folder, 1) })
        .expect("a journal")
}

fn append(journal: &Journal, number: u64) -> u64 {
    let mut entry = JournalRecord {
        kind: RecordKind::Outcome,
        id: DecisionId(u128::from(number)),
        ..JournalRecord::default()
    };
    Encoder::new(&mut entry.pairs).str("at").unwrap().u64(number).unwrap();
    entry.pairs_count = 1;
    let text = "x".repeat(4000);
    Encoder::new(&mut entry.input).map(1).unwrap().str("text").unwrap().str(&text).unwrap();
    let mut personal = Encoder::new(&mut entry.personal);
    personal.map(1).unwrap().str("input").unwrap().map(1).unwrap();
    personal.str("name").unwrap().str("Ada").unwrap();
    entry.subject.extend_from_slice(b"ada");
    journal.append(entry).expect("it is kept")
}

fn verify(folder: &Path) -> Verified {
    let log = Log::open(folder).expect("a log");
    log.verify(&VerifyOptions::default(), &mut |_, _| ControlFlow::Continue(())).expect("it can be read")
}

#[test]
fn a_written_log_holds_beside_its_writer_after_it_and_after_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let journal = open(folder.path());
        numbers.extend((0..300).map(|number| append(&journal, number)));
        let live = verify(folder.path());
        assert_eq!(live.findings, []);
        assert!(live.frames >= numbers.len() as u64, "{live:?}");
        journal.close();
    }
    let closed = verify(folder.path());
    assert_eq!((&closed.findings[..], closed.unfinished), (&[][..], None));
    assert!(closed.segments >= 4 && closed.checkpoints >= 4, "{} {}", closed.segments, closed.checkpoints);
    let log = Log::open(folder.path()).unwrap();
    let keys = Keys::read_only(folder.path(), &KekSource::File(folder.path().join("kek"))).unwrap();
    let mut names = 0;
    log.read(0, true, |placed| {
        let shown = render(placed.frame.payload, Some(&keys)).expect("a record");
        names += usize::from(shown["input"]["name"] == "Ada");
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(names, numbers.len());
    assert_eq!(log.find(DecisionId(7)).records.len(), 2);
    let proof = log.prove(numbers[0]).unwrap();
    assert!(proof.signed.is_some());
    assert_eq!(proof.verify(log.key().as_ref()), []);
}

#[test]
fn a_written_log_that_lost_its_last_record_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    for number in 0..3 {
        append(&journal, number);
    }
    journal.close();
    let segment = folder.path().join("segments/0000000000000001.fbj");
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &bytes[..bytes.len() - 10]).unwrap();
    let verified = verify(folder.path());
    assert_eq!(verified.findings.first().and_then(|finding| finding.segment), Some(1), "{verified:?}");
}
