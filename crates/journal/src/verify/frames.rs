//! Verifies frames from elsewhere, such as Parquet, against their segment's root.

use super::{Finding, What};
use crate::format::{FormatError, Frame, Hash, Header};
use crate::merkle::Growing;

/// Verifies that these are all frames of a segment, in order, under this root.
pub fn verify_frames<'a>(
    header: &[u8],
    frames: impl IntoIterator<Item = Frame<'a>>,
    root: &Hash,
) -> Result<Vec<Finding>, FormatError> {
    let header = Header::decode(header)?;
    let mut last = header.leaf();
    let mut tree = Growing::default();
    tree.push(&last);
    let mut findings = Vec::new();
    let mut expected = header.first_seq;
    for (index, frame) in frames.into_iter().enumerate() {
        let what = if frame.seq != expected {
            Some(What::Sequence { expected, found: frame.seq })
        } else {
            (frame.prev != last).then_some(What::Link)
        };
        if let Some(what) = what
            && findings.len() < super::FINDINGS_MAX
        {
            let of_segment = Finding::of_segment(header.segment, what);
            findings.push(Finding { frame: Some(index as u64), seq: Some(frame.seq), ..of_segment });
        }
        expected = frame.seq.saturating_add(1);
        last = frame.leaf();
        tree.push(&last);
    }
    if findings.is_empty() && tree.root() != *root {
        findings.push(Finding::of_segment(header.segment, What::Root));
    }
    Ok(findings)
}
