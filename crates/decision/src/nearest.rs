//! "Did you mean": finds the known word nearest to an unknown one.

/// Minimum similarity from 0 to 1 for a suggestion.
const ALIKE: f64 = 0.6;

/// Formats `; did you mean 'country'?`, or nothing without a near word.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let lower = word.to_lowercase();
    let alike = |known: &str| strsim::normalized_damerau_levenshtein(&lower, &known.to_lowercase());
    known
        .map(|known| (alike(known), known))
        .filter(|(alike, _)| *alike >= ALIKE)
        // Names are unordered: ties must still give the same answer each time.
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
        .map(|(_, known)| format!("; did you mean '{known}'?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_asked_for_and_a_far_one_is_not() {
        let known = ["country", "county", "amount"];
        assert_eq!(did_you_mean("contry", known.into_iter()), "; did you mean 'country'?");
        assert_eq!(did_you_mean("AMOUNT", known.into_iter()), "; did you mean 'amount'?");
        assert_eq!(did_you_mean("colour", known.into_iter()), "");
    }

    #[test]
    fn of_two_that_are_equally_near_the_first_by_name_is_asked_for() {
        assert_eq!(did_you_mean("name", ["namb", "nama"].into_iter()), "; did you mean 'nama'?");
        assert_eq!(did_you_mean("name", ["nama", "namb"].into_iter()), "; did you mean 'nama'?");
    }
}
