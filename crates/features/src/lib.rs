//! Features from outside the request: cache, Redis, embedded store, and windows over past events.
//!
//! Nothing here knows decisions, models or protocols.
#![forbid(unsafe_code)]

mod cache;
mod counters;
mod erase;
mod features;
mod lane;
mod link;
mod lookup;
mod push;
mod record;
mod source;
mod store;
mod tokens;
mod window;

pub use counters::{SourceCounts, WindowCounts};
pub use erase::{ErasedRows, erase_kept};
pub use features::{FeatureSettings, Features};
pub use lane::LaneFeatures;
pub use lookup::{Lookup, LookupError};
pub use push::{PushFault, PushTarget, Pushed, Pusher, get};
pub use record::{Record, RecordFault};
pub use source::{CacheDef, Source, SourceDef, SourceKind};
pub use window::{Event, Window, WindowDef, WindowValue, Windowed};
