//! The policy: conditions over fields and features, guards, bands and rules, and the outcome that they come to.

mod expr;

pub use expr::{Computed, EXPRESSION_BYTES_MAX, Expr, ExprFault};
