//! The attributes of a tree ensemble's node. Lists may be packed or one by one; their types are checked.

use super::unsupported;
use crate::scan::tensor::shortened;
use crate::scan::wire::{Piece, Value};
use flyball_trees::{
    Aggregate, Attributes, Labels, LeafAttributes, Mode, NodeAttributes, Output, Transform, Unsupported,
};
use prost::encoding::decode_varint;

/// Maximum elements of a list: what the ensemble itself allows.
const ELEMENTS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Classifier,
    Regressor,
}

impl Kind {
    pub(super) fn of(op: &str) -> Option<Kind> {
        match op {
            "TreeEnsembleClassifier" => Some(Kind::Classifier),
            "TreeEnsembleRegressor" => Some(Kind::Regressor),
            _ => None,
        }
    }
}

/// One attribute with all its values.
#[derive(Default)]
struct Attribute<'a> {
    name: &'a str,
    number: Option<i64>,
    text: Option<&'a [u8]>,
    numbers: Vec<i64>,
    floats: Vec<f32>,
    texts: Vec<&'a [u8]>,
}

pub(super) fn read(kind: Kind, pieces: &[Piece<'_>]) -> Result<Attributes, Unsupported> {
    let (mut nodes, mut leaves) = (NodeAttributes::default(), LeafAttributes::default());
    let (mut base_values, mut transform) = (Vec::new(), Transform::None);
    let (mut labels, mut targets, mut aggregate) = (Labels::Numbers(Vec::new()), 0, Aggregate::Sum);
    for piece in pieces {
        let read = Attribute::read(*piece)?;
        match (read.name, kind) {
            ("nodes_treeids", _) => nodes.tree_ids = read.numbers,
            ("nodes_nodeids", _) => nodes.node_ids = read.numbers,
            ("nodes_featureids", _) => nodes.feature_ids = read.numbers,
            ("nodes_truenodeids", _) => nodes.true_ids = read.numbers,
            ("nodes_falsenodeids", _) => nodes.false_ids = read.numbers,
            ("nodes_missing_value_tracks_true", _) => nodes.missing_true = read.numbers,
            ("nodes_values", _) => nodes.values = read.floats,
            ("nodes_modes", _) => nodes.modes = read.named("nodes_modes", Mode::parse)?,
            // How often training took a branch.
            ("nodes_hitrates", _) => {}
            ("class_treeids", Kind::Classifier) | ("target_treeids", Kind::Regressor) => {
                leaves.tree_ids = read.numbers;
            }
            ("class_nodeids", Kind::Classifier) | ("target_nodeids", Kind::Regressor) => {
                leaves.node_ids = read.numbers;
            }
            ("class_ids", Kind::Classifier) | ("target_ids", Kind::Regressor) => {
                leaves.target_ids = read.numbers;
            }
            ("class_weights", Kind::Classifier) | ("target_weights", Kind::Regressor) => {
                leaves.weights = read.floats;
            }
            ("base_values", _) => base_values = read.floats,
            ("post_transform", _) => transform = read.one("post_transform", Transform::parse)?,
            // ONNX Runtime prefers texts, and an empty list is none.
            ("classlabels_strings", Kind::Classifier) if !read.texts.is_empty() => {
                labels = Labels::Texts(read.texts.into_iter().map(<[u8]>::to_vec).collect());
            }
            ("classlabels_int64s", Kind::Classifier) => {
                if matches!(labels, Labels::Numbers(_)) {
                    labels = Labels::Numbers(read.numbers);
                }
            }
            ("n_targets", Kind::Regressor) => targets = read.number.unwrap_or_default(),
            ("aggregate_function", Kind::Regressor) => {
                aggregate = read.one("aggregate_function", Aggregate::parse)?;
            }
            (_, _) if read.is_empty() => {}
            (other, _) => return Err(unsupported(format!("attribute '{}' of the trees", shortened(other)))),
        }
    }
    let output = match kind {
        Kind::Classifier => Output::Classes(labels),
        Kind::Regressor => {
            let count = usize::try_from(targets).map_err(|_| unsupported(format!("{targets} targets")))?;
            Output::Targets { count, aggregate }
        }
    };
    Ok(Attributes { output, nodes, leaves, base_values, transform })
}

impl<'a> Attribute<'a> {
    fn read(piece: Piece<'a>) -> Result<Attribute<'a>, Unsupported> {
        let mut read = Attribute::default();
        for field in piece.fields() {
            match field? {
                (1, value) => read.name = value.piece()?.text()?,
                (3, value) => read.number = Some(value.number()? as i64),
                (4, value) => read.text = Some(value.piece()?.bytes),
                (7, Value::Fixed(bytes)) => read.float(bytes)?,
                (7, Value::Piece(packed)) => {
                    packed.bytes.chunks(size_of::<f32>()).try_for_each(|bytes| read.float(bytes))?;
                }
                (8, Value::Number(number)) => read.integer(number)?,
                (8, Value::Piece(packed)) => {
                    let mut rest = packed.bytes;
                    while !rest.is_empty() {
                        let number =
                            decode_varint(&mut rest).map_err(|_| unsupported("a number is broken"))?;
                        read.integer(number)?;
                    }
                }
                (9, value) => {
                    read.texts.push(value.piece()?.bytes);
                    bounded(read.texts.len())?;
                }
                // A tensor: 64-bit trees. Type, documentation and a single float mean nothing here.
                (5, _) => return Err(unsupported("trees of 64-bit floats")),
                _ => {}
            }
        }
        Ok(read)
    }

    fn float(&mut self, bytes: &[u8]) -> Result<(), Unsupported> {
        let bytes = bytes.try_into().map_err(|_| unsupported("a float is broken"))?;
        self.floats.push(f32::from_le_bytes(bytes));
        bounded(self.floats.len())
    }

    fn integer(&mut self, number: u64) -> Result<(), Unsupported> {
        self.numbers.push(number as i64);
        bounded(self.numbers.len())
    }

    fn is_empty(&self) -> bool {
        let lists = self.numbers.is_empty() && self.floats.is_empty() && self.texts.is_empty();
        lists && self.number.is_none() && self.text.is_none()
    }

    fn named<T>(&self, name: &str, parse: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, Unsupported> {
        self.texts.iter().map(|text| known(name, text, &parse)).collect()
    }

    fn one<T>(&self, name: &str, parse: impl Fn(&[u8]) -> Option<T>) -> Result<T, Unsupported> {
        known(name, self.text.unwrap_or_default(), &parse)
    }
}

fn known<T>(name: &str, text: &[u8], parse: &impl Fn(&[u8]) -> Option<T>) -> Result<T, Unsupported> {
    let shown = || shortened(&String::from_utf8_lossy(text));
    parse(text).ok_or_else(|| unsupported(format!("{name} '{}'", shown())))
}

fn bounded(elements: usize) -> Result<(), Unsupported> {
    if elements <= ELEMENTS_MAX {
        Ok(())
    } else {
        Err(unsupported(format!("more than {ELEMENTS_MAX} nodes")))
    }
}
