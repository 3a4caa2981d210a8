//! Enums whose variants have fixed labels: for metrics, records, documents and messages.
//!
//! A macro, because a function cannot list the variants of an enum. Must not know what the labels are for.

/// Defines an enum with one label for each variant, and `ALL`, `label`, `from_label` and `index` from that list.
#[macro_export]
macro_rules! labelled {
    (
        $(#[$attribute:meta])*
        $scope:vis enum $name:ident { $($(#[$about:meta])* $variant:ident => $label:literal),+ $(,)? }
    ) => {
        $(#[$attribute])*
        $scope enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            /// All variants in order.
            $scope const ALL: [$name; [$($label),+].len()] = [$($name::$variant),+];

            $scope const fn label(self) -> &'static str {
                match self { $($name::$variant => $label),+ }
            }

            $scope fn from_label(label: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|known| known.label() == label)
            }

            /// The position in `ALL`.
            $scope const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

#[cfg(test)]
mod tests {
    labelled! {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Size {
            Small => "s",
            /// The default.
            Medium => "m",
            Large => "l",
        }
    }

    #[test]
    fn labels_and_indices_are_those_of_the_list() {
        assert_eq!(Size::ALL, [Size::Small, Size::Medium, Size::Large]);
        assert_eq!(Size::ALL.map(Size::label), ["s", "m", "l"]);
        assert_eq!(Size::ALL.map(Size::index), [0, 1, 2]);
        assert_eq!((Size::from_label("m"), Size::from_label("M")), (Some(Size::Medium), None));
    }
}
