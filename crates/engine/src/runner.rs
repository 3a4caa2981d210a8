//! One ONNX Runtime session with its reused input buffers. A runner belongs to one lane at a time: ONNX Runtime's
//! `Run` is not to be trusted from several threads at once, and `&mut self` says so.

use crate::refusal::one_line;
use crate::{Refusal, Runtime, Signature};
use bytemuck::Pod;
use bytes::Bytes;
use flyball_core::{DataType, Shape, Tensor, TensorData, TensorSpec};
use half::{bf16, f16};
use ort::session::{Session, SessionInputValue, builder::GraphOptimizationLevel};
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor as OrtTensor, TensorRef};
use std::fmt::Debug;
use std::sync::Arc;

/// A run that did not give outputs. The text is ONNX Runtime's, shortened to a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub String);

pub struct Runner {
    session: Session,
    signature: Arc<Signature>,
    columns: Vec<Column>,
}

/// The joined rows of one input. `u64` words keep every element type aligned.
struct Column {
    shape: Shape,
    words: Vec<u64>,
    length_bytes: usize,
    strings: Vec<String>,
}

/// How much a session says. Lanes' sessions keep quiet: some converted models warn at every run, and ONNX Runtime
/// would format a line for each. The probing session reports what there is to report.
#[derive(Clone, Copy)]
pub(crate) enum Voice {
    Warnings,
    ErrorsOnly,
}

impl Runner {
    pub(crate) fn new(
        runtime: &Runtime,
        artifact: &crate::Artifact,
        voice: Voice,
    ) -> Result<Runner, Refusal> {
        let session = session(runtime, artifact, voice).map_err(|error| Refusal::from_ort(&error))?;
        let signature = Arc::new(Signature::of(&session)?);
        let columns = signature.inputs.iter().map(|_| Column::new()).collect();
        Ok(Runner { session, signature, columns })
    }

    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// Lays the rows of several requests behind each other. Each request has the model's inputs in the model's order,
    /// of the right types, and shapes that differ at most in the first axis: the tensor stage has checked it.
    pub fn join<'r>(&mut self, requests: impl Iterator<Item = &'r [Tensor]> + Clone) {
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.fill(requests.clone().filter_map(|inputs| inputs.get(place)));
        }
    }

    /// Runs the model on what was joined.
    pub fn run(&mut self) -> Result<Vec<Tensor>, RunError> {
        let failed = |error: ort::Error| RunError(one_line(error.message()));
        let mut inputs = Vec::with_capacity(self.columns.len());
        for (column, spec) in self.columns.iter().zip(&self.signature.inputs) {
            inputs.push(column.value(spec.datatype).map_err(failed)?);
        }
        let outputs = self.session.run(inputs.as_slice()).map_err(failed)?;
        let specs = self.signature.outputs.iter();
        specs.zip(outputs.values()).map(|(spec, value)| tensor(spec, &value).map_err(failed)).collect()
    }
}

fn session(runtime: &Runtime, artifact: &crate::Artifact, voice: Voice) -> ort::Result<Session> {
    let level = match voice {
        Voice::Warnings => ort::logging::LogLevel::Warning,
        Voice::ErrorsOnly => ort::logging::LogLevel::Error,
    };
    // One thread and no spinning: lanes are the parallelism, and a spinning pool takes the cores from them.
    let mut builder = Session::builder(&runtime.environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        .with_log_level(level)?;
    for (name, bytes) in &artifact.external_data {
        builder = builder.with_external_initializer_file_in_memory(name, Arc::clone(bytes))?;
    }
    builder.commit_from_memory(&artifact.model)
}

impl Column {
    fn new() -> Column {
        Column { shape: Shape::new(), words: Vec::new(), length_bytes: 0, strings: Vec::new() }
    }

    fn fill<'r>(&mut self, parts: impl Iterator<Item = &'r Tensor> + Clone) {
        self.strings.clear();
        self.shape.clear();
        let size = |part: &Tensor| match &part.data {
            TensorData::Fixed(bytes) => bytes.len(),
            TensorData::Strings(_) => 0,
        };
        self.length_bytes = parts.clone().map(size).sum();
        self.words.resize(self.length_bytes.div_ceil(8), 0);
        let mut rest: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        for part in parts {
            match self.shape.first_mut() {
                None => self.shape.extend_from_slice(&part.shape),
                Some(rows) => *rows += part.shape.first().copied().unwrap_or(0),
            }
            match &part.data {
                TensorData::Fixed(bytes) => {
                    let (here, after) = rest.split_at_mut(bytes.len());
                    here.copy_from_slice(bytes);
                    rest = after;
                }
                TensorData::Strings(strings) => self.strings.extend(strings.iter().cloned()),
            }
        }
    }

    fn value(&self, datatype: DataType) -> ort::Result<SessionInputValue<'_>> {
        match datatype {
            DataType::Bool => {
                let bytes: &[u8] = bytemuck::cast_slice(&self.words);
                let flags: Vec<bool> = bytes[..self.length_bytes].iter().map(|&byte| byte != 0).collect();
                Ok(OrtTensor::from_array((self.shape.to_vec(), flags))?.into())
            }
            DataType::Bytes => {
                Ok(OrtTensor::from_string_array((self.shape.to_vec(), self.strings.as_slice()))?.into())
            }
            DataType::Uint8 => self.view::<u8>(),
            DataType::Uint16 => self.view::<u16>(),
            DataType::Uint32 => self.view::<u32>(),
            DataType::Uint64 => self.view::<u64>(),
            DataType::Int8 => self.view::<i8>(),
            DataType::Int16 => self.view::<i16>(),
            DataType::Int32 => self.view::<i32>(),
            DataType::Int64 => self.view::<i64>(),
            DataType::Fp16 => self.view::<f16>(),
            DataType::Bf16 => self.view::<bf16>(),
            DataType::Fp32 => self.view::<f32>(),
            DataType::Fp64 => self.view::<f64>(),
        }
    }

    fn view<T: PrimitiveTensorElementType + Pod + Debug>(&self) -> ort::Result<SessionInputValue<'_>> {
        let elements: &[T] = bytemuck::cast_slice(&self.words);
        let elements = &elements[..self.length_bytes / size_of::<T>()];
        Ok(TensorRef::from_array_view((self.shape.to_vec(), elements))?.into())
    }
}

fn tensor(spec: &TensorSpec, value: &DynValue) -> ort::Result<Tensor> {
    let (shape, data) = match spec.datatype {
        DataType::Bool => {
            let (shape, flags) = value.try_extract_tensor::<bool>()?;
            (shape, TensorData::Fixed(flags.iter().map(|&flag| u8::from(flag)).collect()))
        }
        DataType::Bytes => {
            let (shape, strings) = value.try_extract_strings()?;
            (shape, TensorData::Strings(strings))
        }
        DataType::Uint8 => fixed::<u8>(value)?,
        DataType::Uint16 => fixed::<u16>(value)?,
        DataType::Uint32 => fixed::<u32>(value)?,
        DataType::Uint64 => fixed::<u64>(value)?,
        DataType::Int8 => fixed::<i8>(value)?,
        DataType::Int16 => fixed::<i16>(value)?,
        DataType::Int32 => fixed::<i32>(value)?,
        DataType::Int64 => fixed::<i64>(value)?,
        DataType::Fp16 => fixed::<f16>(value)?,
        DataType::Bf16 => fixed::<bf16>(value)?,
        DataType::Fp32 => fixed::<f32>(value)?,
        DataType::Fp64 => fixed::<f64>(value)?,
    };
    let shape = shape.iter().copied().collect();
    Ok(Tensor { name: spec.name.clone(), datatype: spec.datatype, shape, data })
}

fn fixed<T: PrimitiveTensorElementType + Pod>(
    value: &DynValue,
) -> ort::Result<(&ort::value::Shape, TensorData)> {
    let (shape, elements) = value.try_extract_tensor::<T>()?;
    Ok((shape, TensorData::Fixed(Bytes::copy_from_slice(bytemuck::cast_slice(elements)))))
}
