//! Classes by hand, and against a reference that sorts everything.

use super::*;
use proptest::prelude::*;

fn tensor(datatype: DataType, shape: &[i64], bytes: Vec<u8>) -> Tensor {
    Tensor { name: "y".into(), datatype, shape: shape.into(), data: TensorData::Fixed(bytes.into()) }
}

fn fp32(shape: &[i64], scores: &[f32]) -> Tensor {
    tensor(DataType::Fp32, shape, scores.iter().flat_map(|score| score.to_le_bytes()).collect())
}

fn texts(tensor: &Tensor) -> Vec<&str> {
    match &tensor.data {
        TensorData::Strings(texts) => texts.iter().map(|text| str::from_utf8(text).unwrap()).collect(),
        TensorData::Fixed(_) => panic!("holds no texts"),
    }
}

#[test]
fn each_row_has_its_highest_scores_with_class_and_label_where_there_is_one() {
    let scores = fp32(&[2, 3], &[0.1, 0.7, 0.2, 1.0, -2.5, 1.0]);
    let labels = ["cat".to_owned(), "dog".to_owned()];
    let two = classes(&scores, 2, true, &labels).unwrap();
    assert_eq!((two.datatype, two.shape.as_slice(), &*two.name), (DataType::Bytes, &[2, 2][..], "y"));
    assert_eq!(texts(&two), ["0.700000:1:dog", "0.200000:2", "1.000000:0:cat", "1.000000:2"]);
    let all = classes(&scores, 99, true, &[]).unwrap();
    assert_eq!(all.shape.as_slice(), [2, 3]);
    assert_eq!(texts(&all)[3..], ["1.000000:0", "1.000000:2", "-2.500000:1"]);
}

#[test]
fn an_output_without_rows_is_one_list_of_scores() {
    let one = classes(&fp32(&[1, 3], &[0.1, 0.7, 0.2]), 1, false, &[]).unwrap();
    assert_eq!((one.shape.as_slice(), texts(&one)), (&[1][..], vec!["0.700000:1"]));
    let scalar = classes(&fp32(&[], &[0.5]), 3, false, &[]).unwrap();
    assert_eq!((scalar.shape.as_slice(), texts(&scalar)), (&[1][..], vec!["0.500000:0"]));
    let column = classes(&fp32(&[2], &[0.5, 0.25]), 3, true, &[]).unwrap();
    assert_eq!((column.shape.as_slice(), texts(&column).len()), (&[2, 1][..], 2));
}

#[test]
fn nothing_has_no_classes() {
    for shape in [&[0, 3][..], &[2, 0], &[0]] {
        let none = classes(&fp32(shape, &[]), 2, true, &[]).unwrap();
        assert!(texts(&none).is_empty(), "{shape:?}");
        assert_eq!(Tensor::elements(&none.shape), Some(0), "{:?}", none.shape);
    }
}

#[test]
fn scores_are_written_as_c_writes_them() {
    let floats = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 1e-7, 1_234_567.9, 0.007_812_5];
    let all = classes(&fp32(&[6], &floats), 6, false, &[]).unwrap();
    // The fourth from the end is a tie at the sixth decimal, rounded to even.
    let wanted = ["inf:2", "1234567.875000:4", "0.007812:5", "0.000000:3", "-inf:1", "nan:0"];
    assert_eq!(texts(&all), wanted);
    let bytes = [u64::MAX, 0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let whole = classes(&tensor(DataType::Uint64, &[2], bytes), 1, false, &[]).unwrap();
    assert_eq!(texts(&whole), ["18446744073709551615:0"]);
    let small = classes(&tensor(DataType::Int8, &[2], vec![255, 1]), 2, false, &[]).unwrap();
    assert_eq!(texts(&small), ["1:1", "-1:0"]);
}

#[test]
fn only_numbers_have_classes() {
    for datatype in DataType::ALL {
        let spec = TensorSpec { name: "y".into(), datatype, shape: vec![-1] };
        let without = [DataType::Bool, DataType::Fp16, DataType::Bf16, DataType::Bytes].contains(&datatype);
        assert_eq!(check(&spec).is_err(), without, "{datatype:?}");
    }
}

#[test]
fn more_scores_or_classes_than_a_lane_has_time_for_are_refused_with_the_bound() {
    let scores = |rows: usize, columns: usize| {
        tensor(DataType::Int8, &[rows as i64, columns as i64], vec![0; rows * columns])
    };
    let refused = |tensor: &Tensor, count| classes(tensor, count, true, &[]).unwrap_err().text;
    assert!(classes(&scores(1, 65_536), 1, true, &[]).is_ok());
    let text = refused(&scores(1, 65_537), 1);
    assert!(text.contains("65537 scores, and 65536 are the most"), "{text}");
    assert_eq!(texts(&classes(&scores(8_192, 4), 2, true, &[]).unwrap()).len(), 16_384);
    let text = refused(&scores(8_192, 4), 3);
    assert!(text.contains("24576 classes together, and 16384 are the most"), "{text}");
}

proptest! {
    #[test]
    fn the_classes_are_those_that_sorting_every_row_gives(
        rows in 1_usize..4, columns in 1_usize..9, count in 1_usize..12, seed: Vec<i8>,
    ) {
        // Few different scores, so that many are equal.
        let scores: Vec<i8> = (0..rows * columns).map(|at| seed.get(at).map_or(0, |score| score % 4)).collect();
        let bytes = scores.iter().map(|score| score.cast_unsigned()).collect();
        let given = classes(
            &tensor(DataType::Int8, &[rows as i64, columns as i64], bytes), count, true, &[],
        ).unwrap();
        let wanted: Vec<String> = scores.chunks(columns).flat_map(|row| {
            let mut sorted: Vec<(usize, i8)> = row.iter().copied().enumerate().collect();
            sorted.sort_by_key(|&(_, score)| std::cmp::Reverse(score));
            sorted.into_iter().take(count).map(|(class, score)| format!("{score}:{class}")).collect::<Vec<_>>()
        }).collect();
        prop_assert_eq!(texts(&given), wanted.as_slice());
        prop_assert_eq!(given.shape.as_slice(), [rows as i64, count.min(columns) as i64]);
    }
}
