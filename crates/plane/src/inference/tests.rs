//! Requests for a model with a candidate: the version that each is counted under, however it ends.

use super::*;
use crate::Trial;
use crate::request::{Arrival, serve};
use crate::testing::{AddOne, Made, Runs, column, lanes};
use crate::{Deployment, Routes};
use bytes::BytesMut;
use flyball_core::{Digest, FaultKind, InferRequest, Outcome, Priority, Protocol, RequestLimits, Tensor};
use flyball_engine::{Run, RunError, StopRun};
use std::borrow::Cow;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;

const ROUNDS: usize = 200;

/// Requests the model `m` without a version.
struct Unversioned;

impl Dialect for Unversioned {
    type Reply = Result<String, Fault>;

    fn model(&self, _body: &Bytes) -> Option<Cow<'_, ModelRef>> {
        Some(Cow::Owned(ModelRef { name: "m".into(), version: None }))
    }

    fn mentions(&self, _body: &Bytes, _parameter: &str) -> bool {
        false
    }

    fn parse(
        &self,
        body: &Bytes,
        _limits: &RequestLimits,
        _spare: Vec<Tensor>,
    ) -> Result<InferRequest, Fault> {
        if body.is_empty() {
            return Err(Fault::malformed("the test's own"));
        }
        Ok(InferRequest {
            model: ModelRef { name: "m".into(), version: None },
            id: None,
            inputs: vec![column(body)],
            whole: None,
            outputs: Default::default(),
            binary_outputs: false,
            timeout: None,
            priority: Priority::Normal,
            input_spans: Vec::new(),
        })
    }

    fn size_max(&self, answer: &Answer<'_>) -> usize {
        answer.version.len()
    }

    fn answer(&self, answer: &Answer<'_>, _out: &mut BytesMut) -> Result<Self::Reply, Fault> {
        Ok(Ok(answer.version.to_owned()))
    }

    fn refuse(&self, fault: &Fault) -> Self::Reply {
        Err(fault.clone())
    }
}

/// A candidate that fails on every input.
struct Fails;

impl Run for Fails {
    fn clear(&mut self) {}

    fn add(&mut self, _inputs: &[Tensor]) {}

    fn run(&mut self, _outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        Err(RunError::Failed("the test's own".into()))
    }

    fn stopper(&self) -> StopRun {
        Arc::new(|| {})
    }
}

/// The answers to `ROUNDS` requests with this body, and the version and outcome that each was counted under.
fn asked(body: &'static [u8]) -> Vec<(Result<String, Fault>, Option<&'static str>, Outcome)> {
    asked_by(|| ready(Ok(Bytes::from_static(body))))
}

fn asked_by(
    body: impl Fn() -> Ready<Result<Bytes, Fault>>,
) -> Vec<(Result<String, Fault>, Option<&'static str>, Outcome)> {
    let mut lanes = lanes(1);
    let (lane, inbox) = lanes.remove(0);
    let champion = Made::usual().version("1", |_| Box::new(AddOne::default()));
    let candidate = Made::usual().version("2", |_| Box::new(Fails));
    deploy(&lane, &champion, &candidate);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let replies = LocalSet::new().block_on(&runtime, async {
        let running = Rc::clone(&lane);
        let running = tokio::task::spawn_local(async move { running.run(inbox).await });
        let mut replies = Vec::new();
        for _ in 0..ROUNDS {
            let walk = Walk::begin(&lane, Protocol::Http, Duration::ZERO);
            let arrival = Arrival { walk, body: body(), deadline: None };
            replies.push(serve(&lane, &Inference(&Unversioned), arrival).await);
        }
        running.abort();
        replies
    });
    let seen = lane.sink.1.borrow();
    let versions = [(Arc::as_ptr(&champion.meter), "1"), (Arc::as_ptr(&candidate.meter), "2")];
    let counted = seen.walks.iter().zip(&seen.metered).map(|(walk, meter)| {
        let version = versions.iter().find(|(of, _)| Some(*of) == *meter);
        (version.map(|(_, version)| *version), walk.outcome)
    });
    replies.into_iter().zip(counted).map(|(reply, (version, outcome))| (reply, version, outcome)).collect()
}

fn deploy(lane: &Lane<Runs>, champion: &Arc<Model<()>>, candidate: &Arc<Model<()>>) {
    let deployment = Made::usual().deployment("m", Digest::of(b"m"));
    let trial = Some(Trial { model: Arc::clone(candidate), share: 0.5 });
    let versions = vec![Arc::clone(champion), Arc::clone(candidate)];
    let mut routes = Routes::default();
    routes.serve(Arc::new(Deployment { versions, trial, ..deployment }));
    lane.plane.routes.store(Arc::new(routes));
}

#[test]
fn a_fault_is_counted_under_the_version_that_was_drawn() {
    let asked = asked(&[1]);
    for (reply, version, outcome) in &asked {
        match reply {
            Ok(by) => assert_eq!((by.as_str(), *version, *outcome), ("1", Some("1"), Outcome::Answered)),
            Err(fault) => {
                assert_eq!(fault.kind, FaultKind::RunFailed);
                assert_eq!((*version, *outcome), (Some("2"), FaultKind::RunFailed.outcome()));
            }
        }
    }
    let failed = asked.iter().filter(|(reply, ..)| reply.is_err()).count();
    assert!((ROUNDS / 4..ROUNDS * 3 / 4).contains(&failed), "{failed} of {ROUNDS} drew the candidate");
}

#[test]
fn a_request_that_cannot_be_parsed_is_counted_once_under_one_version() {
    let asked = asked(&[]);
    assert!(asked.iter().all(|(reply, version, _)| reply.is_err() && version.is_some()));
}

#[test]
fn a_request_whose_body_never_came_is_counted_under_what_its_head_names() {
    let asked = asked_by(|| ready(Err(Fault::malformed("the body ended early"))));
    assert!(asked.iter().all(|(reply, version, _)| reply.is_err() && version.is_some()));
}
