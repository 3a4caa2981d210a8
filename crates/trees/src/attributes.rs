//! The attributes of `TreeEnsembleClassifier` and `TreeEnsembleRegressor` as plain values, not checked yet.
//!
//! Their names follow the operators' (`nodes_treeids` is `nodes.tree_ids`); `class_…` and `target_…` are `leaves`.

/// All attributes of one operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    pub output: Output,
    pub nodes: NodeAttributes,
    pub leaves: LeafAttributes,
    /// One for each class or target, or none. A classifier of two classes may have one.
    pub base_values: Vec<f32>,
    pub transform: Transform,
}

/// Lists of equal length: one element for each node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAttributes {
    pub tree_ids: Vec<i64>,
    pub node_ids: Vec<i64>,
    pub feature_ids: Vec<i64>,
    pub modes: Vec<Mode>,
    /// Thresholds.
    pub values: Vec<f32>,
    pub true_ids: Vec<i64>,
    pub false_ids: Vec<i64>,
    /// 1: a missing value (NaN) takes the true branch. May be shorter than the others.
    pub missing_true: Vec<i64>,
}

/// Lists of equal length: one element for each weight of a leaf.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeafAttributes {
    pub tree_ids: Vec<i64>,
    pub node_ids: Vec<i64>,
    /// The class or target that the weight adds to.
    pub target_ids: Vec<i64>,
    pub weights: Vec<f32>,
}

/// What the operator returns besides scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A label and one score for each class.
    Classes(Labels),
    /// One score for each target.
    Targets { count: usize, aggregate: Aggregate },
}

/// The labels of classes, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Labels {
    Numbers(Vec<i64>),
    Texts(Vec<Vec<u8>>),
}

impl Labels {
    pub fn count(&self) -> usize {
        match self {
            Labels::Numbers(labels) => labels.len(),
            Labels::Texts(labels) => labels.len(),
        }
    }
}

/// How the trees' weights are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    #[default]
    Sum,
    Average,
    Min,
    Max,
}

impl Aggregate {
    pub fn parse(name: &[u8]) -> Option<Aggregate> {
        Some(match name {
            b"SUM" => Aggregate::Sum,
            b"AVERAGE" => Aggregate::Average,
            b"MIN" => Aggregate::Min,
            b"MAX" => Aggregate::Max,
            _ => return None,
        })
    }
}

/// What happens to the scores of a row at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transform {
    #[default]
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    pub fn parse(name: &[u8]) -> Option<Transform> {
        Some(match name {
            b"NONE" => Transform::None,
            b"SOFTMAX" => Transform::Softmax,
            b"LOGISTIC" => Transform::Logistic,
            b"SOFTMAX_ZERO" => Transform::SoftmaxZero,
            b"PROBIT" => Transform::Probit,
            _ => return None,
        })
    }
}

/// A node's comparison of its feature with its threshold, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Leq,
    Lt,
    Gte,
    Gt,
    Eq,
    Neq,
    Leaf,
}

impl Mode {
    pub fn parse(name: &[u8]) -> Option<Mode> {
        Some(match name {
            b"BRANCH_LEQ" => Mode::Leq,
            b"BRANCH_LT" => Mode::Lt,
            b"BRANCH_GTE" => Mode::Gte,
            b"BRANCH_GT" => Mode::Gt,
            b"BRANCH_EQ" => Mode::Eq,
            b"BRANCH_NEQ" => Mode::Neq,
            b"LEAF" => Mode::Leaf,
            _ => return None,
        })
    }
}
