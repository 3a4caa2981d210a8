//! Decisions with fake models: their outcomes, and the effect of each fault.

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
