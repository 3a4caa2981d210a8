//! Verifies frames from elsewhere, such as Parquet, against their segment's root.

use super::{Finding, FindingKind};
use crate::format::{FormatError, Frame, Hash, Header};
use crate::merkle::MerkleTree;

/// Verifies that these are all frames of a segment, in order, under this root.
pub fn verify_frames<'a>(
    header: &[u8],
    frames: impl IntoIterator<Item = Frame<'a>>,
    root: &Hash,
) -> Result<Vec<Finding>, FormatError> {
    let header = Header::decode(header)?;
    let mut last = header.leaf();
    let mut tree = MerkleTree::default();
    tree.push(&last);
    let mut findings = Vec::new();
    let mut expected = header.first_seq;
    for (index, frame) in frames.into_iter().enumerate() {
        let what = if frame.seq != expected {
            Some(FindingKind::Sequence { expected, found: frame.seq })
        } else {
            (frame.prev != last).then_some(FindingKind::Link)
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
        findings.push(Finding::of_segment(header.segment, FindingKind::Root));
    }
    Ok(findings)
}
