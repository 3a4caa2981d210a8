//! Paths → what they name. Segments are percent-decoded one by one, so that a name may hold a slash.

use bytes::BytesMut;
use bytestring::ByteString;
use flyball_core::ModelRef;
use percent_encoding::percent_decode_str;
use std::cell::RefCell;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Server,
    Live,
    Ready,
    Metrics,
    Model(ModelRef),
    ModelReady(ModelRef),
    Infer(ModelRef),
}

pub(crate) fn target(path: &str) -> Option<Target> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = path.split('/');
    match segments.next()? {
        "metrics" => segments.next().is_none().then_some(Target::Metrics),
        "v2" => match segments.next() {
            None => Some(Target::Server),
            Some("health") => match (segments.next()?, segments.next()) {
                ("live", None) => Some(Target::Live),
                ("ready", None) => Some(Target::Ready),
                _ => None,
            },
            Some("models") => model(segments),
            Some(_) => None,
        },
        _ => None,
    }
}

fn model<'p>(mut segments: impl Iterator<Item = &'p str>) -> Option<Target> {
    let name = decoded(segments.next()?)?;
    let mut next = segments.next();
    let mut version = None;
    if next == Some("versions") {
        version = Some(decoded(segments.next()?)?);
        next = segments.next();
    }
    let model = ModelRef { name, version };
    match (next, segments.next()) {
        (None, None) => Some(Target::Model(model)),
        (Some("ready"), None) => Some(Target::ModelReady(model)),
        (Some("infer"), None) => Some(Target::Infer(model)),
        _ => None,
    }
}

fn decoded(segment: &str) -> Option<ByteString> {
    if segment.is_empty() {
        return None;
    }
    shared(&percent_decode_str(segment).decode_utf8().ok()?)
}

/// What a lane's names of one moment take, generously.
const NAMES_BYTES: usize = 4 << 10;

thread_local! {
    /// A lane's names are slices of one buffer, which is used again when they are gone: neither a new name nor the copy
    /// of one takes memory.
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
            ("/v2/models/m", Some(Target::Model(model("m", None)))),
            ("/v2/models/m/versions/3", Some(Target::Model(model("m", Some("3"))))),
            ("/v2/models/m/ready", Some(Target::ModelReady(model("m", None)))),
            ("/v2/models/m/versions/3/ready", Some(Target::ModelReady(model("m", Some("3"))))),
            ("/v2/models/a%2Fb/infer", Some(Target::Infer(model("a/b", None)))),
            ("/v2/models/m/versions/3/infer", Some(Target::Infer(model("m", Some("3"))))),
            ("/", None),
            ("/v3", None),
            ("/v2/models", None),
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
    fn names_that_are_kept_do_not_change_when_others_come() {
        let kept: Vec<_> = (0..5000).map(|n| (n, target(&format!("/v2/models/model-{n}")))).collect();
        for (n, target) in kept {
            assert_eq!(target, Some(Target::Model(model(&format!("model-{n}"), None))));
        }
    }
}
