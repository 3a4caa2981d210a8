//! Outputs as classes: the highest scores of each row as texts, `score:class` or `score:class:label`.
//!
//! Formatted as Triton does, because its clients parse them.

use crate::Model;
use flyball_core::triton_texts::TOO_MANY_SCORES;
use flyball_core::{
    DataType, Fault, FaultKind, RequestedOutput, Shape, Stage, Tensor, TensorData, TensorSpec, triton_texts,
};
use std::cmp::Ordering;

/// Maximum scores of one output over all rows; bounds the time for sorting them.
const SCORES_MAX: usize = 64 << 10;
/// Maximum texts of one output over all rows; each is allocated on its own.
const TEXTS_MAX: usize = 16 << 10;

/// Replaces each output that was requested as classes.
pub(crate) fn classify<M>(
    outputs: &mut [Tensor],
    asked: &[RequestedOutput],
    model: &Model<M>,
) -> Result<(), Fault> {
    for asked in asked.iter().filter(|asked| asked.classes > 0) {
        let named = |spec: &TensorSpec| *spec.name == *asked.name;
        let place = model.signature.outputs.iter().position(named);
        let Some((spec, output)) =
            place.and_then(|at| Some((&model.signature.outputs[at], outputs.get_mut(at)?)))
        else {
            continue;
        };
        let labels = model.labels.get(&spec.name).map_or(&[][..], |labels| labels);
        *output = classes(output, asked.classes as usize, model.in_rows, labels)?;
    }
    Ok(())
}

/// Checks that an output can be given as classes, before the model runs.
pub(crate) fn check(spec: &TensorSpec) -> Result<(), Fault> {
    if scores(spec.datatype, &[]).is_some() {
        return Ok(());
    }
    let (name, why) = (&spec.name, triton_texts::no_classes(spec.datatype.name()));
    let text = format!("output '{name}': {why}; ask for it without classification");
    Err(Fault::invalid_input(Stage::Tensor, text))
}

/// The `count` highest scores of each row, the highest first.
fn classes(output: &Tensor, count: usize, in_rows: bool, labels: &[String]) -> Result<Tensor, Fault> {
    let cannot = |why: &str| {
        let text = format!("output '{}' cannot be given as classes: {why}", output.name);
        Err(Fault::new(FaultKind::AnswerNotRepresentable, Stage::Respond, text))
    };
    let TensorData::Fixed(bytes) = &output.data else { return cannot("it holds texts") };
    let elements = bytes.len() / output.datatype.size().unwrap_or(1);
    if elements > SCORES_MAX {
        return cannot(&format!(
            "{TOO_MANY_SCORES}: it has {elements} scores, and {SCORES_MAX} are the most; ask for the tensor"
        ));
    }
    let Some(scores) = scores(output.datatype, bytes) else { return cannot("it has no scores") };
    let rows = in_rows.then(|| output.shape.first()).flatten();
    let row_scores = scores.len() / rows.map_or(1, |&rows| usize::try_from(rows).unwrap_or(0)).max(1);
    let count = count.min(row_scores);
    let wanted = scores.len().checked_div(row_scores).unwrap_or(0) * count;
    if wanted > TEXTS_MAX {
        return cannot(&format!(
            "its rows have {wanted} classes together, and {TEXTS_MAX} are the most; ask for fewer classes or rows"
        ));
    }
    let mut texts = Vec::with_capacity(wanted);
    for row in scores.chunks(row_scores.max(1)) {
        texts.extend(highest(row, count).into_iter().map(|class| row[class].text(class, labels.get(class))));
    }
    let shape: Shape = rows.copied().into_iter().chain([i64::try_from(count).unwrap_or(i64::MAX)]).collect();
    let data = TensorData::Strings(texts.into_iter().map(String::into).collect());
    Ok(Tensor { name: output.name.clone(), datatype: DataType::Bytes, shape, data })
}

/// The indices of the highest scores; equal scores in index order.
fn highest(row: &[Score], count: usize) -> Vec<usize> {
    let by_score = |a: &usize, b: &usize| row[*b].compare(row[*a]).then(a.cmp(b));
    let mut places: Vec<usize> = (0..row.len()).collect();
    if count > 0 && count < places.len() {
        places.select_nth_unstable_by(count - 1, by_score);
    }
    places.truncate(count);
    places.sort_unstable_by(by_score);
    places
}

#[derive(Clone, Copy, Debug)]
enum Score {
    Whole(i128),
    Float(f64),
}

impl Score {
    /// NaN is below every number.
    fn compare(self, other: Score) -> Ordering {
        match (self, other) {
            (Score::Whole(one), Score::Whole(other)) => one.cmp(&other),
            (Score::Float(one), Score::Float(other)) => {
                one.partial_cmp(&other).unwrap_or_else(|| other.is_nan().cmp(&one.is_nan()))
            }
            _ => Ordering::Equal,
        }
    }

    /// Floats have six decimals, as C's `%f` has.
    fn text(self, class: usize, label: Option<&String>) -> String {
        let mut text = match self {
            Score::Whole(score) => format!("{score}:{class}"),
            Score::Float(score) if score.is_nan() => format!("nan:{class}"),
            Score::Float(score) => format!("{score:.6}:{class}"),
        };
        if let Some(label) = label {
            text.push(':');
            text.push_str(label);
        }
        text
    }
}

/// The elements as scores, if their type is one of those that Triton supports.
fn scores(datatype: DataType, bytes: &[u8]) -> Option<Vec<Score>> {
    fn each<const SIZE: usize>(bytes: &[u8], score: impl Fn([u8; SIZE]) -> Score) -> Vec<Score> {
        bytes.as_chunks::<SIZE>().0.iter().map(|&le| score(le)).collect()
    }
    Some(match datatype {
        DataType::Uint8 => each(bytes, |le| Score::Whole(u8::from_le_bytes(le).into())),
        DataType::Uint16 => each(bytes, |le| Score::Whole(u16::from_le_bytes(le).into())),
        DataType::Uint32 => each(bytes, |le| Score::Whole(u32::from_le_bytes(le).into())),
        DataType::Uint64 => each(bytes, |le| Score::Whole(u64::from_le_bytes(le).into())),
        DataType::Int8 => each(bytes, |le| Score::Whole(i8::from_le_bytes(le).into())),
        DataType::Int16 => each(bytes, |le| Score::Whole(i16::from_le_bytes(le).into())),
        DataType::Int32 => each(bytes, |le| Score::Whole(i32::from_le_bytes(le).into())),
        DataType::Int64 => each(bytes, |le| Score::Whole(i64::from_le_bytes(le).into())),
        DataType::Fp32 => each(bytes, |le| Score::Float(f32::from_le_bytes(le).into())),
        DataType::Fp64 => each(bytes, |le| Score::Float(f64::from_le_bytes(le))),
        DataType::Bool | DataType::Fp16 | DataType::Bf16 | DataType::Bytes => return None,
    })
}

#[cfg(test)]
mod tests;
