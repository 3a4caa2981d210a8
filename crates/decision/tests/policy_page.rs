//! The policy page is correct: its expressions compile, and its tables match the behaviour.

use flyball_decision::{Expr, Kind, Name, Names, Rows, Value};

const PAGE: &str = include_str!("../../../docs/reference/policy.md");

/// The cells of the rows below the header that starts with `first`, without backticks.
fn table(first: &str) -> Vec<Vec<String>> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with(&format!("| {first} |"))).skip(2);
    let cells = |line: &str| {
        let line = line.replace("\\|", "\u{0}");
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`').replace('\u{0}', "|")).collect()
    };
    let rows: Vec<Vec<String>> = rows.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(rows.len() > 5, "the table of {first} has {} rows", rows.len());
    rows
}

fn names() -> Names {
    let mut names = Names::default();
    for (slot, row) in table("name").into_iter().enumerate() {
        let kind = match row[1].as_str() {
            "bool" => Kind::Bool,
            "int" => Kind::Int,
            "float" => Kind::Float,
            "string" => Kind::Text,
            "category" => Kind::Category,
            "time" => Kind::Time,
            other => panic!("{other} is no type"),
        };
        let values = row[2].split(", ").map(str::to_owned).collect();
        names.add(&row[0], Name { slot, kind, values, hidden: false });
    }
    names
}

fn compiled(source: &str) -> Expr {
    let expr = Expr::compile_with_score(source, &names());
    let expr = expr.unwrap_or_else(|fault| panic!("{source}: {}", fault.text));
    assert_eq!(expr.kind(), Kind::Bool, "{source}");
    expr
}

#[test]
fn every_expression_on_the_page_compiles() {
    let rules = PAGE.lines().filter_map(|line| line.trim().strip_prefix("- when: "));
    let blocks = PAGE.split("```cel\n").skip(1).flat_map(|block| block.split("```").next().unwrap().lines());
    let expressions: Vec<_> = rules.chain(blocks).collect();
    assert!(expressions.len() > 12, "{expressions:?}");
    for expression in expressions {
        compiled(expression);
    }
}

#[test]
fn what_the_page_says_is_refused_is_refused_in_these_words() {
    for row in table("written") {
        let fault = Expr::compile_with_score(&row[0], &names()).expect_err(&row[0]);
        assert_eq!(fault.text, row[1], "{}", row[0]);
    }
}

#[test]
fn what_the_page_says_of_missing_values_holds() {
    let mut rows = Rows::default();
    rows.begin(table("name").len(), 0);
    let row = rows.push(None);
    for slot in 1..table("name").len() {
        rows.set(row, slot, Value::Int(1));
    }
    for told in table("expression") {
        let holds = match compiled(&told[0]).holds(&rows, row, None) {
            Some(true) => "true",
            Some(false) => "false",
            None => "unknown",
        };
        assert_eq!(holds, told[1], "{}", told[0]);
    }
}

#[test]
fn every_part_of_a_time_that_the_page_names_exists() {
    let row = table("write").into_iter().find(|row| row[0].contains("getHours")).unwrap();
    for part in row[0].split("`, `") {
        compiled(&format!("{} >= 0", part.replacen('x', "at", 1)));
    }
}
