//! Decisions against models made for the test: what they come to, and what becomes of each thing that can fail.

mod answered;
mod candidates;
mod cost;
mod exposed;
mod features;
mod keys;
mod lost;
mod reasons;
mod recorded;
mod recorder;
mod redis;
mod remedies;
mod rules_alone;
mod several;
mod shadows;
mod world;
