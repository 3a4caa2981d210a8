//! The ten stages of a request's walk, in order.
//!
//! Their names are the metric labels, the span names, the columns of the benchmark report and the headings of
//! `docs/life-of-a-request.md`; a test compares them.

crate::labelled! {
    /// One step of the walk. The order of the variants is the order of the walk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(usize)]
    pub enum Stage {
        Parse => "parse",
        Route => "route",
        Admit => "admit",
        Features => "features",
        Tensor => "tensor",
        Queue => "queue",
        Infer => "infer",
        Policy => "policy",
        Record => "record",
        Respond => "respond",
    }
}

impl Stage {
    pub const COUNT: usize = Stage::ALL.len();
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
