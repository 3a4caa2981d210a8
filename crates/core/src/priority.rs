//! The priority that a caller gives a request: a bounded class for queues and metrics.

crate::labelled! {
    /// A priority class. Higher classes run first, but none starves.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Priority {
        High => "high",
        #[default]
        Normal => "normal",
        Low => "low",
    }
}

impl Priority {
    /// Maps a V2 `priority` parameter: 0 is the default, 1 the most urgent.
    pub const fn from_v2(level: u64) -> Priority {
        match level {
            1 => Priority::High,
            0 | 2 => Priority::Normal,
            _ => Priority::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_each_class_is_its_place_in_all() {
        for (place, priority) in Priority::ALL.into_iter().enumerate() {
            assert_eq!(priority.index(), place);
        }
    }

    #[test]
    fn every_level_of_v2_has_a_class_and_none_given_means_the_default() {
        let classes = [0, 1, 2, 3, u64::MAX].map(Priority::from_v2);
        assert_eq!(
            classes,
            [Priority::default(), Priority::High, Priority::Normal, Priority::Low, Priority::Low]
        );
    }
}
