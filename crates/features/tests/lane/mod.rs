//! A lane's runtime for a test.

/// Runs as a lane does: one thread, with a `LocalSet`.
pub(crate) fn on_lane<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
