//! Compiles the `decision` of a deployment's document: reads it, checks it against the loaded models, and opens its sources
//! and windows. Any error refuses the whole deployment.

use super::Decision;
use crate::idempotency::Answers;
use crate::row_record::preamble;
use crate::{Model, plan};
use flyball_core::snapshot::{self, SnapshotFaults};
use flyball_core::{DecidedBy, Digest, Meters};
use flyball_decision::{
    DecisionDocument, ExplainDocument, FeatureDocument, ModelFacts, Program, SourceDocument,
};
use flyball_features::{CacheDef, Features, Source, SourceDef, SourceKind, Window, WindowDef};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of a file that explains a model: enough for some thousand trees.
const EXPLAIN_BYTES_MAX: u64 = 256 << 20;

const UNSEEN: &str = "tensors sent to its models are to be recorded (`expose`), and this server has no journal; give it one by \
                      journal_folder, or take `expose` out";
const UNRECORDED: &str = "its decisions are to be recorded (`record`), and this server has no journal; give it one by \
                          journal_folder, or take `record` out";

/// The error for a candidate of another kind.
pub const CANDIDATE_KIND_MISMATCH: &str = "candidate: a decision can only be tried against a decision, and a model against a model; promote it without a share";

/// The surroundings that a decision is compiled for.
pub struct DecisionContext<'a, M> {
    pub base: &'a Path,
    pub features: &'a Features,
    pub meters: &'a dyn Meters<M>,
    /// The decision that serves under this name, if any.
    pub before: Option<&'a Decision<M>>,
    /// Whether decisions are recorded, or need not be because they are made offline.
    pub records: bool,
    /// The digest of the machine's fingerprint.
    pub runtime: Digest,
}

pub fn compile_decision<M>(
    deployment: &snapshot::Deployment,
    decision: &Json,
    versions: &[Arc<Model<M>>],
    around: &DecisionContext<'_, M>,
) -> Result<Decision<M>, String> {
    let document = with_candidate(deployment, decision)?;
    let program = program(&document, versions, around.base)?;
    if program.record.demanded && !around.records {
        return Err(UNRECORDED.to_owned());
    }
    if program.expose.is_some() && !around.records {
        return Err(UNSEEN.to_owned());
    }
    let (models, by) = models(&program, deployment, versions)?;
    let outcomes: Vec<Arc<str>> =
        document.policy.outcomes.iter().map(|outcome| outcome.as_str().into()).collect();
    let of_variant = |models: &[usize]| models.iter().map(|&model| by[model].clone()).collect();
    let decided_by: Vec<Arc<[DecidedBy]>> =
        program.variants.iter().map(|variant| of_variant(&variant.models)).collect();
    let sources = sources(&program, around.base, around.features)?;
    let variants: Vec<_> = decided_by.iter().map(|by| &**by).collect();
    let preamble = preamble(&deployment.name, &program, &variants, around.runtime);
    let windows = windows(&deployment.name, &document, &program, &sources, around.features)?;
    Ok(Decision {
        name: deployment.name.as_str().into(),
        meter: around.meters.decision(&deployment.name, &outcomes),
        deadline: deployment.slo.deadline_ms.map(|ms| Duration::from_millis(ms.into())),
        input: document.input,
        outcomes,
        models,
        by,
        decided_by,
        sources,
        windows,
        preamble,
        steps: plan::steps(&program),
        answers: around.before.map_or_else(Answers::new, |before| Arc::clone(&before.answers)),
        program,
    })
}

/// The document's decision, with its candidate as a further variant.
fn with_candidate(deployment: &snapshot::Deployment, decision: &Json) -> Result<DecisionDocument, String> {
    let read =
        |decision| DecisionDocument::read(decision).map_err(|fault| SnapshotFaults(vec![fault]).to_string());
    let document = read(decision)?;
    let Some(candidate) = &deployment.candidate else { return Ok(document) };
    let Some(theirs) = &candidate.decision else { return Err(CANDIDATE_KIND_MISMATCH.to_owned()) };
    let theirs = read(theirs).map_err(|why| format!("candidate: {why}"))?;
    let trying = document.with_candidate(&theirs, candidate.share, candidate.shadow);
    trying.map_err(|faults| format!("candidate: {faults}"))
}

/// Checks the document against the loaded models.
fn program<M>(
    document: &DecisionDocument,
    versions: &[Arc<Model<M>>],
    base: &Path,
) -> Result<Program, String> {
    let files = document.models.iter().map(|model| match &model.explain {
        Some(ExplainDocument::Trees { path, digest }) => explanation(&base.join(path), digest)
            .map(|bytes| Some((model.version.as_str(), bytes)))
            .map_err(|why| format!("models.{}.explain.path is '{path}': {why}", model.name)),
        _ => Ok(None),
    });
    let files: Vec<_> = files.collect::<Result<_, String>>()?;
    let file = |version: &str| {
        files.iter().flatten().find(|(of, _)| *of == version).map(|(_, bytes)| bytes.as_slice())
    };
    let facts: Vec<_> = versions
        .iter()
        .map(|model| ModelFacts {
            version: &model.version,
            inputs: &model.signature.inputs,
            outputs: &model.signature.outputs,
            explain: file(&model.version),
        })
        .collect();
    Program::compile(document, &facts).map_err(|faults| faults.to_string())
}

/// The file that explains a model, verified by digest.
fn explanation(path: &Path, digest: &Digest) -> Result<Vec<u8>, String> {
    let length = std::fs::metadata(path).map_err(|error| format!("it cannot be read: {error}"))?.len();
    if length > EXPLAIN_BYTES_MAX {
        return Err(format!("it has {length} bytes; allowed are {EXPLAIN_BYTES_MAX}"));
    }
    let bytes = std::fs::read(path).map_err(|error| format!("it cannot be read: {error}"))?;
    match Digest::of(&bytes) {
        is if is == *digest => Ok(bytes),
        is => Err(format!("its digest is {is}, not {digest}; compile the decision again")),
    }
}

type Models<M> = (Vec<Arc<Model<M>>>, Vec<DecidedBy>);

fn models<M>(
    program: &Program,
    deployment: &snapshot::Deployment,
    versions: &[Arc<Model<M>>],
) -> Result<Models<M>, String> {
    let find = |plan: &flyball_decision::ModelPlan| {
        let model = versions.iter().find(|model| model.version == plan.version)?;
        let tried = deployment.candidate.iter().flat_map(|candidate| &candidate.versions);
        let mut listed = deployment.versions.iter().chain(tried);
        let version = listed.find(|version| *version.version == *plan.version)?;
        let (name, digest) = (Arc::clone(&plan.name), version.artifact.digest);
        Some((Arc::clone(model), DecidedBy { model: name, version: Arc::clone(&plan.version), digest }))
    };
    let found = program.models.iter().map(|plan| {
        find(plan).ok_or_else(|| format!("models.{}: version '{}' is not loaded", plan.name, plan.version))
    });
    Ok(found.collect::<Result<Vec<_>, String>>()?.into_iter().unzip())
}

pub(super) fn sources(program: &Program, base: &Path, features: &Features) -> Result<Vec<Source>, String> {
    let open = |(name, document): &(Arc<str>, SourceDocument)| {
        let opened = source(document, base).and_then(|def| features.open(def));
        opened.map_err(|why| format!("sources.{name}: {why}"))
    };
    program.sources.iter().map(open).collect()
}

fn source(document: &SourceDocument, base: &Path) -> Result<SourceDef, String> {
    let (kind, set, cache) = match document {
        SourceDocument::Redis { url, url_env, set, timeout_ms, cache } => {
            let url = match (url, url_env) {
                (Some(url), None) => url.clone(),
                (None, Some(variable)) => std::env::var(variable).map_err(|_| {
                    format!("the environment has no variable {variable}; set it to the address")
                })?,
                _ => return Err("give either url or url_env".to_owned()),
            };
            (SourceKind::Redis { url, timeout: Duration::from_millis(*timeout_ms) }, set, cache)
        }
        SourceDocument::Store { path, set, cache } => {
            (SourceKind::Store { path: base.join(path) }, set, cache)
        }
    };
    let cache = CacheDef {
        ttl: Duration::from_millis(cache.ttl_ms),
        absent_ttl: Duration::from_millis(cache.absent_ttl_ms),
        entries_max: usize::try_from(cache.entries_max).unwrap_or(usize::MAX),
    };
    Ok(SourceDef { kind, set: set.clone(), cache })
}

/// The window of each feature; none for features that are not windows.
pub(super) fn windows(
    decision: &str,
    document: &DecisionDocument,
    program: &Program,
    sources: &[Source],
    features: &Features,
) -> Result<Vec<Option<Window>>, String> {
    let open = |feature: &FeatureDocument| {
        let Some(window) = &feature.window else { return Ok(None) };
        let place = |name: &String| program.sources.iter().position(|(of, _)| **of == **name);
        let source = window.source.as_ref().and_then(place).and_then(|place| sources.get(place));
        let (op, of) = (window.op, window.of.as_deref().unwrap_or(""));
        // Names everything that selects the counted events: a changed feature starts from zero.
        let name = format!("{decision}/{}/{op:?}({of}) by {}", feature.name, window.by);
        let def = WindowDef { name, op, last_ms: window.last_ms, source: source.cloned() };
        let opened = features.window(def).map_err(|why| format!("features.{}.window: {why}", feature.name));
        opened.map(Some)
    };
    document.features.iter().map(open).collect()
}
