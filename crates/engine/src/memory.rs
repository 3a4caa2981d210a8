//! Giving memory back after a model was loaded or dropped. glibc keeps freed memory for later; after a load that is the
//! parsed protobuf and the probing session, which nobody will need again.

/// Returns free heap pages to the system, where the allocator can. Takes milliseconds: never call it on a lane.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes any padding, touches only the allocator's own free memory, and is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}
