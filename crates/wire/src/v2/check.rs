//! The checks that every form of a V2 request shares, before elements are allocated.
//!
//! They cover names, shapes, datatypes and memory.

use bytestring::ByteString;
use flyball_core::{
    DataType, Fault, FaultKind, RequestLimits, RequestedOutput, Shape, Stage, Tensor, TensorData,
    triton_texts,
};
use std::collections::HashSet;

/// The cost of a string list for each element besides its text.
pub(super) const STRING_BYTES: usize = size_of::<String>();

/// Maximum stored axes. The configured limit is far lower; this one only bounds the cost of a hostile shape.
const AXES_KEPT_MAX: usize = 64;

/// No allocation can be larger.
const MEMORY_MAX: usize = isize::MAX as usize;

/// A parsed shape: the number of axes, and those that are stored.
#[derive(Debug, Default)]
pub(super) struct Axes {
    rank: usize,
    kept: Shape,
}

impl Axes {
    pub(super) fn push(&mut self, axis: i64) {
        self.rank += 1;
        if self.rank <= AXES_KEPT_MAX {
            self.kept.push(axis);
        }
    }
}

/// A checked tensor header: its elements can be counted and its name is short enough for an error.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: ByteString,
    pub(super) datatype: DataType,
    pub(super) shape: Shape,
    pub(super) elements: usize,
}

impl Described {
    pub(super) fn check(
        name: ByteString,
        datatype: &str,
        axes: Axes,
        limits: &RequestLimits,
    ) -> Result<Described, Fault> {
        let Axes { rank, kept: shape } = axes;
        check_name("input", &name, limits)?;
        if rank > limits.rank_max || rank != shape.len() {
            return Err(Fault::malformed(format!(
                "input '{name}': shape has {rank} axes; at most {} are allowed",
                limits.rank_max
            )));
        }
        let Some(datatype) = DataType::from_label(datatype) else {
            let is: String = datatype.chars().take(32).collect();
            let allowed = DataType::ALL.map(DataType::name).join(", ");
            return Err(Fault::malformed(format!(
                "input '{name}': datatype '{is}' is unknown; allowed: {allowed}"
            )));
        };
        let Some(elements) = Tensor::elements(&shape) else {
            return Err(Fault::malformed(if shape.iter().any(|&axis| axis < 0) {
                format!("input '{name}': shape {shape:?} cannot be; each axis must be 0 or more")
            } else {
                triton_texts::too_many_elements(&name, &shape)
            }));
        };
        if elements.checked_mul(datatype.size().unwrap_or(1)).is_none_or(|bytes| bytes > MEMORY_MAX) {
            let text = triton_texts::byte_size_overflow(&name);
            return Err(Fault::malformed(format!(
                "{text}: {elements} elements of {} exceed all memory",
                datatype.name()
            )));
        }
        Ok(Described { name, datatype, shape, elements })
    }

    pub(super) fn malformed(&self, what: impl std::fmt::Display) -> Fault {
        Fault::malformed(format!("input '{}': {what}", self.name))
    }

    pub(super) fn invalid(&self, what: impl std::fmt::Display) -> Fault {
        Fault::invalid_input(Stage::Parse, format!("input '{}': {what}", self.name))
    }

    pub(super) fn wrong_count(&self, is: impl std::fmt::Display) -> Fault {
        self.malformed(format_args!(
            "shape {:?} asks for {} elements, but there are {is}",
            self.shape, self.elements
        ))
    }

    /// FP16 and BF16 exist only as raw bytes.
    pub(super) fn only_raw(&self, advice: &str) -> Fault {
        self.invalid(format_args!("{} has no place here; {advice}", self.datatype.name()))
    }

    pub(super) fn with(self, data: TensorData) -> Tensor {
        Tensor { name: self.name, datatype: self.datatype, shape: self.shape, data }
    }
}

/// Bytes that the request's tensors may still use, and their model, which errors name.
pub(super) struct Budget<'m> {
    pub(super) model: &'m str,
    max: usize,
    left: usize,
    region_max: usize,
    region_left: usize,
}

impl<'m> Budget<'m> {
    pub(super) fn of(limits: &RequestLimits, model: &'m str) -> Budget<'m> {
        let (max, region_max) = (limits.tensor_bytes_max, limits.region_bytes_max);
        Budget { model, max, left: max, region_max, region_left: region_max }
    }

    /// Takes the minimum cost of the elements; the texts of strings are taken as they are parsed.
    pub(super) fn take_elements(&mut self, tensor: &Described) -> Result<(), Fault> {
        let each = tensor.datatype.size().unwrap_or(STRING_BYTES);
        self.take(&tensor.name, tensor.elements.saturating_mul(each))
    }

    pub(super) fn take(&mut self, name: &str, bytes: usize) -> Result<(), Fault> {
        self.check(name, bytes)?;
        self.left -= bytes;
        Ok(())
    }

    /// Takes what is about to be copied out of shared memory.
    pub(super) fn take_region(&mut self, name: &str, bytes: usize) -> Result<(), Fault> {
        self.region_left = self.region_left.checked_sub(bytes).ok_or_else(|| {
            let text = format!(
                "input '{name}': the request's inputs in shared memory take more than {} bytes, the server's limit \
                 (body_bytes_max); send fewer rows in one request",
                self.region_max
            );
            Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text)
        })?;
        Ok(())
    }

    /// Checks that this many bytes remain, without taking them.
    pub(super) fn check(&self, name: &str, bytes: usize) -> Result<(), Fault> {
        if bytes <= self.left {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::BodyTooLarge,
            Stage::Parse,
            format!(
                "input '{name}': the request's tensors take more than {} bytes; send fewer rows in one request",
                self.max
            ),
        ))
    }
}

pub(super) fn check_name(what: &str, name: &str, limits: &RequestLimits) -> Result<(), Fault> {
    if name.len() <= limits.name_bytes_max {
        return Ok(());
    }
    let start: String = name.chars().take(32).collect();
    Err(Fault::malformed(format!(
        "{what} '{start}…' has {} bytes; at most {} are allowed",
        name.len(),
        limits.name_bytes_max
    )))
}

/// Up to this many names are compared pairwise without memory; more go into a set.
const NAMES_COMPARED_MAX: usize = 32;

pub(super) fn check_inputs_distinct(inputs: &[Tensor]) -> Result<(), Fault> {
    match repeated(inputs.iter().map(|input| &*input.name)) {
        None => Ok(()),
        Some(name) => {
            Err(Fault::malformed(format!("input '{name}' is given twice; each name may appear once")))
        }
    }
}

pub(super) fn check_outputs_distinct(outputs: &[RequestedOutput]) -> Result<(), Fault> {
    match repeated(outputs.iter().map(|output| &*output.name)) {
        None => Ok(()),
        Some(name) => Err(Fault::malformed(format!("{}; ask for it once", triton_texts::output_twice(name)))),
    }
}

/// The first name that appears twice.
fn repeated<'n>(names: impl ExactSizeIterator<Item = &'n str> + Clone) -> Option<&'n str> {
    if names.len() <= NAMES_COMPARED_MAX {
        let mut others = names.clone();
        for name in names {
            others.next();
            if others.clone().any(|other| other == name) {
                return Some(name);
            }
        }
        return None;
    }
    let mut seen = HashSet::with_capacity(names.len());
    names.into_iter().find(|name| !seen.insert(*name))
}

pub(super) fn check_tensor_count(what: &str, count: usize, limits: &RequestLimits) -> Result<(), Fault> {
    if count <= limits.tensors_max {
        return Ok(());
    }
    Err(Fault::malformed(format!(
        "the request has more {what} than the {} that are allowed",
        limits.tensors_max
    )))
}

/// Rejects an output with two destinations.
pub(super) fn check_output(output: &RequestedOutput) -> Result<(), Fault> {
    if output.region.is_none() {
        return Ok(());
    }
    let twice = |other: &str| {
        let name = &output.name;
        Err(Fault::malformed(format!(
            "output '{name}': has both shared_memory_region and {other}; give one of them"
        )))
    };
    if output.classes > 0 {
        return twice("classification");
    }
    if output.binary == Some(true) { twice("binary_data") } else { Ok(()) }
}
