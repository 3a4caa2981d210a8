//! The page at `/`: what this server serves, for a person with a browser. Programs use `/v1/deployments`.

use bytes::Bytes;
use flyball_deployments::{Applied, DeploymentState, State};
use std::fmt::Write as _;

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>flyball</title><style>\
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ccc}\
</style><h1>flyball</h1>";
const LINKS: &str = "<p><a href=\"/v2/health/ready\">health</a> · <a href=\"/metrics\">metrics</a> · \
<a href=\"/openapi.json\">OpenAPI</a> · <a href=\"/v1/deployments\">deployments as JSON</a></p>";

/// The deployments, which the caller may see.
pub(super) fn page(applied: &Applied, version: &str) -> Bytes {
    let mut page = format!("{HEAD}<p>Version {}. ", escaped(version));
    let serving = applied.deployments.iter().filter(|deployment| deployment.state == State::Applied).count();
    let _ = write!(page, "{serving} deployment{} served.</p>", if serving == 1 { " is" } else { "s are" });
    if !applied.deployments.is_empty() {
        page.push_str("<table><tr><th>name<th>version<th>state<th>reason</tr>");
        applied.deployments.iter().for_each(|deployment| row(&mut page, deployment));
        page.push_str("</table>");
    }
    page.push_str(LINKS);
    Bytes::from(page)
}

fn row(page: &mut String, deployment: &DeploymentState) {
    let state = match deployment.state {
        State::Applied => "serves",
        State::Refused => "refused",
        State::Warm => "kept warm",
    };
    let name = escaped(&deployment.name);
    let version = escaped(deployment.version.as_deref().unwrap_or_default());
    let reason = escaped(deployment.reason.as_deref().unwrap_or_default());
    let _ = write!(page, "<tr><td>{name}<td>{version}<td>{state}<td>{reason}</tr>");
}

/// A reason may contain names from a model's file.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::Digest;

    fn deployment(name: &str, state: State, reason: Option<&str>) -> DeploymentState {
        DeploymentState {
            name: name.to_owned(),
            digest: Digest::of(b""),
            generation: 1,
            state,
            reason: reason.map(str::to_owned),
            version: Some("3".to_owned()),
            signed: None,
            candidate: None,
        }
    }

    #[test]
    fn the_page_lists_deployments_and_shows_no_markup_of_a_model() {
        let refused = deployment("bad", State::Refused, Some("input '<script>' & more"));
        let applied = Applied {
            environment: "production".to_owned(),
            generation: 1,
            refused: None,
            deployments: vec![deployment("fraud", State::Applied, None), refused],
        };
        let page = page(&applied, "1.2.3");
        let text = str::from_utf8(&page).unwrap();
        assert!(text.contains("Version 1.2.3. 1 deployment is served."));
        assert!(text.contains("<tr><td>fraud<td>3<td>serves<td></tr>"));
        assert!(text.contains("input '&lt;script&gt;' &amp; more"));
        assert!(!text.contains("<script>"));
    }
}
