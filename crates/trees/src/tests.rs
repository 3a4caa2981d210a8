//! Ensembles made by hand, and any ensemble against an evaluator that reads the attributes as the operator does.

use crate::*;
use proptest::prelude::*;

/// A tree to be written as attributes.
#[derive(Clone, Debug)]
enum Grown {
    Leaf(Vec<(usize, f32)>),
    Branch { mode: Mode, feature: usize, threshold: f32, missing_true: bool, yes: Box<Grown>, no: Box<Grown> },
}

fn leaf(value: f32) -> Grown {
    Grown::Leaf(vec![(0, value)])
}

fn branch(mode: Mode, threshold: f32, missing_true: bool, yes: Grown, no: Grown) -> Grown {
    Grown::Branch { mode, feature: 0, threshold, missing_true, yes: Box::new(yes), no: Box::new(no) }
}

fn attributes(output: Output, trees: &[Grown]) -> Attributes {
    let mut written = Attributes {
        output,
        nodes: NodeAttributes::default(),
        leaves: LeafAttributes::default(),
        base_values: Vec::new(),
        transform: Transform::None,
    };
    for (tree, root) in trees.iter().enumerate() {
        let mut count = 0;
        write(root, tree as i64, &mut count, &mut written);
    }
    written
}

/// Writes a node before its children; returns its number.
fn write(node: &Grown, tree: i64, count: &mut i64, written: &mut Attributes) -> i64 {
    let number = *count;
    *count += 1;
    let nodes = &mut written.nodes;
    let place = nodes.node_ids.len();
    nodes.tree_ids.push(tree);
    nodes.node_ids.push(number);
    for ids in [&mut nodes.feature_ids, &mut nodes.true_ids, &mut nodes.false_ids, &mut nodes.missing_true] {
        ids.push(0);
    }
    nodes.modes.push(Mode::Leaf);
    nodes.values.push(0.0);
    match node {
        Grown::Leaf(weights) => {
            for &(target, weight) in weights {
                written.leaves.tree_ids.push(tree);
                written.leaves.node_ids.push(number);
                written.leaves.target_ids.push(target as i64);
                written.leaves.weights.push(weight);
            }
        }
        Grown::Branch { mode, feature, threshold, missing_true, yes, no } => {
            (nodes.modes[place], nodes.feature_ids[place]) = (*mode, *feature as i64);
            (nodes.values[place], nodes.missing_true[place]) = (*threshold, i64::from(*missing_true));
            let yes = write(yes, tree, count, written);
            written.nodes.true_ids[place] = yes;
            let no = write(no, tree, count, written);
            written.nodes.false_ids[place] = no;
        }
    }
    number
}

fn targets(count: usize, aggregate: Aggregate) -> Output {
    Output::Targets { count, aggregate }
}

fn classes(count: i64) -> Output {
    Output::Classes(Labels::Numbers((0..count).map(|class| class + 10).collect()))
}

fn answer(attributes: &Attributes, rows: &[f32], columns: usize) -> Answers {
    let ensemble = Ensemble::new(attributes.clone()).unwrap();
    let mut answers = Answers::default();
    ensemble.answer(rows, columns, &mut answers);
    answers
}

fn refused(attributes: Attributes) -> String {
    Ensemble::new(attributes).unwrap_err().to_string()
}

#[test]
fn each_branch_mode_compares_as_its_name_says_and_missing_values_follow_their_track() {
    let takes_true = [
        (Mode::Leq, [true, true, false]),
        (Mode::Lt, [true, false, false]),
        (Mode::Gte, [false, true, true]),
        (Mode::Gt, [false, false, true]),
        (Mode::Eq, [false, true, false]),
        (Mode::Neq, [true, false, true]),
    ];
    for (mode, wanted) in takes_true {
        for missing_true in [false, true] {
            let tree = branch(mode, 2.0, missing_true, leaf(1.0), leaf(0.0));
            let found =
                answer(&attributes(targets(1, Aggregate::Sum), &[tree]), &[1.0, 2.0, 3.0, f32::NAN], 1);
            // NaN differs from everything, whatever the track of missing values.
            let missing = missing_true || mode == Mode::Neq;
            let [below, at, above] = wanted.map(|wanted| f32::from(u8::from(wanted)));
            assert_eq!(found.scores, [below, at, above, f32::from(u8::from(missing))], "{mode:?}");
            assert!(found.labels.is_empty());
        }
    }
}

#[test]
fn one_leaf_is_a_tree_and_columns_beyond_the_tested_ones_are_ignored() {
    let found = answer(&attributes(targets(1, Aggregate::Sum), &[leaf(0.5), leaf(1.0)]), &[7.0, 8.0], 2);
    assert_eq!(found.scores, [1.5]);
}

#[test]
fn trees_are_added_in_their_order_in_32_bits() {
    // Summed from the small end, or in 64 bits, the result would be another.
    let trees: Vec<Grown> = [1e8, 1.0, 1.0, -1e8, 3.0].map(leaf).into();
    assert_eq!(answer(&attributes(targets(1, Aggregate::Sum), &trees), &[0.0], 1).scores, [3.0]);
}

#[test]
fn aggregates_combine_trees_and_base_values_are_added_once() {
    let trees = [leaf(1.0), leaf(4.0), leaf(-2.0)];
    for (aggregate, wanted) in
        [(Aggregate::Sum, 13.0), (Aggregate::Average, 11.0), (Aggregate::Min, 8.0), (Aggregate::Max, 14.0)]
    {
        let mut written = attributes(targets(1, aggregate), &trees);
        written.base_values = vec![10.0];
        assert_eq!(answer(&written, &[0.0], 1).scores, [wanted], "{aggregate:?}");
    }
}

#[test]
fn several_targets_have_their_own_sums_and_base_values() {
    let trees = [Grown::Leaf(vec![(0, 1.0), (1, 2.0)]), Grown::Leaf(vec![(1, 5.0)])];
    let mut written = attributes(targets(3, Aggregate::Sum), &trees);
    written.base_values = vec![0.5, 0.25, 9.0];
    // A target without any weight is zero, without its base value: ONNX Runtime's rule.
    assert_eq!(answer(&written, &[0.0], 1).scores, [1.5, 7.25, 0.0]);
}

#[test]
fn two_classes_with_weights_of_one_are_split_by_sign_or_by_one_half() {
    let tree = |low, high| branch(Mode::Leq, 0.0, false, leaf(low), leaf(high));
    let written = attributes(classes(2), &[tree(-0.75, 0.25)]);
    let found = answer(&written, &[-1.0, 1.0], 1);
    assert_eq!((found.scores, found.labels), (vec![0.75, -0.75, -0.25, 0.25], vec![10, 11]));
    let found = answer(&attributes(classes(2), &[tree(0.25, 0.75)]), &[-1.0, 1.0], 1);
    assert_eq!((found.scores, found.labels), (vec![0.75, 0.25, 0.25, 0.75], vec![10, 11]));
    let mut written = written;
    written.transform = Transform::Logistic;
    written.base_values = vec![0.75];
    assert_eq!(answer(&written, &[-1.0], 1).scores, [0.5, 0.5]);
}

#[test]
fn the_class_with_the_largest_sum_gives_the_label_and_the_first_of_equals_wins() {
    let trees = [Grown::Leaf(vec![(0, 1.0)]), Grown::Leaf(vec![(1, 3.0)]), Grown::Leaf(vec![(2, 3.0)])];
    let mut written = attributes(classes(3), &trees);
    assert_eq!(answer(&written, &[0.0], 1).labels, [11]);
    written.output = Output::Classes(Labels::Texts(["a", "b", "c"].map(|text| text.into()).into()));
    written.transform = Transform::Softmax;
    let found = answer(&written, &[0.0], 1);
    assert_eq!(found.labels, [1]);
    assert!((found.scores.iter().sum::<f32>() - 1.0).abs() < 1e-6);
}

#[test]
fn a_node_with_two_parents_is_walked_like_any_other() {
    let mut written = attributes(
        targets(1, Aggregate::Sum),
        &[branch(Mode::Eq, 3.0, false, leaf(1.0), branch(Mode::Eq, 5.0, false, leaf(7.0), leaf(2.0)))],
    );
    // As converters of categories write it: the second test shares the first leaf.
    written.nodes.true_ids[2] = 1;
    assert_eq!(answer(&written, &[3.0, 5.0, 4.0], 1).scores, [1.0, 1.0, 2.0]);
}

#[test]
fn ensembles_that_end_nowhere_or_name_nothing_are_refused_with_the_reason() {
    let good = attributes(targets(1, Aggregate::Sum), &[branch(Mode::Leq, 0.0, false, leaf(0.0), leaf(1.0))]);
    let change = |change: &dyn Fn(&mut Attributes)| {
        let mut changed = good.clone();
        change(&mut changed);
        refused(changed)
    };
    assert!(change(&|it| it.nodes.true_ids[0] = 0).contains("returns to itself"));
    assert!(change(&|it| it.nodes.false_ids[0] = 9).contains("node 9 of tree 0 does not exist"));
    assert!(change(&|it| it.nodes.node_ids[1] = 0).contains("same number"));
    assert!(change(&|it| it.nodes.tree_ids = vec![0, 1, 0]).contains("not in one place"));
    assert!(change(&|it| it.leaves.target_ids[0] = 1).contains("no class or target"));
    assert!(change(&|it| it.leaves.node_ids[0] = 7).contains("no node"));
    assert!(change(&|it| it.nodes.feature_ids[0] = -1).contains("negative feature"));
    assert!(change(&|it| it.nodes.modes.truncate(1)).contains("differ in length"));
    assert!(change(&|it| it.base_values = vec![0.0; 2]).contains("2 base values for 1 scores"));
    assert!(change(&|it| it.output = classes(1)).contains("1 classes"));
    assert!(change(&|it| (it.output, it.transform) = (classes(2), Transform::Probit)).contains("PROBIT"));
    assert!(change(&|it| it.nodes = NodeAttributes::default()).contains("no node"));
}

#[test]
fn a_row_that_may_reach_no_weight_has_no_label_so_the_ensemble_is_refused() {
    let tree = branch(Mode::Leq, 0.0, false, Grown::Leaf(Vec::new()), leaf(1.0));
    assert!(refused(attributes(classes(3), &[tree])).contains("no label"));
}

/// The leaf of a row, read from the attributes.
fn reached(attributes: &Attributes, tree: i64, row: &[f32]) -> i64 {
    let nodes = &attributes.nodes;
    let mut number = 0;
    loop {
        let place = (0..nodes.node_ids.len())
            .find(|&place| (nodes.tree_ids[place], nodes.node_ids[place]) == (tree, number))
            .unwrap();
        let (threshold, mode) = (nodes.values[place], nodes.modes[place]);
        let value = row[nodes.feature_ids[place] as usize];
        let compared = match mode {
            Mode::Leq => value <= threshold,
            Mode::Lt => value < threshold,
            Mode::Gte => value >= threshold,
            Mode::Gt => value > threshold,
            Mode::Eq => value == threshold,
            Mode::Neq => value != threshold,
            Mode::Leaf => return number,
        };
        let yes = compared || (value.is_nan() && nodes.missing_true[place] == 1);
        number = if yes { nodes.true_ids[place] } else { nodes.false_ids[place] };
    }
}

const COLUMNS: usize = 4;

fn a_number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => prop::sample::select(vec![-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0]),
        2 => -3.0_f32..3.0,
        1 => prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-45, f32::MAX]),
    ]
}

fn a_tree(modes: Vec<Mode>, targets: usize) -> impl Strategy<Value = Grown> {
    let leaf = prop::collection::vec((0..targets, -2.0_f32..2.0), 1..=targets).prop_map(Grown::Leaf);
    leaf.prop_recursive(6, 40, 2, move |inner| {
        let mode = prop::sample::select(modes.clone());
        (mode, 0..COLUMNS, a_number(), any::<bool>(), inner.clone(), inner).prop_map(
            |(mode, feature, threshold, missing_true, yes, no)| Grown::Branch {
                mode,
                feature,
                threshold,
                missing_true,
                yes: Box::new(yes),
                no: Box::new(no),
            },
        )
    })
}

fn an_ensemble() -> impl Strategy<Value = Attributes> {
    let modes = prop::sample::select(vec![
        vec![Mode::Leq],
        vec![Mode::Lt],
        vec![Mode::Leq, Mode::Lt, Mode::Gt, Mode::Gte],
        vec![Mode::Leq, Mode::Lt, Mode::Gt, Mode::Gte, Mode::Eq, Mode::Neq],
    ]);
    (modes, 1_usize..4).prop_flat_map(|(modes, count)| {
        prop::collection::vec(a_tree(modes, count), 1..30)
            .prop_map(move |trees| attributes(targets(count, Aggregate::Sum), &trees))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_ensemble_answers_as_its_attributes_read_whatever_the_number_of_rows(
        written in an_ensemble(),
        rows in prop::collection::vec(prop::collection::vec(a_number(), COLUMNS), 1..=ROWS_AT_ONCE),
    ) {
        let width = written.output.scores();
        let trees = written.nodes.tree_ids.last().unwrap() + 1;
        let mut wanted = Vec::new();
        for row in &rows {
            let mut sums = vec![0.0_f32; width];
            for tree in 0..trees {
                let number = reached(&written, tree, row);
                let leaves = &written.leaves;
                let of_leaf = (0..leaves.weights.len())
                    .filter(|&place| (leaves.tree_ids[place], leaves.node_ids[place]) == (tree, number));
                // Of one target, the first weight alone counts.
                for place in of_leaf.take(if width == 1 { 1 } else { usize::MAX }) {
                    sums[leaves.target_ids[place] as usize] += leaves.weights[place];
                }
            }
            wanted.extend(sums.iter().map(|sum| sum.to_bits()));
        }
        let ensemble = Ensemble::new(written).unwrap();
        let mut answers = Answers::default();
        for from in [0, rows.len() / 2] {
            ensemble.answer(&rows[from..].concat(), COLUMNS, &mut answers);
            let found: Vec<u32> = answers.scores.iter().map(|score| score.to_bits()).collect();
            prop_assert_eq!(&found, &wanted[from * width..]);
        }
    }
}
