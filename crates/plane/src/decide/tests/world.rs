//! A lane with one decision, whose models multiply and can be made to fail.

use crate::decision::{DecisionContext, compile_decision};
use crate::request::{Arrival, serve};
use crate::testing::{Made, Runs, Unmeasured, column, lanes_by};
use crate::walk::Walk;
use crate::{DecisionRequest, Deployment, Lane, LaneInbox, Model, PlaneServices, Provenance, Routes};
use bytes::{Bytes, BytesMut};
use flyball_core::snapshot::{self, Document};
use flyball_core::{
    Decided, DecisionDialect, Decisions, Digest, Fault, Protocol, RequestLimits, RowOutcome, RowRoute,
    RowSink, RowsOptions, Scalar, Tensor, TensorData,
};
use flyball_engine::{Run, RunError, StopRun};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{JoinHandle, LocalSet};

/// The behaviour of a model from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mood {
    Well,
    Fails,
    Panics,
    /// Fails once, then works again.
    Stumbles,
}

/// A test's handle of a model.
#[derive(Clone, Default)]
pub(super) struct Puppet {
    mood: Arc<AtomicU8>,
    /// An input value on which it fails.
    bad: Arc<Mutex<Option<u8>>>,
    /// The input of each run.
    pub(super) given: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Puppet {
    pub(super) fn is(&self, mood: Mood) {
        self.mood.store(mood as u8, Relaxed);
    }

    pub(super) fn fails_on(&self, value: u8) {
        *self.bad.lock().unwrap() = Some(value);
    }

    pub(super) fn runs(&self) -> usize {
        self.given.lock().unwrap().len()
    }
}

/// Multiplies every byte; each run takes 5 µs of the lane's clock.
struct Times {
    factor: u8,
    puppet: Puppet,
    clock: flyball_core::Clock,
    column: Vec<u8>,
}

impl Run for Times {
    fn clear(&mut self) {
        self.column.clear();
    }

    fn add(&mut self, inputs: &[Tensor]) {
        if let TensorData::Fixed(bytes) = &inputs[0].data {
            self.column.extend_from_slice(bytes);
        }
    }

    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        self.clock.advance(Duration::from_micros(5));
        self.puppet.given.lock().unwrap().push(self.column.clone());
        let mood = self.puppet.mood.load(Relaxed);
        assert!(mood != Mood::Panics as u8, "the test's own panic");
        if mood == Mood::Stumbles as u8 {
            self.puppet.is(Mood::Well);
        }
        let bad = self.puppet.bad.lock().unwrap().is_some_and(|bad| self.column.contains(&bad));
        if bad || mood == Mood::Fails as u8 || mood == Mood::Stumbles as u8 {
            return Err(RunError::Failed("as the test requested".into()));
        }
        outputs.clear();
        outputs
            .push(column(&self.column.iter().map(|byte| byte.wrapping_mul(self.factor)).collect::<Vec<_>>()));
        Ok(())
    }

    fn stopper(&self) -> StopRun {
        Arc::new(|| {})
    }
}

/// A request for decisions, which returns the answer unchanged.
pub(super) struct Asked {
    rows: Vec<Json>,
    ask: RowsOptions,
}

impl DecisionDialect for Asked {
    type Reply = Result<Decisions, Fault>;

    fn decision(&self) -> &str {
        "d"
    }

    fn keyed(&self) -> bool {
        self.ask.idempotency_key.is_some()
    }

    fn rows(
        &self,
        _body: &Bytes,
        _limits: &RequestLimits,
        take: &mut dyn RowSink,
    ) -> Result<RowsOptions, Fault> {
        for (place, row) in self.rows.iter().enumerate() {
            let id = place.to_string();
            take.row((!self.ask.single).then_some(&id));
            for (name, value) in row.as_object().unwrap() {
                match (name.as_str(), value.as_str()) {
                    ("as", Some("rules")) => take.route(RowRoute::Rules),
                    ("as", Some(variant)) => take.route(RowRoute::Variant(variant)),
                    _ => take.field(name, scalar(value)),
                }
            }
        }
        Ok(self.ask.clone())
    }

    fn answer(&self, decisions: &Decisions, _out: &mut BytesMut) -> Result<Self::Reply, Fault> {
        Ok(Ok(decisions.clone()))
    }

    fn refuse(&self, fault: &Fault) -> Self::Reply {
        Err(fault.clone())
    }
}

fn scalar(value: &Json) -> Scalar<'_> {
    match value {
        Json::Null => Scalar::Null,
        Json::Bool(value) => Scalar::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Scalar::Int(value),
            None => Scalar::Float(number.as_f64().unwrap()),
        },
        Json::String(text) => Scalar::Text(text),
        Json::Array(_) => Scalar::Other("a list"),
        Json::Object(_) => Scalar::Other("an object"),
    }
}

/// One row and its options.
pub(super) fn one(row: Json) -> Asked {
    Asked { rows: vec![row], ask: RowsOptions { single: true, ..RowsOptions::default() } }
}

pub(super) fn many(rows: Vec<Json>) -> Asked {
    Asked { rows, ask: RowsOptions::default() }
}

impl Asked {
    pub(super) fn with(mut self, edit: impl FnOnce(&mut RowsOptions)) -> Asked {
        edit(&mut self.ask);
        self
    }

    pub(super) fn keyed(self, key: &str) -> Asked {
        let key = key.into();
        self.with(|ask| ask.idempotency_key = Some(key))
    }
}

pub(super) struct World {
    pub(super) lane: Rc<Lane<Runs>>,
    inbox: std::cell::RefCell<Option<LaneInbox<()>>>,
    _others: Vec<(Rc<Lane<Runs>>, LaneInbox<()>)>,
    pub(super) puppets: Vec<Puppet>,
}

/// A decision over `x` (a whole number), the key `k` and one model: below 10 it passes, below 20 it is reviewed.
pub(super) fn document() -> Json {
    json!({
        "owner": "o", "purpose": "p",
        "input": [
            {"name": "x", "type": "int", "min": 0, "max": 255},
            {"name": "k", "type": "string", "required": false, "key": true},
        ],
        "models": [model("a", "1")],
        "variants": [variant("champion", &["a"])],
        "policy": {
            "bands": [{"name": "pass", "to": 10}, {"name": "review", "from": 10, "to": 20}, {"name": "reject", "from": 20}],
            "outcomes": ["pass", "review", "reject"],
            "rules": [{"when": "x == 7", "then": "reject", "reason": "R7"}],
        },
    })
}

pub(super) fn model(name: &str, version: &str) -> Json {
    json!({"name": name, "version": version, "inputs": [{"tensor": "x", "columns": ["x"]}], "score": {"output": "x"}})
}

pub(super) fn variant(name: &str, models: &[&str]) -> Json {
    let weights: serde_json::Map<_, _> =
        models.iter().map(|model| ((*model).to_owned(), json!(1.0))).collect();
    json!({"name": name, "models": models, "weights": weights})
}

impl World {
    /// The factors are those of versions 1, 2, and so on.
    pub(super) fn new(factors: &[u8], document: &Json) -> World {
        World::made(Made::usual(), factors, document)
    }

    pub(super) fn made(made: Made, factors: &[u8], document: &Json) -> World {
        World::by(|_means| {}, made, factors, document)
    }

    pub(super) fn by(
        edit: impl FnOnce(&mut PlaneServices),
        made: Made,
        factors: &[u8],
        document: &Json,
    ) -> World {
        let mut others = lanes_by(1, edit);
        let (lane, inbox) = others.remove(0);
        let puppets: Vec<_> = factors.iter().map(|_| Puppet::default()).collect();
        let clock = lane.plane.clock.clone();
        let versions = factors.iter().zip(&puppets).enumerate().map(|(place, (factor, puppet))| {
            let (factor, clock) = (*factor, clock.clone());
            made.version(&(place + 1).to_string(), move |_| {
                Box::new(Times { factor, puppet: puppet.clone(), clock: clock.clone(), column: Vec::new() })
            })
        });
        let versions = versions.collect();
        let world = World { lane, inbox: Some(inbox).into(), _others: others, puppets };
        world.serve(versions, document, None).unwrap();
        world
    }

    /// If there is a candidate, all but the first version belong to it.
    fn serve(
        &self,
        versions: Vec<Arc<Model<()>>>,
        document: &Json,
        candidate: Option<Json>,
    ) -> Result<(), String> {
        let artifact = json!({"path": "m.onnx", "digest": format!("sha256:{}", "0".repeat(64))});
        let mut listed: Vec<_> =
            versions.iter().map(|model| json!({"version": &*model.version, "artifact": artifact})).collect();
        let candidate = candidate.map(|mut candidate| {
            candidate["versions"] = listed.split_off(1).into();
            candidate
        });
        let deployment = json!({
            "format": 1, "name": "d", "route": {"version": "1"}, "versions": listed, "decision": document,
            "candidate": candidate,
        });
        let deployment = snapshot::Deployment::read(deployment.to_string().as_bytes()).unwrap();
        let before = self.lane.plane.routes.load();
        let before = before.get("d").and_then(|deployment| deployment.decision.as_deref());
        let around = DecisionContext {
            base: Path::new("."),
            features: &self.lane.plane.services.features,
            meters: &Unmeasured,
            before,
            records: self.lane.plane.services.recorder.is_some() || self.lane.plane.services.offline,
            runtime: Digest::of(b"runtime"),
        };
        let decision = compile_decision(&deployment, document, &versions, &around)?;
        let mut routes = Routes::default();
        routes.serve(Arc::new(Deployment {
            name: "d".into(),
            digest: Digest::of(b""),
            route: "1".into(),
            versions,
            trial: None,
            candidate: None,
            decision: Some(Arc::new(decision)),
            provenance: Provenance::Unsigned,
            origin: None,
            generation: AtomicU64::new(1),
        }));
        self.lane.plane.routes.store(Arc::new(routes));
        Ok(())
    }

    /// The same models under another document.
    pub(super) fn reload(&self, document: &Json) -> Result<(), String> {
        let versions = self.lane.plane.routes.load().get("d").unwrap().versions.clone();
        self.serve(versions, document, None)
    }

    /// The first model under a document, and the others as those of a candidate: {"share", "shadow", "decision"}.
    pub(super) fn tries(&self, document: &Json, candidate: Json) -> Result<(), String> {
        let versions = self.lane.plane.routes.load().get("d").unwrap().versions.clone();
        self.serve(versions, document, Some(candidate))
    }

    /// Makes the model panic until its breaker opens.
    pub(super) fn break_champion(&self) {
        self.puppets[0].is(Mood::Panics);
        for _ in 0..8 {
            assert!(self.ask(one(json!({"x": 1}))).is_err());
        }
        self.puppets[0].is(Mood::Well);
    }

    pub(super) fn ask(&self, asked: Asked) -> Result<Decisions, Fault> {
        self.ask_all(vec![asked]).remove(0)
    }

    /// Sends a request, and polls the lane until `beside` returns true.
    pub(super) fn ask_while(
        &self,
        asked: Asked,
        beside: impl Fn(&Lane<Runs>) -> bool,
    ) -> Result<Decisions, Fault> {
        self.beside(vec![asked], async {
            while !beside(&self.lane) {
                tokio::task::yield_now().await;
            }
        })
        .remove(0)
    }

    pub(super) fn ask_all(&self, asked: Vec<Asked>) -> Vec<Result<Decisions, Fault>> {
        self.beside(asked, async {})
    }

    fn beside(&self, asked: Vec<Asked>, beside: impl Future<Output = ()>) -> Vec<Result<Decisions, Fault>> {
        let bodies = asked.into_iter().map(|asked| {
            let body = Bytes::from(asked.rows.iter().map(Json::to_string).collect::<String>());
            (asked, body)
        });
        self.walk_all(bodies.collect(), beside)
    }

    /// Sends all requests at once on the lane. Shadows are done when it returns.
    fn walk_all(
        &self,
        asked: Vec<(Asked, Bytes)>,
        beside: impl Future<Output = ()>,
    ) -> Vec<Result<Decisions, Fault>> {
        let answers = async {
            let walks = asked.into_iter().map(|(asked, body)| self.walk(asked, body));
            let mut answers = Vec::new();
            for walk in walks.collect::<Vec<_>>() {
                answers.push(walk.await.unwrap());
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            answers
        };
        self.on_lane(answers, beside)
    }

    /// Sends a request, and hangs up as soon as `when` returns true.
    pub(super) fn hang_up(&self, asked: Asked, when: impl Fn() -> bool) {
        let hung_up = async {
            let walk = self.walk(asked, Bytes::from_static(b"hung up"));
            while !when() {
                tokio::task::yield_now().await;
            }
            walk.abort();
            assert!(walk.await.unwrap_err().is_cancelled());
        };
        self.on_lane(hung_up, async {});
    }

    fn walk(&self, asked: Asked, body: Bytes) -> JoinHandle<Result<Decisions, Fault>> {
        let lane = Rc::clone(&self.lane);
        tokio::task::spawn_local(async move {
            let walk = Walk::begin(&lane, Protocol::Http, Duration::ZERO);
            let body = async { Ok(body) };
            serve(&lane, &DecisionRequest(&asked), Arrival { walk, body, deadline: None }).await
        })
    }

    fn on_lane<T>(&self, work: impl Future<Output = T>, beside: impl Future<Output = ()>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut inbox = self.inbox.borrow_mut().take().expect("one at a time");
        LocalSet::new().block_on(&runtime, async {
            let batches = async {
                tokio::join!(
                    crate::batch::walk(&self.lane, &mut inbox),
                    crate::shadow_walk::walk(&self.lane),
                    beside
                )
            };
            let done = tokio::select! { done = work => done, _ = batches => unreachable!() };
            self.inbox.replace(Some(inbox));
            done
        })
    }
}

/// The decision of one row.
pub(super) fn decided(answer: &Result<Decisions, Fault>, row: usize) -> Decided {
    match &answer.as_ref().unwrap().rows[row].outcome {
        RowOutcome::Decided(decided) => decided.clone(),
        other => panic!("{other:?}"),
    }
}
