//! APIs that need a header of a fixed value, as Triton's `--http-restricted-api` and `--grpc-restricted-protocol` say.
//!
//! For clients that were written for it. Callers with rights (`callers.rs`) are the better protection.

use crate::http::{Extension, Target};
use ::http::{HeaderMap, HeaderName};
use flyball_core::{Digest, Fault, FaultKind, Stage};

/// What Triton puts before a header's name in gRPC metadata.
const GRPC_PREFIX: &str = "triton-grpc-protocol-";

flyball_core::labelled! {
    /// A group of endpoints, under Triton's name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Api {
        Health => "health",
        Metadata => "metadata",
        Inference => "inference",
        SharedMemory => "shared-memory",
        ModelConfig => "model-config",
        ModelRepository => "model-repository",
        Statistics => "statistics",
        Trace => "trace",
        Logging => "logging",
    }
}

/// One setting: `API[,API…]:HEADER=VALUE`.
struct Restriction {
    apis: Vec<Api>,
    http: HeaderName,
    grpc: HeaderName,
    /// The digest of the header's value: comparing digests does not reveal the value by its time.
    value: Digest,
}

#[derive(Default)]
pub(crate) struct Restricted(Vec<Restriction>);

impl Restricted {
    /// Invalid settings are left out; the configuration's check has rejected them.
    pub(crate) fn new(settings: &[String]) -> Restricted {
        Restricted(settings.iter().filter_map(|setting| parse(setting)).collect())
    }

    pub(crate) fn http(&self, target: Option<&Target>, headers: &HeaderMap) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.check(target.and_then(api_of_target), headers, "API", |restriction| &restriction.http)
    }

    pub(crate) fn grpc(&self, path: &str, headers: &HeaderMap) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.check(api_of_method(path), headers, "protocol", |restriction| &restriction.grpc)
    }

    /// Every setting that names the API must be met.
    fn check(
        &self,
        api: Option<Api>,
        headers: &HeaderMap,
        what: &str,
        name: fn(&Restriction) -> &HeaderName,
    ) -> Result<(), Fault> {
        let Some(api) = api else { return Ok(()) };
        for restriction in self.0.iter().filter(|restriction| restriction.apis.contains(&api)) {
            let header = name(restriction);
            let given = headers.get(header).map(|value| Digest::of(value.as_bytes()));
            if given != Some(restriction.value) {
                let text = format!("This {what} is restricted, expecting header '{header}'");
                return Err(Fault::new(FaultKind::Forbidden, Stage::Admit, text));
            }
        }
        Ok(())
    }
}

pub(crate) fn is_valid(setting: &str) -> bool {
    parse(setting).is_some()
}

fn parse(setting: &str) -> Option<Restriction> {
    let (apis, header) = setting.split_once(':')?;
    let (name, value) = header.split_once('=')?;
    let apis = apis.split(',').map(Api::from_label).collect::<Option<_>>()?;
    let grpc = HeaderName::try_from(format!("{GRPC_PREFIX}{name}")).ok()?;
    let http = HeaderName::try_from(name).ok()?;
    (!value.is_empty()).then(|| Restriction { apis, http, grpc, value: Digest::of(value.as_bytes()) })
}

fn api_of_target(target: &Target) -> Option<Api> {
    Some(match target {
        Target::Live | Target::Ready | Target::ModelReady(_) => Api::Health,
        Target::Root | Target::Server | Target::Models | Target::Model(_) | Target::Decisions => {
            Api::Metadata
        }
        Target::Infer(_) | Target::Decision(_) => Api::Inference,
        Target::Extension(extension) => match extension {
            Extension::Statistics(_) => Api::Statistics,
            Extension::Configuration(_) => Api::ModelConfig,
            Extension::Index | Extension::Load(_) | Extension::Unload(_) => Api::ModelRepository,
            Extension::Memory { .. } => Api::SharedMemory,
            Extension::Trace => Api::Trace,
            Extension::Logging => Api::Logging,
        },
        Target::Metrics
        | Target::TritonMetrics
        | Target::OpenApi
        | Target::Deployments
        | Target::Journal(_) => return None,
    })
}

fn api_of_method(path: &str) -> Option<Api> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    Some(match (service, method) {
        ("grpc.health.v1.Health", _) => Api::Health,
        ("flyball.v1.Decisions", "Decide") => Api::Inference,
        ("inference.GRPCInferenceService", method) => match method {
            "ServerLive" | "ServerReady" | "ModelReady" => Api::Health,
            "ServerMetadata" | "ModelMetadata" => Api::Metadata,
            "ModelInfer" | "ModelStreamInfer" => Api::Inference,
            "ModelConfig" => Api::ModelConfig,
            "ModelStatistics" => Api::Statistics,
            "RepositoryIndex" | "RepositoryModelLoad" | "RepositoryModelUnload" => Api::ModelRepository,
            "TraceSetting" => Api::Trace,
            "LogSettings" => Api::Logging,
            method if method.contains("SharedMemory") => Api::SharedMemory,
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_restricted_api_needs_its_header_and_others_need_none() {
        let restricted = Restricted::new(&["inference,health:Infer-Key=secret".to_owned()]);
        let infer = "/inference.GRPCInferenceService/ModelInfer";
        let fault = restricted.grpc(infer, &headers(&[("infer-key", "secret")])).unwrap_err();
        assert_eq!(
            fault.text,
            "This protocol is restricted, expecting header 'triton-grpc-protocol-infer-key'"
        );
        for value in ["", "wrong", "secret2"] {
            assert!(restricted.http(Some(&Target::Live), &headers(&[("infer-key", value)])).is_err());
        }
        assert!(restricted.http(Some(&Target::Live), &headers(&[("infer-key", "secret")])).is_ok());
        assert!(restricted.grpc(infer, &headers(&[("triton-grpc-protocol-infer-key", "secret")])).is_ok());
        assert!(restricted.http(Some(&Target::Server), &HeaderMap::new()).is_ok());
        assert!(restricted.http(None, &HeaderMap::new()).is_ok());
    }

    #[test]
    fn an_api_that_two_settings_name_needs_both_headers() {
        let settings = ["metadata:a=1", "metadata:b=2"].map(str::to_owned);
        let restricted = Restricted::new(&settings);
        let check = |given: &[(&'static str, &str)]| restricted.http(Some(&Target::Server), &headers(given));
        assert!(check(&[("a", "1")]).is_err());
        assert!(check(&[("a", "1"), ("b", "2")]).is_ok());
    }

    #[test]
    fn a_setting_names_known_apis_a_header_and_a_value() {
        assert!(is_valid("model-repository,trace:admin-key=a=b:c"));
        for wrong in
            ["", "inference", "inference:key", "inference:key=", "infer:key=v", ":k=v", "health:a b=c"]
        {
            assert!(!is_valid(wrong), "{wrong}");
        }
    }
}
