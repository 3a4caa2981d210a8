//! The types that all crates share: stages, faults, tensors, requests, the Snapshot, time.
//!
//! Knows nothing of sockets, ONNX Runtime or Python. It must stay cheap to depend on.
#![forbid(unsafe_code)]

mod clock;
mod decided;
mod dialect;
mod digest;
mod fault;
mod labelled;
mod limits;
mod printable;
mod priority;
mod private;
mod record;
mod recorder;
mod region;
mod rights;
mod rows;
pub mod snapshot;
mod stage;
mod statistics;
mod tensor;
pub mod triton_texts;
mod wall_clock;

pub use clock::{Clock, Nanos, nanos};
pub use decided::{
    Decided, DecidedBy, DecidedRow, DecisionId, Decisions, FieldFault, InvalidDecisionId, Reason, Remedied,
    Remedy, RowOutcome,
};
pub use dialect::{
    Answer, DecisionDialect, Dialect, InferRequest, ModelRef, OutputSlot, Protocol, RequestedOutput,
    RowsOptions,
};
pub use digest::{Digest, DigestError};
pub use fault::{Blame, Fault, FaultKind, GrpcCode, Outcome};
pub use limits::RequestLimits;
pub use printable::printable;
pub use priority::Priority;
pub use private::{private_file, private_folder};
pub use record::{CallerIndex, DecisionRecord, Meters, RunRecord, Shadow, Shadowed, Sink, WalkRecord};
pub use recorder::{
    JournalRecord, LaneRecorder, RecordKind, Recorder, Registered, Served, Ticket, Unavailable,
};
pub use region::{Region, RegionSpan};
pub use rights::{Access, Granted, InvalidRight, Right, Verb};
pub use rows::{RowRoute, RowSink, Scalar, WindowOp};
pub use stage::Stage;
pub use statistics::{ModelStatistics, Timed};
pub use tensor::{DataType, Shape, Tensor, TensorData, TensorSpec, admits};
pub use wall_clock::WallClock;
