//! A model's tensors in the shapes that clients use, where its deployment sets others than the model's own.
//!
//! Only shapes change, never elements or their order.

use flyball_core::snapshot::{ClientShape, Layout};
use flyball_core::{Fault, FaultKind, Shape, Stage, Tensor, TensorSpec, admits};
use flyball_engine::Signature;
use std::collections::HashMap;

/// The signature that clients see, and the reshaped tensors in its order.
pub struct ClientShapes {
    pub signature: Signature,
    inputs: Vec<Option<ClientShape>>,
    outputs: Vec<Option<ClientShape>>,
}

impl ClientShapes {
    /// None if no tensor has another shape. The error says which shape the model does not have.
    pub fn of(
        own: &Signature,
        shapes: &HashMap<String, ClientShape>,
    ) -> Result<Option<ClientShapes>, String> {
        if shapes.is_empty() {
            return Ok(None);
        }
        for (name, shape) in shapes {
            let specs = own.inputs.iter().chain(&own.outputs);
            let Some(spec) = specs.into_iter().find(|spec| spec.name == *name) else {
                return Err(format!("shapes name '{name}', which is no input or output of the model"));
            };
            // An output without axes may be one whose shape the model does not declare.
            let undeclared = spec.shape.is_empty() && !own.inputs.contains(spec);
            if !undeclared && !spec.admits(&shape.model) {
                let (wanted, is) = (&shape.model, &spec.shape);
                return Err(format!("shapes say {wanted:?} for '{name}', but the model has {is:?}"));
            }
        }
        let find = |specs: &[TensorSpec]| specs.iter().map(|spec| shapes.get(&spec.name).cloned()).collect();
        let (inputs, outputs): (Vec<_>, Vec<_>) = (find(&own.inputs), find(&own.outputs));
        let seen = |specs: &[TensorSpec], shapes: &[Option<ClientShape>]| {
            let one = |(spec, shape): (&TensorSpec, &Option<ClientShape>)| match shape {
                Some(shape) => TensorSpec { shape: shape.client.clone(), ..spec.clone() },
                None => spec.clone(),
            };
            specs.iter().zip(shapes).map(one).collect()
        };
        let signature =
            Signature { inputs: seen(&own.inputs, &inputs), outputs: seen(&own.outputs, &outputs) };
        Ok(Some(ClientShapes { signature, inputs, outputs }))
    }

    /// The model's own shapes of the reshaped tensors, by name; a shape that is only narrower is none.
    pub fn reshaped(&self) -> HashMap<String, Vec<i64>> {
        let named = |specs: &[TensorSpec], shapes: &[Option<ClientShape>]| {
            let own = specs
                .iter()
                .zip(shapes)
                .filter_map(|(spec, shape)| Some((spec.name.clone(), shape.clone()?)));
            own.filter(|(_, shape)| shape.client != shape.model)
                .map(|(name, shape)| (name, shape.model))
                .collect()
        };
        let mut all: HashMap<String, Vec<i64>> = named(&self.signature.inputs, &self.inputs);
        all.extend(named(&self.signature.outputs, &self.outputs));
        all
    }

    /// The layouts of image inputs, by name.
    pub fn layouts(&self) -> HashMap<String, Layout> {
        let inputs = self.signature.inputs.iter().zip(&self.inputs);
        inputs.filter_map(|(spec, shape)| Some((spec.name.clone(), shape.as_ref()?.layout?))).collect()
    }

    /// Gives inputs, which fit the client's signature, the model's shapes.
    pub(crate) fn to_model(&self, inputs: &mut [Tensor]) {
        for (tensor, shape) in inputs.iter_mut().zip(&self.inputs) {
            if let Some(shape) = shape {
                tensor.shape = filled(&shape.client, &shape.model, &tensor.shape);
            }
        }
    }

    /// Gives outputs the client's shapes. A model that does not keep its declared shape is a fault.
    pub(crate) fn to_client(&self, outputs: &mut [Tensor]) -> Result<(), Fault> {
        for (tensor, shape) in outputs.iter_mut().zip(&self.outputs) {
            let Some(shape) = shape else { continue };
            if !admits(&shape.model, &tensor.shape) {
                let (name, is, wanted) = (&tensor.name, tensor.shape.as_slice(), &shape.model);
                let text =
                    format!("output '{name}' has shape {is:?}; the deployment's shapes say {wanted:?}");
                return Err(Fault::new(FaultKind::AnswerNotRepresentable, Stage::Respond, text));
            }
            tensor.shape = filled(&shape.model, &shape.client, &tensor.shape);
        }
        Ok(())
    }
}

/// `to` with the sizes that `is` has at the free axes of `from`, in their order.
fn filled(from: &[i64], to: &[i64], is: &[i64]) -> Shape {
    let mut free = from.iter().zip(is).filter(|(axis, _)| **axis == -1).map(|(_, &size)| size);
    to.iter().map(|&axis| if axis == -1 { free.next().unwrap_or(1) } else { axis }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::{DataType, TensorData};

    fn spec(name: &str, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), datatype: DataType::Fp32, shape: shape.to_vec() }
    }

    fn tensor(name: &str, shape: &[i64]) -> Tensor {
        let data = TensorData::Fixed(vec![0; Tensor::elements(shape).unwrap() * 4].into());
        Tensor { name: name.into(), datatype: DataType::Fp32, shape: shape.into(), data }
    }

    fn shapes(given: &[(&str, &[i64], &[i64])]) -> HashMap<String, ClientShape> {
        let one = |&(name, client, model): &(&str, &[i64], &[i64])| {
            (name.to_owned(), ClientShape { client: client.to_vec(), model: model.to_vec(), layout: None })
        };
        given.iter().map(one).collect()
    }

    #[test]
    fn tensors_go_in_and_out_in_the_client_s_shapes_with_free_axes_in_their_order() {
        let own = Signature {
            inputs: vec![spec("x", &[-1, -1, 4])],
            outputs: vec![spec("y", &[-1]), spec("z", &[])],
        };
        let given =
            shapes(&[("x", &[-1, 2, -1, 2], &[-1, -1, 4]), ("y", &[-1, 1], &[-1]), ("z", &[1, 1], &[1])]);
        let shapes = ClientShapes::of(&own, &given).unwrap().unwrap();
        assert_eq!(shapes.signature.inputs, [spec("x", &[-1, 2, -1, 2])]);
        assert_eq!(shapes.signature.outputs, [spec("y", &[-1, 1]), spec("z", &[1, 1])]);
        let mut inputs = [tensor("x", &[3, 2, 7, 2])];
        shapes.to_model(&mut inputs);
        assert_eq!(inputs[0].shape.as_slice(), [3, 7, 4]);
        let mut outputs = [tensor("y", &[3]), tensor("z", &[1])];
        shapes.to_client(&mut outputs).unwrap();
        assert_eq!(outputs.each_ref().map(|output| output.shape.to_vec()), [vec![3, 1], vec![1, 1]]);
        let fault = shapes.to_client(&mut [tensor("y", &[3, 2]), tensor("z", &[1])]).unwrap_err();
        assert_eq!(fault.text, "output 'y' has shape [3, 2]; the deployment's shapes say [-1]");
    }

    #[test]
    fn shapes_that_the_model_does_not_have_are_refused_and_none_cost_nothing() {
        let own = Signature { inputs: vec![spec("x", &[-1, 4])], outputs: vec![spec("y", &[-1])] };
        assert!(ClientShapes::of(&own, &HashMap::new()).unwrap().is_none());
        for (given, wanted) in [
            (shapes(&[("q", &[1], &[1])]), "shapes name 'q', which is no input or output of the model"),
            (shapes(&[("x", &[-1, 5], &[-1, 5])]), "shapes say [-1, 5] for 'x', but the model has [-1, 4]"),
        ] {
            assert_eq!(ClientShapes::of(&own, &given).err().as_deref(), Some(wanted));
        }
    }
}
