//! Tensors in system shared memory, equal for HTTP and gRPC.
//!
//! Locates where an input is read from, and where an output is written instead of the response.

use super::binary;
use super::check::{Budget, Described};
use super::parameters::Parameter;
use crate::regions::Regions;
use bytes::BytesMut;
use flyball_core::triton_texts::SHARED_MEMORY_DISABLED;
use flyball_core::{Answer, Fault, RegionSpan, Stage, Tensor, TensorData};

/// A tensor's shared-memory parameters.
#[derive(Debug, Default)]
pub(super) struct Shared<'t> {
    pub(super) region: Option<Parameter<'t>>,
    pub(super) offset: Option<Parameter<'t>>,
    pub(super) byte_size: Option<Parameter<'t>>,
}

impl Shared<'_> {
    /// The referenced span of a region, if any. `what` and `name` identify the tensor in errors.
    pub(super) fn span(
        &self,
        what: &str,
        name: &str,
        regions: Option<&Regions>,
    ) -> Result<Option<RegionSpan>, Fault> {
        let Some(region) = &self.region else { return Ok(None) };
        let Some(regions) = regions else {
            return Err(Fault::not_offered(format!(
                "{what} '{name}': {SHARED_MEMORY_DISABLED}; start the server with --allow-shared-memory, or send and read the \
                 tensor itself"
            )));
        };
        let wrong = |text: &str| Err(Fault::malformed(format!("{what} '{name}': {text}")));
        let Parameter::Text(region) = region else {
            return wrong("shared_memory_region must be a text, the name of a region");
        };
        let offset = match self.offset {
            None => 0,
            Some(Parameter::Whole(offset)) => offset,
            Some(_) => return wrong("shared_memory_offset must be a whole number, 0 or more"),
        };
        let Some(Parameter::Whole(byte_size)) = self.byte_size else {
            return wrong(
                "shared_memory_byte_size must be a whole number: the bytes that the tensor may take",
            );
        };
        let span = regions.find(region).and_then(|region| region.span(offset, byte_size));
        span.map(Some).map_err(|fault| Fault { text: format!("{what} '{name}': {fault}").into(), ..fault })
    }
}

/// Reads the tensor from a region. Its size is checked before anything is copied.
pub(super) fn read(tensor: Described, span: &RegionSpan, budget: &mut Budget<'_>) -> Result<Tensor, Fault> {
    let bytes = usize::try_from(span.bytes()).unwrap_or(usize::MAX);
    binary::check_size(&tensor, bytes, budget.model)?;
    budget.check(&tensor.name, bytes)?;
    budget.take_region(&tensor.name, bytes)?;
    let bytes = span.read().map_err(|fault| tensor.invalid(fault.text))?;
    binary::read(tensor, bytes, budget)
}

/// Writes the outputs that go into regions. None is written before all are known to fit.
pub(super) fn write_outputs(answer: &Answer<'_>) -> Result<(), Fault> {
    for (tensor, span) in placed(answer) {
        let bytes = binary::size(&tensor.data);
        if bytes as u64 > span.bytes() {
            let text = format!(
                "output '{}' takes {bytes} bytes, but the request gives it {} of shared memory region '{}'; give it more",
                tensor.name,
                span.bytes(),
                span.region().name
            );
            return Err(Fault::invalid_input(Stage::Respond, text));
        }
    }
    for (tensor, span) in placed(answer) {
        match &tensor.data {
            TensorData::Fixed(bytes) => span.write(bytes)?,
            TensorData::Strings(_) => {
                let mut bytes = BytesMut::new();
                binary::write(&tensor.data, &mut bytes);
                span.write(&bytes)?;
            }
        }
    }
    Ok(())
}

fn placed<'a>(answer: &Answer<'a>) -> impl Iterator<Item = (&'a Tensor, &'a RegionSpan)> {
    answer.each().filter_map(|(tensor, place)| Some((tensor, place.region.as_ref()?)))
}
