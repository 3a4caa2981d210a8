//! Named fields in, a decision out: what is particular to decisions on a request's walk.
//!
//! The frame is `decide.rs`'s; `case.rs` has the stages from route to policy, with what is done when one of them fails.

mod answer;
pub(crate) mod answers;
pub(crate) mod case;
pub(crate) mod desk;
pub(crate) mod entry;
mod explain;
mod ids;
mod places;
pub(crate) mod preamble;
mod ran;
mod record;
mod remedy;
pub(crate) mod shadow;
pub(crate) mod tensor_record;
#[cfg(test)]
mod tests;
pub(crate) mod work;

use crate::decide::Request;
use crate::decision::find;
use crate::walk::Walk;
use crate::{Decision, Lane, Model};
use answers::{Claim, Turn};
use bytes::Bytes;
use case::Case;
use flyball_core::{DecisionDialect, Decisions, Digest, Fault, FaultKind, RowsOptions, Sink, Stage, Verb};
use flyball_decision::Remedy;
use std::sync::Arc;
use std::time::Duration;
use work::Work;

/// A request for decisions, in a dialect of theirs.
pub struct Governed<'d, D>(pub &'d D);

impl<S: Sink, D: DecisionDialect> Request<S> for Governed<'_, D> {
    type Reply = D::Reply;
    type Found = Arc<Decision<S::Model>>;

    fn find(&self, lane: &Lane<S>, walk: &Walk<S>, _body: &Bytes) -> Option<Result<Self::Found, Fault>> {
        Some(self.found(lane, walk))
    }

    fn first(decision: &Self::Found) -> (&Arc<S::Model>, Option<&Model<S::Model>>) {
        (&decision.meter, decision.first_model().map(|model| &**model))
    }

    /// Where something is declared for that refusal, no model is asked at all, its rows may go to another variant's models, or
    /// its answer may be kept.
    fn may_yet(&self, decision: &Self::Found, refusal: &Fault, _body: &Bytes, _walk: &Walk<S>) -> bool {
        let program = &decision.program;
        program.policy.kill_switch().is_some()
            || program.route.splits()
            || self.0.keyed()
            || remedy::remedy(&program.remedies, refusal.kind) != Remedy::Error
    }

    async fn serve(
        &self,
        lane: &Lane<S>,
        found: Option<Self::Found>,
        body: Bytes,
        walk: &mut Walk<S>,
    ) -> Result<D::Reply, Fault> {
        let decision = match found {
            Some(decision) => decision,
            None => {
                let found = self.found(lane, walk);
                walk.stage(Stage::Route, found)?
            }
        };
        let mut work = lane.desk.works.lend();
        let ask = walk.stage(Stage::Parse, self.parse(lane, &decision, &body, &mut work))?;
        walk.due(ask.timeout, decision.deadline);
        let turn = match claim(lane, &decision, &ask, &body, walk).await {
            Ok(Before::Nothing(turn)) => turn,
            Ok(Before::Answered(earlier)) => return self.repeat(lane, &decision, &earlier, walk),
            Err(fault) => return walk.stage(Stage::Route, Err(fault)),
        };
        let mut case = Case::new(lane, &decision, &ask, work, turn);
        let decisions = case.decide(walk).await?;
        let reply = lane.write(decisions.size_max(), |out| self.0.answer(&decisions, out));
        let reply = walk.stage(Stage::Respond, reply)?;
        let (work, turn) = case.end();
        if let Some(turn) = turn {
            turn.answered(decisions, lane.now());
            tell_forgotten(lane, &decision);
        }
        shadow::offer(lane, decision, work);
        Ok(reply)
    }

    fn refuse(&self, fault: &Fault) -> D::Reply {
        self.0.refuse(fault)
    }
}

impl<D: DecisionDialect> Governed<'_, D> {
    /// The decision, where the caller may ask for it.
    fn found<S: Sink>(&self, lane: &Lane<S>, walk: &Walk<S>) -> Result<Arc<Decision<S::Model>>, Fault> {
        let found = find(&lane.plane.routes.load(), &walk.access, self.0.decision())?;
        walk.access.require(Verb::Decide, &found.name).map(|()| found)
    }

    fn parse<S: Sink>(
        &self,
        lane: &Lane<S>,
        decision: &Decision<S::Model>,
        body: &Bytes,
        work: &mut Work,
    ) -> Result<RowsOptions, Fault> {
        let program = &decision.program;
        program.begin(&mut work.rows);
        let mut reader = if lane.plane.means.offline {
            program.reader_of_features(&mut work.rows)
        } else {
            program.reader(&mut work.rows)
        };
        let ask = self.0.rows(body, &lane.plane.limits.request, &mut reader)?;
        reader.finish();
        if work.rows.is_empty() {
            return Err(Fault::malformed("there is no row to decide; send at least one"));
        }
        Ok(ask)
    }

    /// The answer that an earlier request with the same key got.
    fn repeat<S: Sink>(
        &self,
        lane: &Lane<S>,
        decision: &Decision<S::Model>,
        earlier: &Decisions,
        walk: &mut Walk<S>,
    ) -> Result<D::Reply, Fault> {
        walk.stage(Stage::Route, ());
        let again = Decisions { repeated: true, timings: None, ..earlier.clone() };
        let reply = lane.write(again.size_max(), |out| self.0.answer(&again, out));
        let reply = walk.stage(Stage::Respond, reply)?;
        lane.sink.repeated(&decision.meter, again.rows.len());
        Ok(reply)
    }
}

/// Says so where keys are forgotten before their window ends: retries with them are decided and counted anew.
fn tell_forgotten<S: Sink>(lane: &Lane<S>, decision: &Decision<S::Model>) {
    if let Some(keys) = decision.answers.forgotten(lane.now()) {
        tracing::warn!(
            decision = &*decision.name,
            keys,
            "idempotency keys were forgotten before their window's end, so many since the start; raise \
             idempotency.entries_max or shorten idempotency.window_s"
        );
    }
}

/// What went before a request: an answer under its key, or nothing.
enum Before {
    Nothing(Option<Turn>),
    Answered(Arc<Decisions>),
}

/// A first attempt that takes longer than this has been given up by its own caller.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Looks for the answer under the request's key. Where the first request with it is under way, waits for that.
async fn claim<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    ask: &RowsOptions,
    body: &Bytes,
    walk: &Walk<S>,
) -> Result<Before, Fault> {
    let Some(key) = &ask.idempotency_key else { return Ok(Before::Nothing(None)) };
    let digest = Digest::of(body);
    loop {
        let bounds = decision.program.idempotency;
        let mut first = match decision.answers.claim((walk.caller, key), digest, lane.now(), bounds) {
            Claim::First(turn) => return Ok(Before::Nothing(Some(turn))),
            Claim::Answered(earlier) => return Ok(Before::Answered(earlier)),
            Claim::Conflict => {
                let text =
                    "this idempotency key came before with another body; use a new key for a new request";
                return Err(Fault::new(FaultKind::KeyConflict, Stage::Route, text));
            }
            Claim::UnderWay(first) => first,
        };
        let left = walk.deadline.map_or(WAIT_MAX, |deadline| deadline.since(lane.now()));
        if tokio::time::timeout(left, first.changed()).await.is_err() {
            let text =
                "the first request with this idempotency key is still under way; ask again with the same key";
            return Err(Fault::new(FaultKind::DeadlinePassed, Stage::Route, text));
        }
    }
}
