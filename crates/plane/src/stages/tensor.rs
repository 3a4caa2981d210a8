//! The model's inputs, in its order, types and shapes: from a request's tensors, or from the columns of a decision's rows.
//!
//! A mismatch is refused with what the model expects.

use crate::decision_walk::DecisionWalk;
use crate::plan::ModelStep;
use crate::raw_body::raw_input;
use crate::{Model, classification};
use flyball_core::{
    Fault, InferRequest, OutputSlot, RequestedOutput, Sink, Stage, Tensor, TensorData, TensorSpec,
    triton_texts,
};
use smallvec::SmallVec;

/// The outputs for the caller, by index in model order.
pub(crate) type SelectedOutputs = SmallVec<[OutputSlot; 4]>;

/// Extracts the inputs and the selected outputs of a request.
pub(crate) fn tensor<M>(
    request: &mut InferRequest,
    model: &Model<M>,
) -> Result<(Vec<Tensor>, SelectedOutputs), Fault> {
    let (name, signature, batched) = (&*model.name, model.client_signature(), model.batching.on());
    let mut given = std::mem::take(&mut request.inputs);
    if let Some(body) = request.whole.take() {
        given.push(raw_input(&model.name, body, &signature.inputs, batched)?);
    }
    fill_in(name, &mut given, &signature.inputs, &model.defaults, batched)?;
    let mut inputs = inputs(name, given, &signature.inputs, batched)?;
    if !model.moves_texts {
        inputs.iter().try_for_each(is_text)?;
    }
    if let Some(shapes) = &model.client_shapes {
        shapes.to_model(&mut inputs);
    }
    Ok((inputs, selected(name, &request.outputs, &signature.outputs, request.binary_outputs)?))
}

impl<S: Sink> DecisionWalk<'_, S> {
    /// The inputs of a step's model for these rows.
    pub(crate) fn tensors(&mut self, step: &ModelStep, rows: &[usize]) -> Vec<Tensor> {
        let mut inputs = self.lane.spare();
        let (program, buffers) = (&self.decision.program, &mut *self.buffers);
        program.tensors(step.model, &buffers.rows, rows, &buffers.scores, &mut buffers.scratch, &mut inputs);
        inputs
    }
}

/// Adds the inputs that the client left out, with a row for each of the others' rows.
fn fill_in(
    model: &str,
    given: &mut Vec<Tensor>,
    specs: &[TensorSpec],
    defaults: &[Tensor],
    batched: bool,
) -> Result<(), Fault> {
    if defaults.is_empty() {
        return Ok(());
    }
    let is_given = |name: &str| given.iter().any(|tensor| *tensor.name == *name);
    let optional = |spec: &TensorSpec| defaults.iter().any(|default| *default.name == *spec.name);
    if specs.iter().any(|spec| !optional(spec) && !is_given(&spec.name)) {
        return Err(missing(model, given, specs, defaults));
    }
    let rows = if batched { given.first().map_or(1, Tensor::rows) } else { 1 };
    let left_out: Vec<_> = defaults.iter().filter(|default| !is_given(&default.name)).collect();
    let bytes: usize = left_out.iter().map(|default| bytes_of(default)).sum();
    if bytes.saturating_mul(rows) > DEFAULTS_BYTES_MAX {
        return Err(misfit(format!(
            "the inputs that are left out take more than {DEFAULTS_BYTES_MAX} bytes in {rows} rows; send fewer rows"
        )));
    }
    given.extend(left_out.into_iter().map(|default| repeated(default, rows)));
    Ok(())
}

/// Maximum memory of all defaults of a request: no limit of a body bounds it.
const DEFAULTS_BYTES_MAX: usize = 64 << 20;

fn bytes_of(tensor: &Tensor) -> usize {
    match &tensor.data {
        TensorData::Fixed(bytes) => bytes.len(),
        TensorData::Strings(strings) => strings.len() * size_of::<bytes::Bytes>(),
    }
}

/// The same row several times; a tensor of several rows as it is.
fn repeated(row: &Tensor, rows: usize) -> Tensor {
    let mut tensor = row.clone();
    if rows > 1 && row.rows() == 1 && !row.shape.is_empty() {
        tensor.shape[0] = i64::try_from(rows).unwrap_or(i64::MAX);
        tensor.data = match &row.data {
            TensorData::Fixed(bytes) => TensorData::Fixed(bytes.repeat(rows).into()),
            TensorData::Strings(strings) => {
                TensorData::Strings(std::iter::repeat_n(strings, rows).flatten().cloned().collect())
            }
        };
    }
    tensor
}

fn inputs(
    model: &str,
    mut given: Vec<Tensor>,
    specs: &[TensorSpec],
    batched: bool,
) -> Result<Vec<Tensor>, Fault> {
    in_model_order(model, &mut given, specs)?;
    for (tensor, spec) in given.iter().zip(specs) {
        fits(model, tensor, spec)?;
    }
    if batched {
        same_rows(&given)?;
    }
    Ok(given)
}

/// The requested outputs, or all of them.
fn selected(
    model: &str,
    asked: &[RequestedOutput],
    specs: &[TensorSpec],
    raw: bool,
) -> Result<SelectedOutputs, Fault> {
    if asked.is_empty() {
        return Ok((0..specs.len()).map(|output| OutputSlot { output, raw, region: None }).collect());
    }
    let place = |asked: &RequestedOutput| {
        let output = specs.iter().position(|spec| *spec.name == *asked.name).ok_or_else(|| {
            let unexpected = triton_texts::unexpected_output(model, &asked.name);
            misfit(format!("{unexpected}; it gives {}", names(specs)))
        })?;
        if asked.classes > 0 {
            classification::check(&specs[output])?;
        }
        // An output in shared memory is not part of the answer.
        let raw = asked.region.is_none() && asked.binary.unwrap_or(raw);
        Ok(OutputSlot { output, raw, region: asked.region.clone() })
    };
    asked.iter().map(place).collect()
}

fn in_model_order(model: &str, given: &mut [Tensor], specs: &[TensorSpec]) -> Result<(), Fault> {
    for (place, spec) in specs.iter().enumerate() {
        let Some(found) = given.iter().skip(place).position(|tensor| *tensor.name == *spec.name) else {
            return Err(missing(model, given, specs, &[]));
        };
        given.swap(place, place + found);
    }
    match given.get(specs.len()) {
        None => Ok(()),
        Some(extra) => {
            let unexpected = triton_texts::unexpected_input(model, &extra.name);
            Err(misfit(format!("{unexpected}; it takes {}", names(specs))))
        }
    }
}

fn missing(model: &str, given: &[Tensor], specs: &[TensorSpec], optional: &[Tensor]) -> Fault {
    let among =
        |tensors: &[Tensor], spec: &TensorSpec| tensors.iter().any(|tensor| *tensor.name == *spec.name);
    let lacks = |spec: &&TensorSpec| !among(given, spec) && !among(optional, spec);
    let missing = specs.iter().filter(lacks).map(|spec| spec.name.as_str());
    let got = given.iter().map(|tensor| &*tensor.name);
    let counts = (specs.len() - optional.len(), specs.len());
    let missing = triton_texts::missing_inputs(model, counts, got, missing);
    misfit(format!("{missing} It takes {}", names(specs)))
}

fn fits(model: &str, tensor: &Tensor, spec: &TensorSpec) -> Result<(), Fault> {
    let (is, wanted) = (tensor.datatype, spec.datatype);
    if is != wanted {
        return Err(misfit(triton_texts::wrong_datatype(model, &spec.name, is.name(), wanted.name())));
    }
    if !spec.admits(&tensor.shape) {
        let unexpected = triton_texts::wrong_shape(model, &spec.name, &spec.shape, &tensor.shape);
        return Err(misfit(format!("{unexpected} (-1 is any size)")));
    }
    Ok(())
}

/// ONNX defines strings as UTF-8, and an operator that reads other bytes may do anything.
fn is_text(tensor: &Tensor) -> Result<(), Fault> {
    let TensorData::Strings(strings) = &tensor.data else { return Ok(()) };
    for (place, string) in strings.iter().enumerate() {
        if let Err(error) = std::str::from_utf8(string) {
            let name = &tensor.name;
            return Err(misfit(format!(
                "input '{name}': element {place} is not UTF-8 ({error}); this model's operators read its texts, so BYTES \
                 elements must be UTF-8"
            )));
        }
    }
    Ok(())
}

/// Maximum rows without elements: they take no bytes, so that no limit of a body bounds them.
const EMPTY_ROWS_MAX: usize = 1 << 16;

/// Checks that all inputs of a batched model have the same first axis, or the rows of a batch would not line up. For a model
/// without batching the first axis may have any meaning.
fn same_rows(given: &[Tensor]) -> Result<(), Fault> {
    let Some(first) = given.first() else { return Ok(()) };
    if let Some(empty) = given.iter().find(|tensor| tensor.rows() > EMPTY_ROWS_MAX && tensor.size() == 0) {
        let (name, rows) = (&empty.name, empty.rows());
        return Err(misfit(format!(
            "input '{name}' has {rows} rows without elements, and {EMPTY_ROWS_MAX} are the most; send fewer rows"
        )));
    }
    if first.rows() == 0 {
        return Err(misfit(format!("input '{}' has no rows; send at least one", first.name)));
    }
    match given.iter().find(|tensor| tensor.rows() != first.rows()) {
        None => Ok(()),
        Some(other) => {
            let (name, rows, other, others) = (&first.name, first.rows(), &other.name, other.rows());
            Err(misfit(format!(
                "input '{name}' has {rows} rows but '{other}' has {others}; all inputs must have the same first axis"
            )))
        }
    }
}

fn misfit(text: String) -> Fault {
    Fault::invalid_input(Stage::Tensor, text)
}

fn names(specs: &[TensorSpec]) -> String {
    specs.iter().map(|spec| format!("'{}'", spec.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use flyball_core::{DataType, FaultKind, TensorData};

    fn spec(name: &str, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), datatype: DataType::Fp32, shape: shape.to_vec() }
    }

    fn given(name: &str, shape: &[i64]) -> Tensor {
        let bytes = vec![0; Tensor::elements(shape).unwrap() * 4];
        let data = TensorData::Fixed(Bytes::from(bytes));
        Tensor { name: name.into(), datatype: DataType::Fp32, shape: shape.into(), data }
    }

    fn takes() -> [TensorSpec; 2] {
        [spec("a", &[-1, 2]), spec("b", &[-1, 3])]
    }

    fn gives() -> [TensorSpec; 2] {
        [spec("y", &[-1]), spec("z", &[-1])]
    }

    #[test]
    fn inputs_are_put_into_the_model_s_order() {
        let inputs = inputs("m", vec![given("b", &[1, 3]), given("a", &[1, 2])], &takes(), true).unwrap();
        assert_eq!(inputs.iter().map(|input| &*input.name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn each_kind_of_misfit_is_refused_with_what_the_model_wants() {
        let cases = [
            (
                vec![given("a", &[1, 2])],
                "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['a'], but missing required input(s) ['b']. \
                 Please provide all required input(s). It takes 'a', 'b'",
            ),
            (
                vec![given("a", &[1, 2]), given("b", &[1, 3]), given("c", &[1])],
                "unexpected inference input 'c' for model 'm'; it takes 'a', 'b'",
            ),
            (
                vec![given("a", &[1, 5]), given("b", &[1, 3])],
                "unexpected shape for input 'a' for model 'm'. Expected [-1,2], got [1,5] (-1 is any size)",
            ),
            (vec![given("a", &[0, 2]), given("b", &[0, 3])], "input 'a' has no rows; send at least one"),
            (
                vec![given("a", &[1 << 40, 0]), given("b", &[1, 3])],
                "unexpected shape for input 'a' for model 'm'. Expected [-1,2], got [1099511627776,0] (-1 is any size)",
            ),
            (
                vec![given("a", &[2, 2]), given("b", &[1, 3])],
                "input 'a' has 2 rows but 'b' has 1; all inputs must have the same first axis",
            ),
        ];
        for (given, text) in cases {
            let fault = inputs("m", given, &takes(), true).unwrap_err();
            assert_eq!((fault.kind, fault.text.as_ref()), (FaultKind::InvalidInput, text));
        }
    }

    #[test]
    fn a_model_that_is_not_batched_may_have_inputs_of_different_lengths() {
        assert!(inputs("m", vec![given("a", &[2, 2]), given("b", &[1, 3])], &takes(), false).is_ok());
        assert!(inputs("m", vec![given("a", &[0, 2]), given("b", &[0, 3])], &takes(), false).is_ok());
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_where_an_operator_reads_them() {
        let strings = |last: &'static [u8]| Tensor {
            data: TensorData::Strings(vec!["né".into(), last.into()]),
            ..given("x", &[2])
        };
        assert!(is_text(&strings(b"")).is_ok());
        let fault = is_text(&strings(b"a\xff")).unwrap_err();
        assert!(fault.text.starts_with(
            "input 'x': element 1 is not UTF-8 (invalid utf-8 sequence of 1 bytes from index 1)"
        ));
    }

    #[test]
    fn an_input_that_is_left_out_has_its_default_in_every_row() {
        let default = Tensor {
            data: TensorData::Fixed([1_f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect()),
            ..given("b", &[1, 2])
        };
        let specs = [spec("a", &[-1]), spec("b", &[-1, 2])];
        let defaults = [default];
        let mut left_out = vec![given("a", &[3])];
        fill_in("m", &mut left_out, &specs, &defaults, true).unwrap();
        assert_eq!(left_out[1].shape.as_slice(), [3, 2]);
        let TensorData::Fixed(bytes) = &left_out[1].data else { panic!("numbers") };
        let TensorData::Fixed(row) = &defaults[0].data else { panic!("numbers") };
        assert_eq!(bytes, &row.repeat(3));
        let mut sent = vec![given("b", &[3, 2]), given("a", &[3])];
        fill_in("m", &mut sent, &specs, &defaults, true).unwrap();
        assert_eq!(sent.len(), 2);
        let many = fill_in("m", &mut vec![given("a", &[1 << 24])], &specs, &defaults, true).unwrap_err();
        assert!(many.text.ends_with("in 16777216 rows; send fewer rows"), "{many}");
        let fault = fill_in("m", &mut vec![], &specs, &defaults, true).unwrap_err();
        assert!(
            fault.text.starts_with(
                "expected number of inputs between 1 and 2 but got 0 inputs for model 'm'. Got input(s) [], but missing \
                 required input(s) ['a']."
            ),
            "{fault}"
        );
    }

    #[test]
    fn rows_without_elements_are_taken_up_to_a_limit() {
        let specs = [spec("a", &[-1, -1])];
        assert!(inputs("m", vec![given("a", &[3, 0])], &specs, true).is_ok());
        let fault = inputs("m", vec![given("a", &[65_537, 0])], &specs, true).unwrap_err();
        assert!(fault.text.starts_with("input 'a' has 65537 rows without elements, and 65536 are the most"));
    }

    fn asked(name: &str, binary: Option<bool>) -> RequestedOutput {
        RequestedOutput { name: name.into(), binary, classes: 0, region: None }
    }

    #[test]
    fn outputs_come_as_asked_for_and_in_the_order_asked_for() {
        let order = |asked: &[RequestedOutput], raw| {
            let selected = selected("m", asked, &gives(), raw).unwrap();
            selected.iter().map(|place| (place.output, place.raw)).collect::<Vec<_>>()
        };
        assert_eq!(order(&[asked("z", None), asked("y", Some(true))], false), [(1, false), (0, true)]);
        assert_eq!(order(&[], true), [(0, true), (1, true)]);
    }

    #[test]
    fn an_output_that_the_model_does_not_give_is_refused() {
        let fault = selected("m", &[asked("q", None)], &gives(), false).unwrap_err();
        assert_eq!(fault.text, "unexpected inference output 'q' for model 'm'; it gives 'y', 'z'");
    }

    #[test]
    fn classes_of_an_output_without_scores_are_refused_before_the_run() {
        let texts = TensorSpec { datatype: DataType::Bytes, ..spec("y", &[-1]) };
        let classified = RequestedOutput { classes: 2, ..asked("y", None) };
        assert!(selected("m", std::slice::from_ref(&classified), &gives(), false).is_ok());
        let fault = selected("m", &[classified], &[texts], false).unwrap_err();
        assert_eq!((fault.kind, fault.stage), (FaultKind::InvalidInput, Stage::Tensor));
    }
}
