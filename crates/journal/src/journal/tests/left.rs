//! Recovery of a directory that was left in some state.

use super::*;
use crate::segment_scan::Broken;
use crate::{HEADER_BYTES, LogError};
use std::os::unix::fs::FileExt;

/// The directory after a simulated kill of the process.
pub(super) fn killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for inner in ["", "segments", "blobs"] {
        fs::create_dir_all(copy.path().join(inner)).unwrap();
        for entry in fs::read_dir(folder.join(inner)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), copy.path().join(inner).join(entry.file_name())).unwrap();
            }
        }
    }
    copy
}

/// This many durable records, and their end.
fn killed_after(count: u64) -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let lane = journal.lane(0);
    for number in 0..count {
        let ticket = offer(&*lane, number, true).unwrap();
        kept(&*lane, ticket).unwrap();
    }
    let durable = fs::read(folder.path().join("durable")).unwrap();
    (killed(folder.path()), u64::from_le_bytes(durable[8..].try_into().unwrap()))
}

fn write_at(folder: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(&paths(folder)[0]).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn decisions(folder: &Path) -> usize {
    of_kind(&records(folder), "decision").len()
}

#[test]
fn after_a_kill_the_log_goes_on_in_a_new_segment_that_says_so() {
    let (folder, _) = killed_after(10);
    let journal = opened(folder.path());
    let lane = journal.lane(0);
    let ticket = offer(&*lane, 10, true).unwrap();
    assert_eq!(kept(&*lane, ticket), Ok(()));
    drop(journal);
    let recovered = of_kind(&records(folder.path()), "recovered");
    assert_eq!(recovered.iter().map(|record| record.number("kept_frames")).collect::<Vec<_>>(), [Some(10)]);
    assert_eq!(recovered[0].number("cut_bytes"), Some(0));
    assert_eq!(headers(folder.path())[1].began, StartReason::Recovered);
    assert_eq!((decisions(folder.path()), verified(folder.path())), (11, vec![]));
    assert!(!folder.path().join("recovery").exists());
}

#[test]
fn a_torn_tail_is_cut_and_what_was_promised_stays() {
    let (folder, end) = killed_after(10);
    write_at(folder.path(), end, &[7; 100]);
    drop(opened(folder.path()));
    let recovered = of_kind(&records(folder.path()), "recovered");
    assert_eq!(recovered[0].number("cut_bytes"), Some(100));
    assert_eq!(fs::metadata(&paths(folder.path())[0]).unwrap().len(), end);
    assert_eq!((decisions(folder.path()), verified(folder.path())), (10, vec![]));
}

#[test]
fn a_cut_that_a_crash_interrupted_still_gets_its_record() {
    let (folder, end) = killed_after(3);
    let note = r#"{"segment":1,"kept_frames":3,"cut_bytes":77}"#;
    fs::write(folder.path().join("recovery"), note).unwrap();
    File::options().write(true).open(&paths(folder.path())[0]).unwrap().set_len(end).unwrap();
    drop(opened(folder.path()));
    let recovered = of_kind(&records(folder.path()), "recovered");
    assert_eq!(recovered[0].number("cut_bytes"), Some(77));
}

#[test]
fn damage_in_the_middle_is_kept_aside_and_reported_and_the_log_goes_on() {
    let (folder, end) = killed_after(10);
    write_at(folder.path(), end / 2, &[0xff; 8]);
    let damaged = fs::read(&paths(folder.path())[0]).unwrap();
    let journal = opened(folder.path());
    let lane = journal.lane(0);
    let ticket = offer(&*lane, 10, true).unwrap();
    assert_eq!(kept(&*lane, ticket), Ok(()));
    assert_eq!(journal.counts().of("quarantined"), 1);
    drop(journal);
    let name = paths(folder.path())[0].file_name().unwrap().to_owned();
    assert_eq!(fs::read(folder.path().join("quarantine").join(name)).unwrap(), damaged);
    assert!(!verified(folder.path()).is_empty());
    // Numbers of records after the damage are not reused.
    assert_eq!(headers(folder.path())[1].first_seq, 11);
}

#[test]
fn readers_name_the_damage_and_find_what_holds_behind_it() {
    let (folder, end) = killed_after(10);
    write_at(folder.path(), end / 2, &[0xff; 8]);
    drop(opened(folder.path()));
    let log = Log::open(folder.path()).unwrap();
    let mut seqs = Vec::new();
    let read = log.read(1, false, |placed| {
        seqs.push(placed.frame.seq);
        ControlFlow::Continue(())
    });
    let error = read.unwrap_err();
    assert!(matches!(error, LogError::Broken { segment: 1, why: Broken::Lost { next: 11 }, .. }), "{error}");
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!((1..9).contains(&seqs.len()), "{seqs:?}");
    assert!(log.read(seqs.len() as u64 + 1, false, |_| ControlFlow::Continue(())).is_err());
    // Records written since then are readable.
    assert!(log.read(11, false, |_| ControlFlow::Continue(())).is_ok());
    let finds = log.find(id(9));
    assert_eq!(finds.records.iter().map(|kept| (kept.segment, kept.seq)).collect::<Vec<_>>(), [(1, 10)]);
    assert_eq!(finds.broken.len(), 1);
}

#[test]
fn promised_records_that_were_cut_off_leave_a_hole_that_verify_names() {
    let (folder, end) = killed_after(10);
    // After the ninth: all have the same length.
    let ninth = HEADER_BYTES as u64 + (end - HEADER_BYTES as u64) / 10 * 9;
    File::options().write(true).open(&paths(folder.path())[0]).unwrap().set_len(ninth).unwrap();
    drop(opened(folder.path()));
    assert_eq!(headers(folder.path())[1].prev_frames, 9);
    assert_eq!(of_kind(&records_and_holes(folder.path(), 1), "quarantined").len(), 1);
    assert!(headers(folder.path())[1].first_seq > 10, "numbers of records that are lost are not given again");
    assert!(!verified(folder.path()).is_empty());
}

#[test]
fn segments_that_are_gone_are_told_and_their_numbers_not_given_again() {
    for all in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..3 {
            let journal = opened(folder.path());
            journal
                .append(JournalRecord {
                    kind: RecordKind::Outcome,
                    id: id(number),
                    ..JournalRecord::default()
                })
                .unwrap();
            journal.close();
        }
        let before = headers(folder.path());
        let next_seq = before.last().unwrap().first_seq;
        for path in &paths(folder.path())[if all { 0 } else { 2 }..] {
            fs::remove_file(path).unwrap();
        }
        let journal = opened(folder.path());
        let seq = journal
            .append(JournalRecord { kind: RecordKind::Outcome, id: id(9), ..JournalRecord::default() })
            .unwrap();
        assert!(seq > next_seq, "{seq}");
        journal.close();
        drop(opened(folder.path()));
        let now = headers(folder.path());
        assert!(now.iter().any(|header| header.segment == before.len() as u64 + 1), "{now:?}");
        assert!(now.iter().all(|header| header.segment <= 2 || header.segment > before.len() as u64));
        let all = records_and_holes(folder.path(), usize::from(!all));
        assert_eq!(of_kind(&all, "quarantined").len(), 1);
        let findings = verified(folder.path());
        assert!(findings.iter().any(|finding| finding.contains("Missing")), "{findings:?}");
    }
}

#[test]
fn pages_that_came_to_the_disk_out_of_order_behind_what_was_promised_are_a_torn_tail() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let lane = journal.lane(0);
    let mut ends = Vec::new();
    let mut promised = Vec::new();
    for number in 0..12 {
        let ticket = offer(&*lane, number, true).unwrap();
        kept(&*lane, ticket).unwrap();
        let durable = fs::read(folder.path().join("durable")).unwrap();
        ends.push(u64::from_le_bytes(durable[8..].try_into().unwrap()));
        promised.push(durable);
    }
    let copy = killed(folder.path());
    // Ten were acknowledged; of the two after them, only the second reached the disk.
    fs::write(copy.path().join("durable"), &promised[9]).unwrap();
    write_at(copy.path(), ends[9], &vec![0; (ends[10] - ends[9]) as usize]);
    let left = Log::open(copy.path()).unwrap();
    let verify = left.verify(&VerifyOptions::default(), &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((verify.findings, verify.unfinished.is_some()), (vec![], true));
    drop(opened(copy.path()));
    let all = records(copy.path());
    let recovered = of_kind(&all, "recovered");
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].number("kept_frames"), Some(10));
    assert_eq!(recovered[0].number("cut_bytes"), Some(ends[11] - ends[9]));
    assert_eq!(of_kind(&all, "quarantined"), []);
    // `durable` may be older than the data it describes.
    assert!(copy.path().join("quarantine").join("0000000000000001.fbj").exists());
    assert_eq!((decisions(copy.path()), verified(copy.path())), (10, vec![]));
}

#[test]
fn promised_records_that_are_gone_are_damage_and_no_torn_tail() {
    let (folder, end) = killed_after(10);
    write_at(folder.path(), end - 10, &[0; 10]);
    drop(opened(folder.path()));
    let all = records_and_holes(folder.path(), 1);
    assert_eq!((of_kind(&all, "quarantined").len(), of_kind(&all, "recovered").len()), (1, 0));
}

#[test]
fn a_segment_without_its_header_is_kept_aside_and_reported() {
    let (folder, _) = killed_after(10);
    write_at(folder.path(), 20, &[0xff; 8]);
    drop(opened(folder.path()));
    assert!(folder.path().join("quarantine").join("0000000000000001.fbj").exists());
    let all = records(folder.path());
    assert_eq!(of_kind(&all, "quarantined").len(), 1);
    assert_eq!(headers(folder.path())[0].segment, 2);
}

#[test]
fn a_stray_file_among_the_segments_stops_nobody() {
    let (folder, _) = killed_after(3);
    fs::write(folder.path().join("segments").join("99.fbj"), "stray").unwrap();
    drop(opened(folder.path()));
    fs::remove_file(folder.path().join("segments").join("99.fbj")).unwrap();
    assert_eq!((headers(folder.path()).len(), verified(folder.path())), (3, vec![]));
}

#[test]
fn lost_keys_of_subjects_are_not_made_anew_beside_a_log() {
    let (folder, _) = killed_after(3);
    for name in ["subjects", "kek"] {
        fs::rename(folder.path().join(name), folder.path().join(format!("{name}.away"))).unwrap();
    }
    let error = Journal::open(settings(folder.path())).unwrap_err();
    assert!(matches!(error, JournalError::Keys(crate::KeyError::LostSubjects(_))), "{error}");
    assert!(!folder.path().join("subjects").exists() && !folder.path().join("kek").exists());
    for name in ["subjects", "kek"] {
        fs::rename(folder.path().join(format!("{name}.away")), folder.path().join(name)).unwrap();
    }
    drop(opened(folder.path()));
    assert_eq!(decisions(folder.path()), 3);
}
