//! The whole program: documents, rows, columns, tensors, scores.

mod accepted_values;
mod candidate;
mod columns;
mod document;
mod good;
mod mutated;
mod run;
