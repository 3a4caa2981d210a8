//! Registering, finding and unregistering, on real shared memory.

use super::*;
use crate::testing::SharedMemory;
use flyball_core::FaultKind;

fn refused(result: Result<(), Fault>, text: &str) {
    let fault = result.expect_err(text);
    assert_eq!((fault.kind, fault.stage), (FaultKind::InvalidInput, Stage::Parse));
    assert!(fault.text.contains(text), "says: {fault}; want: {text}");
}

#[test]
fn a_region_is_found_by_its_name_until_it_is_unregistered_and_no_request_uses_it() {
    let memory = SharedMemory::holding(&[1, 2, 3, 4]);
    let regions = Regions::default();
    regions.register("b", memory.key(), 0, 4).expect("registers");
    regions.register("a", memory.key().trim_start_matches('/'), 1, 2).expect("registers");
    let all = regions.status(None).expect("status");
    assert_eq!(all.iter().map(|region| &*region.name).collect::<Vec<_>>(), ["a", "b"]);
    let key = memory.key().to_owned();
    let status = RegionStatus { name: "b".into(), key, offset: 0, byte_size: 4 };
    assert_eq!(regions.status(Some("b")).expect("status"), [status]);
    let part = regions.find("a").expect("is there").span(1, 1).expect("fits");
    regions.unregister(Some("a"));
    regions.unregister(Some("nobody"));
    let listed = |regions: &Regions| regions.status(None).expect("status").len();
    assert_eq!(listed(&regions), 2, "a request still uses 'a'");
    assert!(regions.find("a").is_ok());
    assert_eq!(part.read().expect("is held"), [3].as_slice());
    drop(part);
    assert!(regions.find("a").is_err());
    assert_eq!(listed(&regions), 1);
    regions.unregister(None);
    assert!(regions.status(None).expect("status").is_empty());
    let fault = regions.status(Some("b")).expect_err("is gone");
    assert_eq!(fault.text, "Unable to find system shared memory region: 'b'; register it first");
}

#[test]
fn what_cannot_be_a_region_is_refused_with_its_reason() {
    let memory = SharedMemory::holding(&[0; 8]);
    let regions = Regions::default();
    regions.register("r", memory.key(), 0, 8).expect("registers");
    refused(regions.register("r", memory.key(), 0, 8), "already in manager; unregister it first");
    refused(regions.register("", memory.key(), 0, 8), "a name has 1 to 1024 bytes");
    refused(regions.register(&"n".repeat(1025), memory.key(), 0, 8), "a name has 1 to 1024 bytes");
    refused(regions.register("s", memory.key(), 0, 0), "register at least one byte");
    refused(regions.register("s", memory.key(), 0, 9), "which has 8");
    refused(regions.register("s", memory.key(), 8, 1), "which has 8");
    refused(regions.register("s", memory.key(), 1, u64::MAX), "which has 8");
    refused(regions.register("s", "/flyball-nobody-made-this", 0, 1), "cannot be opened");
    for key in ["", "/", "//", "a/b", "/../etc/passwd", "..", "/.", "a\0b", &"k".repeat(256)] {
        refused(regions.register("s", key, 0, 1), "a key is one name");
    }
    let reserved = "triton_python_backend_shm_region_1";
    for key in [reserved.to_owned(), format!("/{reserved}"), format!("///{reserved}")] {
        refused(regions.register("s", &key, 0, 1), "as the key contains the reserved prefix");
    }
    assert_eq!(regions.status(None).expect("status").len(), 1);
}

#[test]
fn a_link_is_not_shared_memory() {
    let memory = SharedMemory::holding(&[0; 8]);
    let link = format!("{}-link", memory.key());
    let path = memory.path().with_file_name(&link[1..]);
    std::os::unix::fs::symlink(memory.path(), &path).expect("a link");
    let registered = Regions::default().register("r", &link, 0, 8);
    std::fs::remove_file(path).expect("removed");
    refused(registered, "cannot be opened");
}

#[test]
fn what_is_private_to_another_user_is_not_opened_even_by_root() {
    assert!(private_to_another(1000, 0o100_600, 0));
    assert!(private_to_another(1000, 0o100_604, 0), "it is opened to read and to write");
    assert!(!private_to_another(1000, 0o100_600, 1000));
    assert!(!private_to_another(1000, 0o100_666, 0));
    // Only root can give a segment away, and only root could open it then.
    if !geteuid().is_root() {
        return;
    }
    let memory = SharedMemory::holding(&[0; 8]);
    std::os::unix::fs::chown(memory.path(), Some(12345), None).expect("root may");
    refused(Regions::default().register("r", memory.key(), 0, 8), "private to another user");
}

#[test]
fn there_are_never_more_regions_than_the_limit() {
    let memory = SharedMemory::holding(&[0]);
    let regions = Regions::default();
    let file = || File::open(memory.path()).expect("is there");
    let region = |name: &str| {
        let region = Arc::new(Region::new(name, memory.key(), 0, 1, file()).expect("fits"));
        Arc::new(Registered { region, leaving: AtomicBool::new(false) })
    };
    let full = (0..REGIONS_MAX - 1).map(|number| (number.to_string(), region("one")));
    regions.by_name.store(Arc::new(full.collect()));
    regions.register("last", memory.key(), 0, 1).expect("there is room for one more");
    refused(
        regions.register("one more", memory.key(), 0, 1),
        "1024 regions are registered, which is the limit",
    );
}
