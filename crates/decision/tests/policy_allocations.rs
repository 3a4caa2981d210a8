//! Evaluating a policy allocates nothing, counted by this binary's allocator.

use flyball_decision::{Faults, Kind, Name, Names, Policy, Rows, Value};
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller upholds the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn names() -> Names {
    let mut names = Names::default();
    let fields = [
        ("amount", Kind::Float),
        ("count", Kind::Int),
        ("card", Kind::Text),
        ("country", Kind::Category),
        ("at", Kind::Time),
    ];
    for (slot, (name, kind)) in fields.into_iter().enumerate() {
        names.add(
            name,
            Name { slot, kind, values: vec!["DE".to_owned(), "FR".to_owned()].into(), hidden: false },
        );
    }
    names
}

#[test]
fn judging_with_every_kind_of_rule_allocates_nothing() {
    let document = json!({
        "guards": [{"of": "score", "min": 0, "max": 1}, {"of": "amount", "min": 0}],
        "outcomes": ["pass", "review", "reject"],
        "bands": [{"name": "pass", "to": 0.3}, {"name": "review", "from": 0.3, "to": 0.8}, {"name": "reject", "from": 0.8}],
        "segments": [{"when": "country == 'DE'", "bands": [{"name": "review"}]}],
        "rules": [
            {"when": "amount > 5000 && country != 'FR'", "then": "review", "reason": "R07"},
            {"when": "count * 3 > 20 || score > 0.5", "then": "reject", "reason": "R11"},
            {"when": "card.startsWith('4') ? size(card) > 3 : card == country", "reason": "R12"},
            {"when": "card.matches('^[0-9]+$')", "reason": "R13"},
            {"when": "at.getHours() > 5 && at.getDayOfWeek() in [0, 6]", "reason": "R14"},
            {"when": "country in ['DE', 'FR'] && card in ['x', 'y']", "reason": "R15"},
        ],
    });
    let mut faults = Faults::default();
    let policy = Policy::compile(&serde_json::from_value(document).unwrap(), &names(), &mut faults);
    let policy = policy.unwrap_or_else(|| panic!("{:?}", faults.0));
    let mut rows = Rows::default();
    rows.begin(5, 0);
    let row = rows.push(None);
    let card = rows.keep("4111");
    let values = [
        Value::Float(9.5),
        Value::Int(7),
        Value::Text(card),
        Value::Category(1),
        Value::Time(1_794_776_906_500_000_000),
    ];
    for (slot, value) in values.into_iter().enumerate() {
        rows.set(row, slot, value);
    }
    // The first use of a pattern allocates its memory.
    let first = policy.evaluate(&rows, row, Some(0.4)).unwrap();
    assert_eq!(first.fired.as_slice(), [1, 2, 3, 4]);
    let before = COUNT.get();
    policy.inputs_guarded(&rows, row).unwrap();
    let again = policy.evaluate(&rows, row, Some(0.4)).unwrap();
    assert_eq!(COUNT.get() - before, 0);
    assert_eq!(again, first);
}
