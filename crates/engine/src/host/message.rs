//! Requests to a model host and its responses.
//!
//! Model bytes and tensors are the frame's payload. Strict: a payload has exactly the size of its header, and
//! every tensor that of its shape.

use super::Proof;
use crate::{Artifact, ScanFacts, SessionOptions};
use bytes::Bytes;
use flyball_core::{DataType, Digest, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Ask {
    /// The first frame. It has no response: errors come with the next one.
    Open { build: String, ort_path: PathBuf },
    /// Creates a session and probes it.
    Prove { model: ModelParts, rows_max: usize, session: SessionOptions, trees: bool, memory_bytes_max: u64 },
    /// Creates a session for later runs.
    Load { model: ModelParts, memory_bytes_max: u64 },
    /// Runs the loaded model once on the rows of these requests.
    Run { requests: Vec<Vec<TensorPart>> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    Proven(Box<Proof>),
    Loaded,
    Ran {
        outputs: Vec<TensorPart>,
    },
    /// A fault of the model or of its input.
    Refused {
        reason: String,
    },
    OutOfMemory,
}

/// The sizes of a model's files, in payload order.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelParts {
    digest: Digest,
    model_bytes: usize,
    external_data: Vec<(String, usize)>,
}

impl ModelParts {
    pub(super) fn of(artifact: &Artifact) -> (ModelParts, Vec<&[u8]>) {
        let external_data = artifact.external_data.iter();
        let parts = ModelParts {
            digest: artifact.digest,
            model_bytes: artifact.model.len(),
            external_data: external_data.clone().map(|(name, bytes)| (name.clone(), bytes.len())).collect(),
        };
        let payload = std::iter::once(artifact.model.as_slice());
        (parts, payload.chain(external_data.map(|(_, bytes)| &**bytes)).collect())
    }

    /// Rebuilds the model. The sender already has its scan facts.
    pub(super) fn artifact(self, mut payload: Vec<u8>) -> Result<Artifact, String> {
        let rest = payload.len().checked_sub(self.model_bytes).ok_or("the payload is too short")?;
        let beside = payload.split_off(payload.len() - rest);
        let mut beside = Taking(&beside);
        let mut external_data = Vec::with_capacity(self.external_data.len());
        for (name, bytes) in self.external_data {
            external_data.push((name, beside.take(bytes)?.into()));
        }
        beside.end()?;
        Ok(Artifact {
            digest: self.digest,
            facts: ScanFacts::default(),
            model: payload,
            external_data,
            defaults: Vec::new(),
        })
    }
}

/// A tensor without its elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorPart {
    name: String,
    datatype: DataType,
    shape: Vec<i64>,
    /// For BYTES, the size of each element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strings_bytes: Option<Vec<usize>>,
}

impl TensorPart {
    /// Describes a tensor, and adds its elements to the payload.
    pub(super) fn of<'t>(tensor: &'t Tensor, payload: &mut Vec<&'t [u8]>) -> TensorPart {
        let strings_bytes = match &tensor.data {
            TensorData::Fixed(bytes) => {
                payload.push(bytes);
                None
            }
            TensorData::Strings(strings) => {
                payload.extend(strings.iter().map(|string| string.as_ref()));
                Some(strings.iter().map(Bytes::len).collect())
            }
        };
        let (name, shape) = (tensor.name.to_string(), tensor.shape.to_vec());
        TensorPart { name, datatype: tensor.datatype, shape, strings_bytes }
    }

    fn tensor(&self, payload: &mut Taking<'_>) -> Result<Tensor, String> {
        let wrong = || format!("tensor '{}' does not match its shape", self.name);
        let elements = Tensor::elements(&self.shape).ok_or_else(wrong)?;
        let data = match (self.datatype.size(), &self.strings_bytes) {
            (Some(size), None) => {
                let bytes = elements.checked_mul(size).ok_or_else(wrong)?;
                TensorData::Fixed(Bytes::copy_from_slice(payload.take(bytes)?))
            }
            (None, Some(lengths)) if lengths.len() == elements => {
                let string = |&bytes: &usize| Ok::<_, String>(Bytes::copy_from_slice(payload.take(bytes)?));
                TensorData::Strings(lengths.iter().map(string).collect::<Result<_, _>>()?)
            }
            _ => return Err(wrong()),
        };
        let (name, shape) = (self.name.as_str().into(), self.shape.iter().copied().collect());
        Ok(Tensor { name, datatype: self.datatype, shape, data })
    }
}

/// The tensors of each list. The payload contains exactly their elements.
pub(super) fn tensors(lists: &[Vec<TensorPart>], payload: &[u8]) -> Result<Vec<Vec<Tensor>>, String> {
    let mut payload = Taking(payload);
    let list = |parts: &Vec<TensorPart>| parts.iter().map(|part| part.tensor(&mut payload)).collect();
    let all = lists.iter().map(list).collect::<Result<_, _>>()?;
    payload.end()?;
    Ok(all)
}

struct Taking<'p>(&'p [u8]);

impl<'p> Taking<'p> {
    fn take(&mut self, bytes: usize) -> Result<&'p [u8], String> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or("the payload is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", self.0.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_tensor() -> impl Strategy<Value = Tensor> {
        let shape = prop::collection::vec(0_i64..4, 0..4);
        (any::<String>(), shape, prop::sample::select(DataType::ALL.to_vec())).prop_flat_map(
            |(name, shape, datatype)| {
                let elements = Tensor::elements(&shape).unwrap();
                let data = match datatype.size() {
                    Some(size) => prop::collection::vec(any::<u8>(), elements * size)
                        .prop_map(|bytes| TensorData::Fixed(bytes.into()))
                        .boxed(),
                    None => prop::collection::vec(any::<Vec<u8>>().prop_map(Bytes::from), elements)
                        .prop_map(TensorData::Strings)
                        .boxed(),
                };
                let shape: flyball_core::Shape = shape.into_iter().collect();
                data.prop_map(move |data| Tensor {
                    name: name.as_str().into(),
                    datatype,
                    shape: shape.clone(),
                    data,
                })
            },
        )
    }

    proptest! {
        #[test]
        fn tensors_come_out_as_they_went_in_and_a_byte_more_or_less_is_refused(
            requests in prop::collection::vec(prop::collection::vec(a_tensor(), 0..3), 0..3),
        ) {
            let mut bytes = Vec::new();
            let mut parts = Vec::new();
            for request in &requests {
                parts.push(request.iter().map(|tensor| TensorPart::of(tensor, &mut bytes)).collect());
            }
            let bytes = bytes.concat();
            prop_assert_eq!(&tensors(&parts, &bytes).unwrap(), &requests);
            let longer = [&bytes[..], b"x"].concat();
            prop_assert!(tensors(&parts, &longer).is_err());
            if let Some((_, shorter)) = bytes.split_last() {
                prop_assert!(tensors(&parts, shorter).is_err());
            }
        }
    }
}
