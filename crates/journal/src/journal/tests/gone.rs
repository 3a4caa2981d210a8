//! A directory that is deleted, moved or replaced under its writer: nothing lost is acknowledged.

use super::*;

/// Waits until the journal reports that it cannot store; the writer checks several times a second.
fn wait_for(journal: &Journal, state: Option<Unavailable>) {
    let begun = Instant::now();
    while journal.counts().available != state {
        assert!(begun.elapsed() < STUCK, "the writer has not noticed: {state:?}");
        thread::yield_now();
    }
}

fn journal() -> (tempfile::TempDir, PathBuf, Arc<Journal>) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("journal");
    let journal = opened(&folder);
    let lane = journal.lane(0);
    let ticket = offer(&*lane, 1, true).unwrap();
    assert_eq!(kept(&*lane, ticket), Ok(()));
    (parent, folder, journal)
}

#[test]
fn a_deleted_folder_is_noticed_without_a_record_and_refuses_what_comes() {
    let (_parent, folder, journal) = journal();
    fs::remove_dir_all(&folder).unwrap();
    wait_for(&journal, Some(Unavailable::Gone));
    assert_eq!(offer(&*journal.lane(1), 2, true), Err(Unavailable::Gone));
    journal.close();
    assert!(!folder.exists(), "nothing is made in the place of what was deleted");
}

#[test]
fn no_record_is_acknowledged_that_was_written_to_a_folder_that_is_gone() {
    let (_parent, folder, journal) = journal();
    let lane = journal.lane(0);
    fs::rename(&folder, folder.with_extension("away")).unwrap();
    let outcome = offer(&*lane, 2, true).and_then(|ticket| kept(&*lane, ticket));
    assert_eq!(outcome, Err(Unavailable::Gone));
}

#[test]
fn a_replaced_folder_is_left_alone_and_one_that_comes_back_is_written_to_again() {
    let (_parent, folder, journal) = journal();
    let away = folder.with_extension("away");
    fs::rename(&folder, &away).unwrap();
    // A copy: same names, other files.
    fs::create_dir_all(folder.join("segments")).unwrap();
    for name in ["lock", "subjects", "segments/0000000000000001.fbj"] {
        fs::copy(away.join(name), folder.join(name)).unwrap();
    }
    let copied = fs::read(folder.join("segments/0000000000000001.fbj")).unwrap();
    wait_for(&journal, Some(Unavailable::Gone));
    let lane = journal.lane(0);
    lane.missed(3, Unavailable::Gone);
    assert_eq!(fs::read(folder.join("segments/0000000000000001.fbj")).unwrap(), copied);
    assert!(!folder.join("segments/next").exists());
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    wait_for(&journal, None);
    let ticket = offer(&*lane, 4, true).unwrap();
    assert_eq!(kept(&*lane, ticket), Ok(()));
    journal.close();
    let found = records(&folder);
    assert_eq!(of_kind(&found, "decision").len(), 2);
    assert_eq!(of_kind(&found, "gap").last().and_then(|gap| gap.number("count")), Some(3));
    assert_eq!(verified(&folder), Vec::<String>::new());
}

#[test]
fn the_open_segment_and_the_file_of_keys_are_looked_for_too() {
    for name in ["segments/0000000000000001.fbj", "subjects", "lock"] {
        let (_parent, folder, journal) = journal();
        fs::remove_file(folder.join(name)).unwrap();
        wait_for(&journal, Some(Unavailable::Gone));
    }
}
