//! Bounds on one request that the parsers check before they allocate.

/// The limits of one request, independent of its body's size.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    pub tensors_max: usize,
    pub rank_max: usize,
    /// Maximum decoded size of a request's tensors, in bytes.
    ///
    /// JSON `0,` is two bytes and decodes to eight, so the body limit alone does not bound this.
    pub tensor_bytes_max: usize,
    /// Maximum shared memory that a request's inputs may use, in bytes. Inputs are copied like a body, so
    /// they are bounded like one.
    pub region_bytes_max: usize,
    pub name_bytes_max: usize,
    /// Maximum rows of one decision request.
    pub decision_rows_max: usize,
}

impl RequestLimits {
    pub const fn for_body(body_bytes_max: usize) -> RequestLimits {
        RequestLimits {
            tensors_max: 1024,
            rank_max: 16,
            tensor_bytes_max: body_bytes_max.saturating_mul(8),
            region_bytes_max: body_bytes_max,
            name_bytes_max: 1024,
            decision_rows_max: 1024,
        }
    }
}
