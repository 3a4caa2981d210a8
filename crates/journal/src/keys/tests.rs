//! Sealing, opening, erasure, the wrong key, and damaged or truncated files.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const ENTRY: usize = 128;
const SUBJECT: &[u8] = b"subject";

fn id(number: u128) -> DecisionId {
    DecisionId::new(1, number)
}

fn opened(folder: &Path) -> Keys {
    Keys::open(folder, &KekSource::own(folder)).unwrap()
}

fn sealed(keys: &Keys, subject: &[u8], id: DecisionId, personal: &[u8]) -> (Hash, Vec<u8>) {
    let mut out = Vec::new();
    let token = keys.seal(subject, id, personal, &mut out).unwrap();
    (token, out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_sealed_opens_after_a_restart_for_its_own_record_and_subject_alone(
        subject in prop::collection::vec(any::<u8>(), 0..40),
        other in prop::collection::vec(any::<u8>(), 1..40),
        number in any::<u128>(),
        personal in prop::collection::vec(any::<u8>(), 0..300),
        flip in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let keys = opened(folder.path());
        let (token, mut sealed_bytes) = sealed(&keys, &subject, id(number), &personal);
        let (other_token, _) = sealed(&keys, &other, id(number), b"else");
        keys.sync().unwrap();
        drop(keys);
        let keys = Keys::read_only(folder.path(), &KekSource::own(folder.path())).unwrap();
        let plain = keys.open_personal(&token, id(number), &sealed_bytes).unwrap();
        prop_assert_eq!(plain, Unsealed::Plain(personal));
        let elsewhere = keys.open_personal(&token, id(number ^ 1), &sealed_bytes);
        prop_assert!(matches!(elsewhere, Err(KeyError::Changed)));
        if other_token != token {
            let others = keys.open_personal(&other_token, id(number), &sealed_bytes);
            prop_assert!(matches!(others, Err(KeyError::Changed)));
        }
        let place = flip.index(sealed_bytes.len());
        sealed_bytes[place] ^= 1 << bit;
        let changed = keys.open_personal(&token, id(number), &sealed_bytes);
        prop_assert!(matches!(changed, Err(KeyError::Changed)));
    }

    #[test]
    fn whatever_is_erased_stays_erased_and_what_comes_later_opens(
        steps in prop::collection::vec((0..4_u8, 0..3_u8), 1..40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut keys = opened(folder.path());
        let reader = Keys::read_only(folder.path(), &KekSource::own(folder.path())).unwrap();
        // Subject, id, sealed data, and whether it was erased since.
        let mut all: Vec<(u8, DecisionId, Hash, Vec<u8>, bool)> = Vec::new();
        for (number, (step, subject)) in steps.into_iter().enumerate() {
            match step {
                0 => {
                    let erased = keys.erase(&[subject]).unwrap();
                    let live = all.iter().any(|(of, .., erased)| *of == subject && !erased);
                    prop_assert_eq!(erased, usize::from(live));
                    all.iter_mut().filter(|(of, ..)| *of == subject).for_each(|(.., erased)| *erased = true);
                }
                1 => {
                    keys.sync().unwrap();
                    drop(keys);
                    keys = opened(folder.path());
                }
                _ => {
                    let id = id(number as u128);
                    let (token, bytes) = sealed(&keys, &[subject], id, b"personal");
                    all.push((subject, id, token, bytes, false));
                    keys.flush().unwrap();
                }
            }
            for (_, id, token, bytes, erased) in &all {
                let expected = if *erased { Unsealed::Erased } else { Unsealed::Plain(b"personal".to_vec()) };
                prop_assert_eq!(&keys.open_personal(token, *id, bytes).unwrap(), &expected);
                prop_assert_eq!(&reader.open_personal(token, *id, bytes).unwrap(), &expected);
            }
        }
    }
}

#[test]
fn an_erased_key_is_gone_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let keys = opened(folder.path());
    sealed(&keys, SUBJECT, id(1), b"personal");
    keys.sync().unwrap();
    let path = subjects::path(folder.path());
    let before = fs::read(&path).unwrap();
    assert_eq!(keys.erase(SUBJECT).unwrap(), 1);
    let after = fs::read(&path).unwrap();
    assert_eq!(after.len(), before.len());
    assert_eq!(after[ENTRY], 2);
    assert_eq!(after[ENTRY + 48..ENTRY + 108], [0; 60]);
}

#[test]
fn a_record_without_a_subject_is_erased_by_its_own_id() {
    let folder = tempfile::tempdir().unwrap();
    let keys = opened(folder.path());
    let (token, bytes) = sealed(&keys, b"", id(1), b"personal");
    assert_eq!(keys.erase(id(1).to_string().as_bytes()).unwrap(), 1);
    assert_eq!(keys.open_personal(&token, id(1), &bytes).unwrap(), Unsealed::Erased);
}

#[test]
fn another_key_encryption_key_is_found_out_before_anything_is_sealed_under_it() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path()));
    fs::write(folder.path().join("kek"), "00".repeat(32)).unwrap();
    let refused = Keys::open(folder.path(), &KekSource::own(folder.path())).unwrap_err();
    assert!(matches!(refused, KeyError::OtherKek { .. }), "{refused}");
}

#[test]
fn a_lost_key_encryption_key_is_not_replaced_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path()));
    fs::remove_file(folder.path().join("kek")).unwrap();
    let refused = Keys::open(folder.path(), &KekSource::own(folder.path())).unwrap_err();
    assert!(matches!(refused, KeyError::NoKek { .. }), "{refused}");
    assert!(!folder.path().join("kek").exists());
}

#[test]
fn a_torn_tail_is_cut_and_the_keys_before_it_open() {
    for tail in [&[7; 50][..], &[0; 300][..]] {
        let folder = tempfile::tempdir().unwrap();
        let keys = opened(folder.path());
        let (token, bytes) = sealed(&keys, SUBJECT, id(1), b"personal");
        keys.sync().unwrap();
        drop(keys);
        let path = subjects::path(folder.path());
        let mut file = fs::read(&path).unwrap();
        file.extend_from_slice(tail);
        fs::write(&path, file).unwrap();
        let keys = opened(folder.path());
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, 2 * ENTRY);
        assert_eq!(keys.open_personal(&token, id(1), &bytes).unwrap(), Unsealed::Plain(b"personal".to_vec()));
        assert_eq!(keys.damaged(), 0);
    }
}

#[test]
fn a_damaged_entry_is_counted_and_loses_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let keys = opened(folder.path());
    let (lost, lost_bytes) = sealed(&keys, b"lost", id(1), b"personal");
    let (token, bytes) = sealed(&keys, SUBJECT, id(2), b"personal");
    keys.sync().unwrap();
    drop(keys);
    let path = subjects::path(folder.path());
    let mut file = fs::read(&path).unwrap();
    file[ENTRY + 70] ^= 1;
    fs::write(&path, file).unwrap();
    let keys = opened(folder.path());
    assert_eq!(keys.damaged(), 1);
    assert!(matches!(keys.open_personal(&lost, id(1), &lost_bytes), Err(KeyError::NoKey(_))));
    assert_eq!(keys.open_personal(&token, id(2), &bytes).unwrap(), Unsealed::Plain(b"personal".to_vec()));
}

#[test]
fn keys_opened_to_read_make_and_erase_none() {
    let folder = tempfile::tempdir().unwrap();
    let keys = opened(folder.path());
    sealed(&keys, SUBJECT, id(1), b"personal");
    keys.sync().unwrap();
    let reader = Keys::read_only(folder.path(), &KekSource::own(folder.path())).unwrap();
    assert!(matches!(reader.seal(b"new", id(2), b"", &mut Vec::new()), Err(KeyError::ReadOnly)));
    assert!(matches!(reader.erase(SUBJECT), Err(KeyError::ReadOnly)));
}

#[test]
fn a_key_that_others_can_read_is_refused_and_the_folders_own_is_made_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path()));
    let kek = folder.path().join("kek");
    assert_eq!(fs::metadata(&kek).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&kek, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = Keys::open(folder.path(), &KekSource::own(folder.path())).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
}

#[test]
fn a_key_comes_from_a_command_or_not_at_all() {
    let key = "ab".repeat(32);
    let read = |text: &str| text.parse::<KekSource>().unwrap().read(None).map(|kek| kek[0]);
    assert_eq!(read(&format!("command:echo {key}")).unwrap(), 0xab);
    let refused = |text: &str| read(text).unwrap_err().to_string();
    assert!(refused("command:false").contains("exited with"));
    assert!(refused("command:echo abc").contains("64 hexadecimal digits"));
    assert!(refused("command:head -c 5000 /dev/zero").contains("too long"));
    assert!(refused("command:/no/such/program").contains("No such file"));
    assert!(refused("env:FLYBALL_NO_SUCH_VARIABLE").contains("not set"));
}

#[test]
fn a_place_reads_back_and_hides_a_commands_arguments() {
    for (text, shown) in
        [("file:a b", "file:a b"), ("env:KEK", "env:KEK"), ("command:get secret", "command:get")]
    {
        assert_eq!(text.parse::<KekSource>().unwrap().to_string(), shown);
    }
    for text in ["", "kek", "file:", "command: ", "env:A=B", "vault:x"] {
        assert!(matches!(text.parse::<KekSource>(), Err(KeyError::Place(_))), "{text}");
    }
}
