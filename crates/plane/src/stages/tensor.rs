//! Request tensors → the model's inputs: by name, in the model's order, of its types and shapes. What does not fit is
//! named with what the model wants.

use flyball_core::{Fault, RequestedOutput, Stage, Tensor, TensorSpec};
use flyball_engine::Signature;
use smallvec::SmallVec;

/// Which outputs the caller gets, by place in the model's order.
pub(crate) struct Wanted {
    /// Empty means all.
    places: SmallVec<[(usize, Option<bool>); 4]>,
}

impl Wanted {
    pub(crate) fn pick(&self, outputs: Vec<Tensor>, binary: bool) -> Vec<(Tensor, bool)> {
        if self.places.is_empty() {
            return outputs.into_iter().map(|output| (output, binary)).collect();
        }
        let mut outputs: SmallVec<[Option<Tensor>; 4]> = outputs.into_iter().map(Some).collect();
        let pick = |&(place, own): &(usize, Option<bool>)| {
            let output = outputs.get_mut(place).and_then(Option::take)?;
            Some((output, own.unwrap_or(binary)))
        };
        self.places.iter().filter_map(pick).collect()
    }
}

pub(crate) fn tensor(
    mut given: Vec<Tensor>,
    asked: &[RequestedOutput],
    signature: &Signature,
    batched: bool,
) -> Result<(Vec<Tensor>, Wanted), Fault> {
    in_model_order(&mut given, &signature.inputs)?;
    for (tensor, spec) in given.iter().zip(&signature.inputs) {
        fits(tensor, spec)?;
    }
    if batched {
        same_rows(&given)?;
    }
    let places = asked.iter().map(|output| {
        let place = signature.outputs.iter().position(|spec| spec.name == output.name);
        let place = place.ok_or_else(|| {
            let text = format!(
                "there is no output '{}'; the model gives {}",
                output.name,
                names(&signature.outputs)
            );
            Fault::invalid_input(Stage::Tensor, text)
        })?;
        Ok((place, output.binary))
    });
    Ok((given, Wanted { places: places.collect::<Result<_, Fault>>()? }))
}

fn in_model_order(given: &mut [Tensor], specs: &[TensorSpec]) -> Result<(), Fault> {
    for (place, spec) in specs.iter().enumerate() {
        let Some(found) = given.iter().skip(place).position(|tensor| tensor.name == spec.name) else {
            let text = format!("input '{}' ({}) is missing", spec.name, describe(spec));
            return Err(Fault::invalid_input(Stage::Tensor, text));
        };
        given.swap(place, place + found);
    }
    match given.get(specs.len()) {
        None => Ok(()),
        Some(extra) => {
            let text = format!("there is no input '{}'; the model takes {}", extra.name, names(specs));
            Err(Fault::invalid_input(Stage::Tensor, text))
        }
    }
}

fn fits(tensor: &Tensor, spec: &TensorSpec) -> Result<(), Fault> {
    if tensor.datatype != spec.datatype {
        let (is, wanted) = (tensor.datatype.name(), spec.datatype.name());
        let text = format!("input '{}' has datatype {is}; the model wants {wanted}", spec.name);
        return Err(Fault::invalid_input(Stage::Tensor, text));
    }
    if !spec.admits(&tensor.shape) {
        let text = format!(
            "input '{}' has shape {:?}; the model wants {:?} (-1 is any size)",
            spec.name,
            tensor.shape.as_slice(),
            spec.shape
        );
        return Err(Fault::invalid_input(Stage::Tensor, text));
    }
    Ok(())
}

/// Inputs of a model that is batched must agree on the first axis, or the rows of a joined batch would not line up. A
/// model that is run one request at a time may mean what it likes by it.
fn same_rows(given: &[Tensor]) -> Result<(), Fault> {
    let Some(first) = given.first() else { return Ok(()) };
    if first.rows() == 0 {
        let text = format!("input '{}' has no rows; send at least one", first.name);
        return Err(Fault::invalid_input(Stage::Tensor, text));
    }
    match given.iter().find(|tensor| tensor.rows() != first.rows()) {
        None => Ok(()),
        Some(other) => {
            let text = format!(
                "input '{}' has {} rows but '{}' has {}; all inputs must have the same first axis",
                first.name,
                first.rows(),
                other.name,
                other.rows()
            );
            Err(Fault::invalid_input(Stage::Tensor, text))
        }
    }
}

fn describe(spec: &TensorSpec) -> String {
    format!("{} {:?}", spec.datatype.name(), spec.shape)
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

    fn signature() -> Signature {
        Signature {
            inputs: vec![spec("a", &[-1, 2]), spec("b", &[-1, 3])],
            outputs: vec![spec("y", &[-1]), spec("z", &[-1])],
        }
    }

    #[test]
    fn inputs_are_put_into_the_model_s_order() {
        let (inputs, _) =
            tensor(vec![given("b", &[1, 3]), given("a", &[1, 2])], &[], &signature(), true).unwrap();
        assert_eq!(inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn each_kind_of_misfit_is_refused_with_what_the_model_wants() {
        let cases = [
            (vec![given("a", &[1, 2])], "input 'b' (FP32 [-1, 3]) is missing"),
            (
                vec![given("a", &[1, 2]), given("b", &[1, 3]), given("c", &[1])],
                "there is no input 'c'; the model takes 'a', 'b'",
            ),
            (
                vec![given("a", &[1, 5]), given("b", &[1, 3])],
                "input 'a' has shape [1, 5]; the model wants [-1, 2] (-1 is any size)",
            ),
            (vec![given("a", &[0, 2]), given("b", &[0, 3])], "input 'a' has no rows; send at least one"),
            (
                vec![given("a", &[2, 2]), given("b", &[1, 3])],
                "input 'a' has 2 rows but 'b' has 1; all inputs must have the same first axis",
            ),
        ];
        for (inputs, text) in cases {
            let fault = tensor(inputs, &[], &signature(), true).err().unwrap();
            assert_eq!((fault.kind, fault.text.as_ref()), (FaultKind::InvalidInput, text));
        }
    }

    #[test]
    fn a_model_that_is_not_batched_may_have_inputs_of_different_lengths() {
        assert!(tensor(vec![given("a", &[2, 2]), given("b", &[1, 3])], &[], &signature(), false).is_ok());
        assert!(tensor(vec![given("a", &[0, 2]), given("b", &[0, 3])], &[], &signature(), false).is_ok());
    }

    #[test]
    fn outputs_come_as_asked_for_and_in_the_order_asked_for() {
        let asked = ["z", "y"]
            .map(|name| RequestedOutput { name: name.into(), binary: (name == "y").then_some(true) });
        let inputs = vec![given("a", &[1, 2]), given("b", &[1, 3])];
        let (_, wanted) = tensor(inputs, &asked, &signature(), true).unwrap();
        let picked = wanted.pick(vec![given("y", &[1]), given("z", &[1])], false);
        let picked: Vec<_> = picked.iter().map(|(output, binary)| (output.name.as_str(), *binary)).collect();
        assert_eq!(picked, [("z", false), ("y", true)]);
    }

    #[test]
    fn an_output_that_the_model_does_not_give_is_refused() {
        let asked = [RequestedOutput { name: "q".into(), binary: None }];
        let fault =
            tensor(vec![given("a", &[1, 2]), given("b", &[1, 3])], &asked, &signature(), true).err().unwrap();
        assert_eq!(fault.text, "there is no output 'q'; the model gives 'y', 'z'");
    }
}
