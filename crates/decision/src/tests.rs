//! The whole program: documents that compile and do not, rows that are taken and refused, columns, tensors, scores.

mod candidate;
mod columns;
mod document;
mod good;
mod mutated;
mod run;
mod taken;
