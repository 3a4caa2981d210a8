//! Parses paths. Segments are percent-decoded one by one, so that a name may contain a slash.

use bytes::BytesMut;
use bytestring::ByteString;
use flyball_core::ModelRef;
use http::Method;
use percent_encoding::percent_decode_str;
use smallvec::SmallVec;
use std::cell::RefCell;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Root,
    Server,
    Live,
    Ready,
    Metrics,
    TritonMetrics,
    OpenApi,
    Models,
    Model(ModelRef),
    ModelReady(ModelRef),
    Infer(ModelRef),
    Decisions,
    Decision(ByteString),
    Deployments,
    Journal(JournalTarget),
    Extension(Extension),
}

/// Annotations, and the journal's state and seals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalTarget {
    Outcomes,
    Overrides,
    Erasures,
    Holds,
    Hold(ByteString),
    State,
    Seals,
}

/// A request of one of Triton's extensions. Without a region: all regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Statistics(Option<ModelRef>),
    Configuration(ModelRef),
    Index,
    Load(ByteString),
    Unload(ByteString),
    Memory { cuda: bool, region: Option<ByteString>, verb: MemoryVerb },
    Trace,
    Logging,
}

impl Extension {
    /// Whether it changes the server's state.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Extension::Load(_) | Extension::Unload(_) => true,
            Extension::Memory { verb, .. } => *verb != MemoryVerb::Status,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryVerb {
    Status,
    Register,
    Unregister,
}

impl Target {
    /// Whether its handler reads a body.
    pub(crate) fn takes_a_body(&self) -> bool {
        matches!(self, Target::Infer(_) | Target::Decision(_) | Target::Extension(_) | Target::Journal(_))
    }

    pub(crate) fn allows(&self, method: &Method) -> bool {
        self.allowed().split(", ").any(|allowed| method.as_str() == allowed)
    }

    /// The value of the header `Allow`.
    pub(crate) fn allowed(&self) -> &'static str {
        match self {
            Target::Infer(_) => "POST",
            Target::Journal(
                JournalTarget::Outcomes
                | JournalTarget::Overrides
                | JournalTarget::Erasures
                | JournalTarget::Seals,
            ) => "POST",
            Target::Journal(JournalTarget::Hold(_)) => "DELETE",
            Target::Journal(JournalTarget::Holds) | Target::Decision(_) => "GET, HEAD, POST",
            Target::Extension(extension) => match extension {
                Extension::Index | Extension::Load(_) | Extension::Unload(_) => "POST",
                Extension::Memory { verb: MemoryVerb::Register | MemoryVerb::Unregister, .. } => "POST",
                Extension::Trace | Extension::Logging => "GET, HEAD, POST",
                _ => "GET, HEAD",
            },
            _ => "GET, HEAD",
        }
    }
}

pub(crate) fn target(path: &str) -> Option<Target> {
    if path == "/" {
        return Some(Target::Root);
    }
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = path.split('/');
    match segments.next()? {
        "metrics" => match (segments.next(), segments.next()) {
            (None, _) => Some(Target::Metrics),
            (Some("triton"), None) => Some(Target::TritonMetrics),
            _ => None,
        },
        "openapi.json" => segments.next().is_none().then_some(Target::OpenApi),
        "v1" => match (segments.next()?, segments.next(), segments.next()) {
            ("decisions", None, None) => Some(Target::Decisions),
            ("decisions", Some(name), None) => Some(Target::Decision(decoded(name)?)),
            ("deployments", None, None) => Some(Target::Deployments),
            ("outcomes", None, None) => Some(Target::Journal(JournalTarget::Outcomes)),
            ("overrides", None, None) => Some(Target::Journal(JournalTarget::Overrides)),
            ("erasures", None, None) => Some(Target::Journal(JournalTarget::Erasures)),
            ("holds", None, None) => Some(Target::Journal(JournalTarget::Holds)),
            ("holds", Some(name), None) => Some(Target::Journal(JournalTarget::Hold(decoded(name)?))),
            ("journal", None, None) => Some(Target::Journal(JournalTarget::State)),
            ("journal", Some("seals"), None) => Some(Target::Journal(JournalTarget::Seals)),
            _ => None,
        },
        "v2" => match segments.next() {
            None => Some(Target::Server),
            Some("health") => match (segments.next()?, segments.next()) {
                ("live", None) => Some(Target::Live),
                ("ready", None) => Some(Target::Ready),
                _ => None,
            },
            Some("models") => model(segments),
            Some(other) => extension(other, segments).map(Target::Extension),
        },
        _ => None,
    }
}

fn model<'p>(mut segments: impl Iterator<Item = &'p str>) -> Option<Target> {
    let Some(name) = segments.next() else { return Some(Target::Models) };
    let mut next = segments.next();
    // Reserved, as in Triton: a model with this name has no metadata at this path.
    if (name, next) == ("stats", None) {
        return Some(Target::Extension(Extension::Statistics(None)));
    }
    let name = decoded(name)?;
    let mut version = None;
    if next == Some("versions") {
        version = Some(decoded(segments.next()?)?);
        next = segments.next();
    }
    let model = ModelRef { name, version };
    match (next, segments.next(), segments.next()) {
        (None, None, None) => Some(Target::Model(model)),
        (Some("ready"), None, None) => Some(Target::ModelReady(model)),
        (Some("infer"), None, None) => Some(Target::Infer(model)),
        (Some("stats"), None, None) => Some(Target::Extension(Extension::Statistics(Some(model)))),
        (Some("config"), None, None) => Some(Target::Extension(Extension::Configuration(model))),
        (Some("trace"), Some("setting"), None) => Some(Target::Extension(Extension::Trace)),
        _ => None,
    }
}

fn extension<'p>(what: &str, segments: impl Iterator<Item = &'p str>) -> Option<Extension> {
    // None of these paths has more than four further segments.
    let rest: SmallVec<[&str; 5]> = segments.take(5).collect();
    match (what, rest.as_slice()) {
        // There is one repository, under any name.
        ("repository", ["index"] | [_, "index"]) => Some(Extension::Index),
        ("repository", ["models", name, "load"] | [_, "models", name, "load"]) => {
            Some(Extension::Load(decoded(name)?))
        }
        ("repository", ["models", name, "unload"] | [_, "models", name, "unload"]) => {
            Some(Extension::Unload(decoded(name)?))
        }
        ("systemsharedmemory", rest) => memory(false, rest),
        ("cudasharedmemory", rest) => memory(true, rest),
        ("trace", ["setting"]) => Some(Extension::Trace),
        ("logging", []) => Some(Extension::Logging),
        _ => None,
    }
}

fn memory(cuda: bool, rest: &[&str]) -> Option<Extension> {
    let (region, verb) = match rest {
        [verb] => (None, *verb),
        ["region", region, verb] => (Some(decoded(region)?), *verb),
        _ => return None,
    };
    let verb = match verb {
        "status" => MemoryVerb::Status,
        // Registering needs a name.
        "register" if region.is_some() => MemoryVerb::Register,
        "unregister" => MemoryVerb::Unregister,
        _ => return None,
    };
    Some(Extension::Memory { cuda, region, verb })
}

fn decoded(segment: &str) -> Option<ByteString> {
    if segment.is_empty() {
        return None;
    }
    shared(&percent_decode_str(segment).decode_utf8().ok()?)
}

/// A generous size for the names that a lane uses at once.
const NAMES_BYTES: usize = 4 << 10;

thread_local! {
    /// A lane's names are slices of one buffer, which is reused once they are dropped: neither a name nor its copy allocates.
    static NAMES: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

fn shared(name: &str) -> Option<ByteString> {
    NAMES.with_borrow_mut(|names| {
        if names.capacity() < name.len() {
            names.reserve(name.len().max(NAMES_BYTES));
        }
        names.extend_from_slice(name.as_bytes());
        ByteString::try_from(names.split().freeze()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, version: Option<&str>) -> ModelRef {
        ModelRef { name: name.into(), version: version.map(Into::into) }
    }

    #[test]
    fn every_path_of_the_surface_is_found_and_no_other() {
        let cases = [
            ("/v2", Some(Target::Server)),
            ("/v2/", Some(Target::Server)),
            ("/v2/health/live", Some(Target::Live)),
            ("/v2/health/ready", Some(Target::Ready)),
            ("/metrics", Some(Target::Metrics)),
            ("/metrics/triton", Some(Target::TritonMetrics)),
            ("/metrics/triton/x", None),
            ("/v2/models/m", Some(Target::Model(model("m", None)))),
            ("/v2/models/m/versions/3", Some(Target::Model(model("m", Some("3"))))),
            ("/v2/models/m/ready", Some(Target::ModelReady(model("m", None)))),
            ("/v2/models/m/versions/3/ready", Some(Target::ModelReady(model("m", Some("3"))))),
            ("/v2/models/a%2Fb/infer", Some(Target::Infer(model("a/b", None)))),
            ("/v2/models/m/versions/3/infer", Some(Target::Infer(model("m", Some("3"))))),
            ("/v1/decisions", Some(Target::Decisions)),
            ("/v1/decisions/", Some(Target::Decisions)),
            ("/v1/decisions/card-fraud", Some(Target::Decision("card-fraud".into()))),
            ("/v1/decisions/a%2Fb%20c/", Some(Target::Decision("a/b c".into()))),
            ("/v1/outcomes", Some(Target::Journal(JournalTarget::Outcomes))),
            ("/v1/overrides/", Some(Target::Journal(JournalTarget::Overrides))),
            ("/v1/erasures", Some(Target::Journal(JournalTarget::Erasures))),
            ("/v1/holds", Some(Target::Journal(JournalTarget::Holds))),
            ("/v1/holds/case%207", Some(Target::Journal(JournalTarget::Hold("case 7".into())))),
            ("/v1/journal", Some(Target::Journal(JournalTarget::State))),
            ("/v1/outcomes/x", None),
            ("/v1/journal/seals", Some(Target::Journal(JournalTarget::Seals))),
            ("/v1/journal/x", None),
            ("/v1/journal/seals/x", None),
            ("/v1", None),
            ("/v1/decisions//", None),
            ("/v1/decisions/%ff", None),
            ("/v1/decisions/d/more", None),
            ("/v1/decision/d", None),
            ("/", Some(Target::Root)),
            ("//", None),
            ("/v3", None),
            ("/v2/models", Some(Target::Models)),
            ("/v2/models/", Some(Target::Models)),
            ("/v2/models//infer", None),
            ("/v2/models/m/versions", None),
            ("/v2/models/m/infer/more", None),
            ("/v2/models/%ff/infer", None),
            ("/metrics/x", None),
        ];
        for (path, wanted) in cases {
            assert_eq!(target(path), wanted, "{path}");
        }
    }

    #[test]
    fn every_path_of_the_extensions_is_found_and_no_other() {
        let memory = |cuda, region: Option<&str>, verb| {
            Some(Extension::Memory { cuda, region: region.map(Into::into), verb })
        };
        let cases = [
            ("/v2/models/stats", Some(Extension::Statistics(None))),
            ("/v2/models/m/stats", Some(Extension::Statistics(Some(model("m", None))))),
            ("/v2/models/m/versions/3/stats", Some(Extension::Statistics(Some(model("m", Some("3")))))),
            ("/v2/models/m/config", Some(Extension::Configuration(model("m", None)))),
            ("/v2/models/m/versions/3/config", Some(Extension::Configuration(model("m", Some("3"))))),
            ("/v2/repository/index", Some(Extension::Index)),
            ("/v2/repository/ours/index", Some(Extension::Index)),
            ("/v2/repository/models/a%2Fb/load", Some(Extension::Load("a/b".into()))),
            ("/v2/repository/models/m/unload", Some(Extension::Unload("m".into()))),
            ("/v2/repository/ours/models/m/unload", Some(Extension::Unload("m".into()))),
            ("/v2/systemsharedmemory/status", memory(false, None, MemoryVerb::Status)),
            ("/v2/systemsharedmemory/region/r/status", memory(false, Some("r"), MemoryVerb::Status)),
            ("/v2/systemsharedmemory/region/r/register", memory(false, Some("r"), MemoryVerb::Register)),
            ("/v2/systemsharedmemory/region/r/unregister", memory(false, Some("r"), MemoryVerb::Unregister)),
            ("/v2/systemsharedmemory/unregister", memory(false, None, MemoryVerb::Unregister)),
            ("/v2/cudasharedmemory/status", memory(true, None, MemoryVerb::Status)),
            ("/v2/trace/setting", Some(Extension::Trace)),
            ("/v2/models/m/trace/setting", Some(Extension::Trace)),
            ("/v2/logging", Some(Extension::Logging)),
            ("/v2/systemsharedmemory/register", None),
            ("/v2/systemsharedmemory/region//status", None),
            ("/v2/repository", None),
            ("/v2/repository/models/m", None),
            ("/v2/repository/models/m/load/more", None),
            ("/v2/trace", None),
            ("/v2/logging/more", None),
            ("/v2/models/m/stats/more", None),
            ("/v2/models/m/trace/setting/more", None),
        ];
        for (path, wanted) in cases {
            assert_eq!(target(path), wanted.map(Target::Extension), "{path}");
        }
    }

    #[test]
    fn a_model_that_is_called_stats_can_be_called() {
        let stats = || model("stats", None);
        assert_eq!(target("/v2/models/stats/infer"), Some(Target::Infer(stats())));
        assert_eq!(target("/v2/models/stats/ready"), Some(Target::ModelReady(stats())));
        let statistics = Extension::Statistics(Some(stats()));
        assert_eq!(target("/v2/models/stats/stats"), Some(Target::Extension(statistics)));
        assert_eq!(target("/v2/models/stats/versions/1"), Some(Target::Model(model("stats", Some("1")))));
    }

    #[test]
    fn what_changes_something_is_posted_and_what_asks_may_be_a_head() {
        for (path, allowed) in [
            ("/v2", "GET, HEAD"),
            ("/openapi.json", "GET, HEAD"),
            ("/v2/models/stats", "GET, HEAD"),
            ("/v2/models/m/infer", "POST"),
            ("/v1/decisions", "GET, HEAD"),
            ("/v1/decisions/d", "GET, HEAD, POST"),
            ("/v1/outcomes", "POST"),
            ("/v1/overrides", "POST"),
            ("/v1/erasures", "POST"),
            ("/v1/holds", "GET, HEAD, POST"),
            ("/v1/holds/case", "DELETE"),
            ("/v1/journal", "GET, HEAD"),
            ("/v1/journal/seals", "POST"),
            ("/v2/repository/index", "POST"),
            ("/v2/systemsharedmemory/status", "GET, HEAD"),
            ("/v2/systemsharedmemory/unregister", "POST"),
            ("/v2/logging", "GET, HEAD, POST"),
        ] {
            let target = target(path).expect("a path of the surface");
            assert_eq!(target.allowed(), allowed, "{path}");
            assert_eq!(target.allows(&Method::HEAD), allowed.contains("HEAD"), "{path}");
            assert_eq!(target.allows(&Method::DELETE), allowed.contains("DELETE"), "{path}");
        }
    }

    #[test]
    fn names_that_are_kept_do_not_change_when_others_come() {
        let kept: Vec<_> = (0..5000).map(|n| (n, target(&format!("/v2/models/model-{n}")))).collect();
        for (n, target) in kept {
            assert_eq!(target, Some(Target::Model(model(&format!("model-{n}"), None))));
        }
    }
}
