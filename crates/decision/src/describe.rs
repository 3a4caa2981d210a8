//! Describes the compiled stages as text, for `flyball plan`.

use crate::document::SourceDocument;
use crate::feature::{FeatureFrom, FeaturePlan};
use crate::field::Field;
use crate::model::ModelPlan;
use crate::program::Program;
use crate::reasons::Explainer;
use crate::remedy::Remedy;
use crate::route::Variant;
use flyball_core::Stage;
use serde::Serialize;

/// The lines of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageText {
    pub stage: &'static str,
    pub lines: Vec<String>,
}

impl Program {
    /// The description of each stage in walk order. Omits stages without lines.
    pub fn describe(&self) -> Vec<StageText> {
        let stages = [
            (Stage::Parse, self.fields.iter().map(field).collect()),
            (Stage::Route, self.routes()),
            (Stage::Features, self.features.iter().map(|feature| self.feature(feature)).collect()),
            (Stage::Tensor, self.transforms.lines().to_vec()),
            (Stage::Infer, self.models.iter().map(model).collect()),
            (Stage::Policy, self.policy.describe()),
            (Stage::Record, self.record.describe(&self.fields)),
            (Stage::Respond, self.answers()),
        ];
        let stages = stages.into_iter().filter(|(_, lines): &(_, Vec<_>)| !lines.is_empty());
        stages.map(|(stage, lines)| StageText { stage: stage.label(), lines }).collect()
    }

    fn routes(&self) -> Vec<String> {
        if !self.scored() {
            return vec!["no model: the rules alone decide".to_owned()];
        }
        let mut lines = Vec::new();
        let mut start = 0.0;
        for (place, variant) in self.variants.iter().enumerate() {
            let mut roles = Vec::new();
            if place == 0 {
                let others = self.route.split.last().map_or(0.0, |(_, end)| *end);
                roles.push(format!("{} of requests", percent(1.0 - others)));
            }
            if let Some((_, end)) = self.route.split.iter().find(|(variant, _)| *variant == place) {
                roles.push(format!("{} of requests", percent(end - start)));
                start = *end;
            }
            if self.route.shadow.contains(&place) {
                roles.push("shadow".to_owned());
            }
            if self.route.fallback == Some(place) {
                roles.push("fallback".to_owned());
            }
            let role = if roles.is_empty() { "not used".to_owned() } else { roles.join(", ") };
            lines.push(format!("{}: {role}; score = {}", variant.name, self.sum(variant)));
        }
        if let Some(sticky) = &self.route.sticky {
            lines.push(format!(
                "requests with the same {} stay with their variant",
                self.fields[sticky.slot].name
            ));
        }
        lines
    }

    fn sum(&self, variant: &Variant) -> String {
        let parts = variant.models.iter().zip(&variant.weights).filter(|(_, weight)| **weight != 0.0);
        let parts = parts.map(|(&model, weight)| match *weight {
            1.0 => self.models[model].name.to_string(),
            weight => format!("{weight} * {}", self.models[model].name),
        });
        parts.collect::<Vec<_>>().join(" + ")
    }

    fn feature(&self, feature: &FeaturePlan) -> String {
        let name = |slot: usize| &self.fields[slot].name;
        let from = match &feature.from {
            FeatureFrom::Window { op, of, by, last_ms, current, source } => {
                let of = of.as_ref().map_or(String::new(), |of| format!(" of {}", name(of.slot)));
                let current = if *current { "with" } else { "without" };
                let kept = source.map_or("this server", |source| &*self.sources[source].0);
                format!(
                    "{}{of} by {} in the last {} s, {current} this event, stored by {kept}",
                    op.label(),
                    name(by.slot),
                    *last_ms as f64 / 1000.0
                )
            }
            FeatureFrom::Lookup { source, key, field } => {
                let (source, document) = &self.sources[*source];
                let kind = match document {
                    SourceDocument::Redis { timeout_ms, .. } => format!("redis, at most {timeout_ms} ms"),
                    SourceDocument::Store { .. } => "store".to_owned(),
                };
                format!("{field} from {source} ({kind}) by {}", name(key.slot))
            }
            FeatureFrom::Compute(_) => "computed".to_owned(),
        };
        let age = feature.max_age_ms.map_or(String::new(), |age| format!(", at most {age} ms old"));
        let pii = if feature.field.pii { ", pii" } else { "" };
        format!("{}: {}, {from}{age}{pii}", feature.name, feature.field.kind.label())
    }

    fn answers(&self) -> Vec<String> {
        let mut lines = vec![format!("owner {}; purpose: {}", self.owner, self.purpose)];
        for (cause, remedy) in self.remedies.each() {
            lines.push(match remedy {
                Remedy::Outcome(outcome) => format!("{cause}: {}", self.policy.outcome(outcome)),
                remedy => format!("{cause}: {}", remedy.label()),
            });
        }
        let keys = self.idempotency;
        lines.push(format!("idempotency keys: {} s, at most {} rows", keys.window_s, keys.entries_max));
        lines.push(format!("document {}", self.document_digest));
        lines.push(format!("policy {}", self.policy_digest));
        lines.push(format!("schema {}", self.schema_digest));
        lines
    }
}

fn field(field: &Field) -> String {
    let needed = match (&field.default, field.required) {
        (Some(_), _) => ", has a default",
        (None, true) => ", required",
        (None, false) => "",
    };
    let pii = if field.pii { ", pii" } else { "" };
    format!("{}: {}{needed}{pii}", field.name, field.allowed())
}

fn model(model: &ModelPlan) -> String {
    let explained = match &model.explain {
        Some(Explainer::Trees(_)) => "explained by its trees",
        Some(Explainer::Linear(_)) => "explained by its coefficients",
        Some(Explainer::Ablation(_)) => "explained by ablation",
        None => "not explained",
    };
    format!(
        "{}: version {}, {} columns from {} steps, score is element {} of {}, {explained}",
        model.name,
        model.version,
        model.columns.len(),
        model.steps.len(),
        model.element,
        model.output
    )
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}
