//! Where features come from beside the request: the hot cache, Redis, the embedded store, and windows over past events.
//!
//! Nothing here knows decisions, models or protocols.
#![forbid(unsafe_code)]

mod counters;
mod features;
mod lane;
mod lookup;
mod record;
mod source;
mod wall;
mod window;

pub use counters::{SourceCounts, WindowCounts};
pub use features::{FeatureSettings, Features};
pub use lane::{Event, LaneFeatures};
pub use lookup::{Lookup, Why};
pub use record::{Record, RecordFault};
pub use source::{CacheDef, Source, SourceDef, SourceKind};
pub use wall::Wall;
pub use window::{Window, WindowDef, WindowOp, WindowValue, Windowed};
