//! Judging, and what is refused.
