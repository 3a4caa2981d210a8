//! Recovery of damaged checkpoints.

use super::*;

/// A directory with this many notes, and their offsets.
fn noted(count: usize) -> (tempfile::TempDir, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let mut places = Vec::new();
    while places.len() < count {
        let journal = opened(folder.path());
        journal
            .append(JournalRecord { kind: RecordKind::Outcome, id: id(1), ..JournalRecord::default() })
            .unwrap();
        journal.close();
        places = text(folder.path()).match_indices("flyball-journal/").map(|(at, _)| at).collect();
        // Each name occurs on its first line and on its signature's.
        places = places.into_iter().step_by(2).collect();
    }
    (folder, places)
}

fn text(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join("checkpoints")).unwrap()).into_owned()
}

fn quarantined(folder: &Path) -> usize {
    of_kind(&records(folder), "quarantined").len()
}

#[test]
fn a_broken_checkpoint_stays_is_told_once_and_takes_no_other_with_it() {
    for (place, byte) in [(0, 60), (0, 0), (2, 60), (3, 10)] {
        let (folder, places) = noted(4);
        let file = folder.path().join("checkpoints");
        let mut bytes = fs::read(&file).unwrap();
        bytes[places[place] + byte] ^= 0x80;
        fs::write(&file, &bytes).unwrap();
        drop(opened(folder.path()));
        drop(opened(folder.path()));
        let now = fs::read(&file).unwrap();
        assert!(now.starts_with(&bytes) && now.len() > bytes.len(), "note {place}, byte {byte}");
        assert_eq!(quarantined(folder.path()), 1, "note {place}, byte {byte}");
        assert!(!verified(folder.path()).is_empty(), "note {place}, byte {byte}");
        assert_eq!(fs::read_dir(folder.path().join("quarantine")).unwrap().count(), 1);
    }
}

#[test]
fn half_of_a_last_checkpoint_is_cut_wherever_it_ends() {
    let (folder, places) = noted(3);
    let file = folder.path().join("checkpoints");
    let (bytes, last) = (fs::read(&file).unwrap(), *places.last().unwrap());
    let (begun, whole) = bytes.split_at(last);
    for length in [1, 10, 48, 52, whole.len() - 100, whole.len() - 1] {
        fs::write(&file, &bytes[..last + length]).unwrap();
        drop(opened(folder.path()));
        let now = fs::read(&file).unwrap();
        assert!(now.starts_with(begun) && now[last..].starts_with(b"flyball-journal/"), "{length} bytes");
        assert_eq!((quarantined(folder.path()), verified(folder.path())), (0, vec![]), "{length} bytes");
    }
}
