//! The ten stages of a request's walk, in order.
//!
//! Their names are the metric labels, the span names, the columns of the benchmark report and the headings of
//! `docs/life-of-a-request.md`; a test compares them.

/// One step of the walk. The order of the variants is the order of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Stage {
    Parse,
    Route,
    Admit,
    Features,
    Tensor,
    Queue,
    Infer,
    Policy,
    Record,
    Respond,
}

impl Stage {
    pub const COUNT: usize = 10;

    pub const ALL: [Stage; Stage::COUNT] = [
        Stage::Parse,
        Stage::Route,
        Stage::Admit,
        Stage::Features,
        Stage::Tensor,
        Stage::Queue,
        Stage::Infer,
        Stage::Policy,
        Stage::Record,
        Stage::Respond,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Stage::Parse => "parse",
            Stage::Route => "route",
            Stage::Admit => "admit",
            Stage::Features => "features",
            Stage::Tensor => "tensor",
            Stage::Queue => "queue",
            Stage::Infer => "infer",
            Stage::Policy => "policy",
            Stage::Record => "record",
            Stage::Respond => "respond",
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_each_stage_is_its_place_in_the_walk() {
        for (place, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage.index(), place);
        }
    }
}
