//! Fills a decision's windows from past events, before a server counts its own. Blocks; not on the request path.
//!
//! Events are processed like requests: the same program reads the rows, and the same windows count them. Must not know where
//! the events come from.

use super::compile;
use crate::stages::features::window_event;
use flyball_core::{Clock, WallClock};
use flyball_decision::{DecisionDocument, KeyBuffer, Program, RowReader, Rows};
use flyball_features::{FeatureSettings, Features, LaneFeatures, LookupError, Window, Windowed};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// Maximum attempts to write one event to Redis.
const TRIES_MAX: usize = 5;

/// Why a backfill failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackfillFault {
    #[error("{0}")]
    Refused(String),
    /// The windows' store does not answer.
    #[error("{0}")]
    Unreachable(String),
}

/// The counts of a backfill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    pub events: u64,
    /// Rows without a key for any window.
    pub without_key: u64,
}

pub struct Backfill {
    decision: String,
    program: Program,
    windows: Vec<Option<Window>>,
    features: Arc<Features>,
    /// Follows the events' times, so that windows count them as if they were current.
    wall: WallClock,
    runtime: Runtime,
    last_ms: Option<i64>,
    filled: Filled,
}

impl Backfill {
    /// `document` needs no model. `folder` is the server's folder of embedded windows; none if it has no such window.
    pub fn begin(
        decision: &str,
        document: &DecisionDocument,
        folder: Option<PathBuf>,
    ) -> Result<Backfill, BackfillFault> {
        let refused = BackfillFault::Refused;
        let program = Program::compile(document, &[]).map_err(|faults| refused(faults.to_string()))?;
        let embedded = document.features.iter().find(|feature| {
            feature.window.as_ref().is_some_and(|window| window.source.is_none()) && folder.is_none()
        });
        if let Some(feature) = embedded {
            return Err(refused(format!(
                "the window {} is kept by the server, and no folder is given",
                feature.name
            )));
        }
        let wall = WallClock::manual(WallClock::system().now_ms());
        let settings = FeatureSettings {
            folder,
            wall: wall.clone(),
            clock: Clock::system(),
            ..FeatureSettings::default()
        };
        let features = Features::new(settings);
        let sources = compile::sources(&program, Path::new("."), &features).map_err(refused)?;
        let windows = compile::windows(decision, document, &program, &sources, &features).map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refused(format!("cannot start a runtime: {error}")))?;
        let decision = decision.to_owned();
        Ok(Backfill {
            decision,
            program,
            windows,
            features,
            wall,
            runtime,
            last_ms: None,
            filled: Filled::default(),
        })
    }

    /// Counts rows, each with its event's time in milliseconds. Times must ascend, also from call to call.
    pub fn put(&mut self, times: &[i64], give: impl FnOnce(&mut RowReader<'_>)) -> Result<(), BackfillFault> {
        let mut rows = Rows::default();
        self.program.begin(&mut rows);
        let mut reader = self.program.reader(&mut rows);
        give(&mut reader);
        reader.finish();
        let first = self.last_ms.is_none();
        for (row, &at_ms) in times.iter().enumerate() {
            if let Some(fault) = rows.faults(row).next() {
                let text = format!("field {}: allowed is {}", fault.field, fault.allowed);
                return Err(BackfillFault::Refused(text));
            }
            if self.last_ms.is_some_and(|last| at_ms < last) {
                return Err(BackfillFault::Refused("the events are not in time order".to_owned()));
            }
            self.last_ms = Some(at_ms);
        }
        let Backfill { decision, program, windows, features, wall, runtime, filled, .. } = self;
        LocalSet::new().block_on(runtime, async {
            let lane = features.lane();
            if let (true, Some(&begin)) = (first, times.first()) {
                check_uncounted(decision, &lane, program, windows, begin).await?;
            }
            for (row, &at_ms) in times.iter().enumerate() {
                wall.set_ms(at_ms);
                count(&lane, program, windows, &rows, (row, at_ms), filled).await?;
            }
            Ok(())
        })
    }

    /// Flushes embedded windows.
    pub fn finish(self) -> Filled {
        let Backfill { windows, features, filled, .. } = self;
        drop(windows);
        features.close();
        filled
    }
}

/// Refuses events that a window may have counted already.
async fn check_uncounted(
    decision: &str,
    lane: &LaneFeatures,
    program: &Program,
    windows: &[Option<Window>],
    begin: i64,
) -> Result<(), BackfillFault> {
    for (plan, window) in program.features.iter().zip(windows) {
        let Some(window) = window else { continue };
        let until = lane.counted_until(window).await.map_err(|why| unreachable(&plan.name, why))?;
        if let Some(until) = until.filter(|until| begin <= *until) {
            return Err(BackfillFault::Refused(format!(
                "{decision}: the window {} has counted events until {until} ms since 1970, and the first of these is at \
                 {begin}; an event must not be counted twice",
                plan.name
            )));
        }
    }
    Ok(())
}

async fn count(
    lane: &LaneFeatures,
    program: &Program,
    windows: &[Option<Window>],
    rows: &Rows,
    (row, at_ms): (usize, i64),
    filled: &mut Filled,
) -> Result<(), BackfillFault> {
    let mut keyed = false;
    for (plan, window) in program.features.iter().zip(windows) {
        let mut buffers = [KeyBuffer::new(), KeyBuffer::new()];
        let Some(window) = window else { continue };
        let Some(event) = window_event(plan, rows, row, at_ms, &mut buffers) else { continue };
        keyed = true;
        let mut windowed = lane.window(window, event, None).await;
        for _ in 1..TRIES_MAX {
            // Retry only what was not sent (store down or busy): after other failures the event may have been counted.
            if !matches!(windowed, Windowed::Failed { why: LookupError::Down | LookupError::Busy }) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            windowed = lane.window(window, event, None).await;
        }
        if let Windowed::Failed { why } = windowed {
            return Err(unreachable(&plan.name, why));
        }
    }
    filled.events += u64::from(keyed);
    filled.without_key += u64::from(!keyed);
    Ok(())
}

fn unreachable(window: &str, why: LookupError) -> BackfillFault {
    BackfillFault::Unreachable(format!("the window {window} does not answer: {}", why.label()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::{RowSink, Scalar};
    use serde_json::json;

    const HOUR_MS: i64 = 3_600_000;

    fn document() -> DecisionDocument {
        let window = json!({"op": "sum", "of": "amount", "by": "card", "last_ms": HOUR_MS});
        DecisionDocument::read(&json!({
            "owner": "risk", "purpose": "the test's own",
            "input": [{"name": "card", "type": "string", "required": false}, {"name": "amount", "type": "float"}],
            "features": [{"name": "spent", "type": "float", "window": window}],
            "policy": {"outcomes": ["any"], "rules": [{"when": "true", "then": "any"}]},
        }))
        .unwrap()
    }

    fn put(backfill: &mut Backfill, times: &[i64], card: Option<&str>) -> Result<(), BackfillFault> {
        backfill.put(times, |reader| {
            for _ in times {
                reader.row(None);
                reader.field("amount", Scalar::Float(1.0));
                if let Some(card) = card {
                    reader.field("card", Scalar::Text(card));
                }
            }
        })
    }

    #[test]
    fn a_window_that_was_filled_is_warm_and_its_events_are_not_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || Backfill::begin("d", &document(), Some(folder.path().to_owned())).unwrap();
        let now = WallClock::system().now_ms();
        let times: Vec<i64> = (0..=60).map(|minute| now - HOUR_MS + minute * 60_000).collect();
        let mut first = begin();
        put(&mut first, &times, Some("c")).unwrap();
        put(&mut first, &[now], None).unwrap();
        let window = first.windows[0].clone().unwrap();
        let event = flyball_features::Event {
            key: "c",
            at_ms: now,
            value: flyball_features::WindowValue::None,
            current: false,
            write: false,
        };
        let value = first.features.lane().window_embedded(&window, event);
        assert_eq!(value, Some(Windowed::Value { value: 61.0, saturated: false }));
        drop(window);
        assert_eq!(first.finish(), Filled { events: 61, without_key: 1 });
        let mut second = begin();
        let again = put(&mut second, &times, Some("c")).unwrap_err();
        assert!(again.to_string().contains("must not be counted twice"), "{again}");
        assert_eq!(second.finish(), Filled::default());
        let mut later = begin();
        put(&mut later, &[now + 2 * 60_000], Some("c")).unwrap();
    }

    #[test]
    fn events_that_are_not_in_order_and_windows_without_a_folder_are_refused() {
        assert!(matches!(Backfill::begin("d", &document(), None), Err(BackfillFault::Refused(_))));
        let folder = tempfile::tempdir().unwrap();
        let mut backfill = Backfill::begin("d", &document(), Some(folder.path().to_owned())).unwrap();
        let unordered = put(&mut backfill, &[2, 1], Some("c")).unwrap_err();
        assert_eq!(unordered.to_string(), "the events are not in time order");
    }
}
