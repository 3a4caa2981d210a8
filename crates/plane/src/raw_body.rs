//! A raw binary request: the whole body is the model's only input, with the type and shape that the model declares.
//!
//! The rules are Triton's: one row, at most one further free axis, and for BYTES exactly one element.

use bytes::Bytes;
use flyball_core::{DataType, Fault, Shape, Stage, Tensor, TensorData, TensorSpec, triton_texts};

pub(crate) fn raw_input(
    model: &str,
    body: Bytes,
    specs: &[TensorSpec],
    batched: bool,
) -> Result<Tensor, Fault> {
    let [spec] = specs else {
        let several = triton_texts::raw_inputs(model, specs.len());
        return Err(refused(format!("{several}; send a JSON part that names them")));
    };
    let mut shape = Shape::from_slice(&spec.shape);
    // With a further free axis the first one counts rows, whether or not the model is batched.
    let counts_rows = batched || shape.iter().skip(1).any(|&axis| axis == -1);
    if let Some(rows) = shape.first_mut().filter(|rows| counts_rows && **rows == -1) {
        *rows = 1;
    }
    let data = match spec.datatype.size() {
        Some(size) => fixed(body, &mut shape, spec, size)?,
        None => text(body, &shape, spec)?,
    };
    Ok(Tensor { name: spec.name.as_str().into(), datatype: spec.datatype, shape, data })
}

fn fixed(body: Bytes, shape: &mut Shape, spec: &TensorSpec, size: usize) -> Result<TensorData, Fault> {
    let mut free = shape.iter().enumerate().filter(|&(_, &axis)| axis == -1).map(|(place, _)| place);
    let (one, another) = (free.next(), free.next());
    if another.is_some() {
        let free_axes = triton_texts::raw_free_axes(&spec.name);
        return Err(refused(format!("{free_axes}: {:?}; send a JSON part with its shape", spec.shape)));
    }
    if let Some(place) = one {
        shape[place] = 1;
        let step = Tensor::elements(shape).and_then(|elements| elements.checked_mul(size));
        let fit = step.and_then(|step| body.len().checked_div(step));
        shape[place] = fit.and_then(|fit| i64::try_from(fit).ok()).unwrap_or(0);
    }
    let wanted = Tensor::elements(shape).and_then(|elements| elements.checked_mul(size));
    if wanted != Some(body.len()) {
        let (bytes, TensorSpec { name, datatype, shape }) = (body.len(), spec);
        let datatype = datatype.name();
        return Err(refused(format!(
            "the body has {bytes} bytes, which is not one row of input '{name}' ({datatype} {shape:?})"
        )));
    }
    // The engine relies on this.
    if spec.datatype == DataType::Bool && body.iter().any(|&byte| byte > 1) {
        return Err(refused(format!("input '{}' is BOOL, and a BOOL byte is 0 or 1", spec.name)));
    }
    Ok(TensorData::Fixed(body))
}

fn text(body: Bytes, shape: &Shape, spec: &TensorSpec) -> Result<TensorData, Fault> {
    if Tensor::elements(shape) != Some(1) {
        let not_one = triton_texts::raw_text_shape(&spec.name);
        return Err(refused(format!("{not_one}, and has {:?}; send a JSON part with its shape", spec.shape)));
    }
    Ok(TensorData::Strings(vec![body]))
}

fn refused(text: String) -> Fault {
    Fault::invalid_input(
        Stage::Tensor,
        format!("{text} (a raw binary request: Inference-Header-Content-Length is 0)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::FaultKind;
    use proptest::prelude::*;

    fn spec(datatype: DataType, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: "x".into(), datatype, shape: shape.to_vec() }
    }

    fn read(spec: TensorSpec, batched: bool, body: &[u8]) -> Result<Tensor, Fault> {
        raw_input("m", Bytes::copy_from_slice(body), &[spec], batched)
    }

    #[test]
    fn the_body_is_one_row_of_the_only_input_and_at_most_one_axis_follows_from_its_length() {
        for (shape, batched, bytes, wanted) in [
            (&[-1, 3][..], true, 12, &[1, 3][..]),
            (&[-1, 3], false, 24, &[2, 3]),
            (&[-1, -1], true, 20, &[1, 5]),
            (&[-1, -1], false, 20, &[1, 5]),
            (&[2, -1, 2], false, 48, &[2, 3, 2]),
            (&[3], false, 12, &[3]),
            (&[-1], true, 4, &[1]),
            (&[], false, 4, &[]),
            (&[-1, -1], true, 0, &[1, 0]),
        ] {
            let tensor = read(spec(DataType::Fp32, shape), batched, &vec![7; bytes]).unwrap();
            assert_eq!((tensor.shape.as_slice(), &*tensor.name), (wanted, "x"), "{shape:?}");
            assert_eq!(tensor.data, TensorData::Fixed(vec![7; bytes].into()));
        }
    }

    #[test]
    fn one_text_may_be_the_body_without_its_length() {
        for shape in [&[-1][..], &[-1, 1], &[1]] {
            let tensor = read(spec(DataType::Bytes, shape), true, "né".as_bytes()).unwrap();
            assert_eq!(tensor.data, TensorData::Strings(vec!["né".into()]));
        }
    }

    #[test]
    fn a_body_that_cannot_be_the_input_is_refused_with_its_reason() {
        let fp32 = |shape: &[i64]| spec(DataType::Fp32, shape);
        let free_axes = "can not be deduced because there are more than one variable-sized dimension: [-1, -1, -1]; send a \
                         JSON part with its shape";
        for (refused, text) in [
            (
                read(fp32(&[-1, 3]), true, &[0; 24]),
                "the body has 24 bytes, which is not one row of input 'x'",
            ),
            (read(fp32(&[-1, 3]), false, &[0; 13]), "the body has 13 bytes"),
            (read(fp32(&[-1, 0]), false, &[0; 4]), "the body has 4 bytes"),
            (read(fp32(&[i64::MAX, -1]), false, &[0; 4]), "the body has 4 bytes"),
            (read(fp32(&[-1, -1, -1]), false, &[0; 4]), free_axes),
            (read(fp32(&[-1, -1, -1]), true, &[0; 4]), free_axes),
            (read(spec(DataType::Bool, &[2]), true, &[1, 2]), "a BOOL byte is 0 or 1"),
            (
                read(spec(DataType::Bytes, &[-1, -1]), true, b"a"),
                "the model must have input shape [1], and has",
            ),
            (
                read(spec(DataType::Bytes, &[-1, 2]), true, b"a"),
                "the model must have input shape [1], and has",
            ),
            (raw_input("m", Bytes::new(), &[], true), "but got 0 inputs in 'm'"),
            (raw_input("m", Bytes::new(), &[fp32(&[1]), fp32(&[1])], true), "but got 2 inputs in 'm'"),
        ] {
            let fault = refused.unwrap_err();
            assert_eq!((fault.kind, fault.stage), (FaultKind::InvalidInput, Stage::Tensor));
            assert!(fault.text.contains(text), "says: {fault}; want: {text}");
        }
    }
    proptest! {
        #[test]
        fn no_body_panics_and_what_is_taken_is_what_its_shape_says(
            kind in prop::sample::select(DataType::ALL.to_vec()),
            shape in prop::collection::vec(prop_oneof![-1_i64..4, Just(i64::MAX)], 0..4),
            batched: bool,
            body: Vec<u8>,
        ) {
            let Ok(tensor) = read(spec(kind, &shape), batched, &body) else { return Ok(()) };
            let elements = Tensor::elements(&tensor.shape).unwrap();
            match tensor.data {
                TensorData::Fixed(bytes) => prop_assert_eq!(bytes.len(), elements * kind.size().unwrap()),
                TensorData::Strings(texts) => prop_assert_eq!(texts.len(), elements),
            }
        }
    }
}
