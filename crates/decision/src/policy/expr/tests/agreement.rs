//! Random expressions agree with the `cel` crate's interpreter wherever they are defined.

use super::*;
use cel::{Context, Program};
use proptest::prelude::*;

type Source = BoxedStrategy<String>;

/// Text, int, float and bool generators call each other, one level less deep each time.
fn text(depth: u32) -> Source {
    let leaf = prop_oneof![
        Just("note".to_owned()),
        Just("country".to_owned()),
        prop::sample::select(vec!["'DE'", "'FR'", "''", "'naïve'", "\"caf\\u00e9\"", "r'a\\b'"])
            .prop_map(str::to_owned),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let picked = (truth(depth - 1), text(depth - 1), text(depth - 1));
    prop_oneof![3 => leaf, 1 => picked.prop_map(|(when, yes, no)| format!("({when} ? {yes} : {no})"))].boxed()
}

fn whole(depth: u32) -> Source {
    let literal = prop_oneof![-9..10_i64, any::<i64>()];
    let leaf = prop_oneof![
        Just("count".to_owned()),
        literal.prop_filter_map("CEL has no literal for the least", |value| (value > i64::MIN)
            .then(|| value.to_string())),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let (left, right) = (whole(depth - 1), whole(depth - 1));
    prop_oneof![
        2 => leaf,
        4 => (left, prop::sample::select(vec!["+", "-", "*", "/", "%"]), right).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
        1 => whole(depth - 1).prop_map(|of| format!("-({of})")),
        1 => text(depth - 1).prop_map(|of| format!("size({of})")),
        1 => real(depth - 1).prop_map(|of| format!("int({of})")),
        1 => (truth(depth - 1), whole(depth - 1), whole(depth - 1)).prop_map(|(when, yes, no)| format!("({when} ? {yes} : {no})")),
    ]
    .boxed()
}

/// The interpreter rounds an int next to a float; CEL and we do not. So: ints that a float represents
/// exactly.
fn exact(depth: u32) -> Source {
    whole(depth).prop_map(|of| format!("({of} % 1000000)")).boxed()
}

fn real(depth: u32) -> Source {
    let leaf = prop_oneof![
        Just("amount".to_owned()),
        (-1e6..1e6_f64).prop_map(|value| format!("{value:?}")),
        Just("0.0".to_owned())
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let (left, right) = (real(depth - 1), real(depth - 1));
    prop_oneof![
        2 => leaf,
        4 => (left, prop::sample::select(vec!["+", "-", "*", "/"]), right).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
        1 => real(depth - 1).prop_map(|of| format!("-({of})")),
        1 => whole(depth - 1).prop_map(|of| format!("double({of})")),
        1 => (truth(depth - 1), real(depth - 1), real(depth - 1)).prop_map(|(when, yes, no)| format!("({when} ? {yes} : {no})")),
    ]
    .boxed()
}

fn truth(depth: u32) -> Source {
    let leaf = prop::sample::select(vec!["true", "false", "new"]).prop_map(str::to_owned);
    if depth == 0 {
        return leaf.boxed();
    }
    let order = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let test = prop::sample::select(vec!["startsWith", "endsWith", "contains"]);
    let pair = |of: fn(u32) -> Source, with: fn(u32) -> Source| {
        (of(depth - 1), order(), with(depth - 1)).prop_map(|(a, order, b)| format!("({a} {order} {b})"))
    };
    prop_oneof![
        1 => leaf,
        2 => pair(whole, whole),
        2 => pair(real, real),
        1 => pair(exact, real),
        1 => pair(real, exact),
        1 => text(depth - 1).prop_map(|of| format!("(note <= {}{of}{})", "(true ? ", " : '')")),
        1 => (text(0), test, text(0)).prop_map(|(a, test, b)| format!("{a}.{test}({b})")),
        1 => (whole(depth - 1), -9..10_i64, any::<i64>()).prop_map(|(of, a, b)| format!("({of} in [{a}, {}])", b.max(-i64::MAX))),
        1 => (real(depth - 1), -9.0..9.0_f64).prop_map(|(of, a)| format!("({of} in [{a:?}, 0.0])")),
        1 => prop::sample::select(vec!["country == 'FR'", "country != 'DE'", "country in ['DE', 'other']"]).prop_map(str::to_owned),
        2 => (truth(depth - 1), prop::sample::select(vec!["&&", "||"]), truth(depth - 1)).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
        1 => truth(depth - 1).prop_map(|of| format!("!({of})")),
        1 => (truth(depth - 1), truth(depth - 1), truth(depth - 1)).prop_map(|(when, yes, no)| format!("({when} ? {yes} : {no})")),
    ]
    .boxed()
}

/// The interpreter's result in our notation; none: it fails.
fn interpreted(source: &str, context: &Context<'_, '_>) -> Option<String> {
    match Program::compile(source).expect(source).execute(context).ok()? {
        cel::Value::Bool(value) => Some(format!("{value}")),
        cel::Value::Int(value) => Some(format!("{value}")),
        // No expression can observe the sign of zero.
        cel::Value::Float(value) => Some(format!("{:?}", value + 0.0)),
        cel::Value::String(value) => Some(value.to_string()),
        other => panic!("{source} gives {other:?}"),
    }
}

fn ours(source: &str, rows: &Rows) -> Option<String> {
    let expr = Expr::compile(source, &names()).unwrap_or_else(|fault| panic!("{source}: {}", fault.text));
    match expr.value(rows, 0) {
        Computed::Missing => None,
        Computed::Bool(value) => Some(format!("{value}")),
        Computed::Int(value) => Some(format!("{value}")),
        Computed::Float(value) => Some(format!("{:?}", value + 0.0)),
        Computed::Text(text) => Some(rows.text(text).to_owned()),
        Computed::Literal(text) => Some(text.to_owned()),
        Computed::Time(_) => panic!("{source} gives a time"),
    }
}

proptest! {
    #[test]
    fn what_can_be_told_is_what_cel_says(
        source in prop_oneof![3 => truth(3), 1 => whole(3), 1 => real(3), 1 => text(2)],
        amount in prop_oneof![-1e6..1e6_f64, (-9..10_i32).prop_map(f64::from)],
        count in prop_oneof![-9..10_i64, any::<i64>()],
        new in any::<bool>(),
        note in "[a-zé\u{1F600}]{0,4}|DE",
        country in 0..3_u32,
    ) {
        let mut rows = row(&[]);
        let kept = rows.keep(&note);
        let values = [Value::Float(amount), Value::Int(count), Value::Bool(new), Value::Text(kept), Value::Category(country)];
        let mut context = Context::default();
        for (slot, value) in values.into_iter().enumerate() {
            rows.set(0, slot, value);
        }
        context.add_variable_from_value("amount", amount);
        context.add_variable_from_value("count", count);
        context.add_variable_from_value("new", new);
        context.add_variable_from_value("note", note);
        context.add_variable_from_value("country", FIELDS[4].2[country as usize]);
        let theirs = interpreted(&source, &context);
        match ours(&source, &rows) {
            Some(told) => prop_assert_eq!(Some(told), theirs, "{}", source),
            // Only a division can be non-finite, which CEL treats as a number.
            None => prop_assert!(theirs.is_none() || source.contains('/'), "{} gives {:?}", source, theirs),
        }
    }

    #[test]
    fn no_text_brings_the_parser_down(source in "(?s).{0,80}") {
        let _ = Expr::compile(&source, &names());
    }

    #[test]
    fn no_mixture_of_words_brings_the_parser_down(
        words in prop::collection::vec(prop::sample::select(vec![
            "amount", "count", "'", "\"", "\\", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "&&", "||", "!", "-", "1", "0x", "1e",
            "9223372036854775808", "u", " in ", "has", "size", "b'", "r'", "=", "<", "`", "\n", "//", "é", "null", ".?", "[?", "'\\U0011ffff'",
        ]), 0..40),
    ) {
        let _ = Expr::compile(&words.concat(), &names());
    }
}
