//! Cross-origin requests (CORS). Disabled unless origins are configured.

use crate::reply::{Reply, ReplyBody};
use ::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use flyball_core::{Fault, FaultKind, Stage};

const ANY: &str = "*";
const METHODS: &str = "GET, HEAD, POST";
/// Headers besides those that a page may always read.
const EXPOSED: &str = "Inference-Header-Content-Length, Content-Encoding, Retry-After";
/// How long browsers may cache a preflight, in seconds; all of them accept this.
const MAX_AGE_S: &str = "600";

/// The value of `Access-Control-Allow-Origin`, if the request's origin is allowed.
pub(super) fn origin(allowed: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    if allowed.is_empty() {
        return None;
    }
    let origin = headers.get(ORIGIN)?;
    if allowed.iter().any(|allowed| allowed == ANY) {
        return Some(HeaderValue::from_static(ANY));
    }
    allowed.iter().any(|allowed| origin == allowed.as_str()).then(|| origin.clone())
}

/// Whether a request comes from a page of another origin that is not allowed.
///
/// A browser sends some requests without a preflight and only hides the response from the page. On loopback, where no key
/// is needed, any page could change the serving models.
pub(super) fn foreign(allowed: &[String], headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) && origin(allowed, headers).is_none()
}

/// The refusal of a change by such a page.
pub(super) fn refusal() -> Fault {
    let text = "a page of this origin may not change what is served; add the origin to cors_origins";
    Fault::new(FaultKind::Forbidden, Stage::Admit, text)
}

/// The response to a preflight; `None` for other requests.
pub(super) fn preflight<B>(request: &Request<B>) -> Option<Reply> {
    if request.method() != Method::OPTIONS || !request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut reply = Response::new(ReplyBody::empty());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S));
    // An allowed page may send any header: none of them grants additional rights.
    if let Some(asked) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        headers.append(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    }
    Some(reply)
}

/// Adds the CORS headers to a response, if origins are configured.
pub(super) fn mark(origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    // Caches must not serve a response for one origin to another.
    if origin.as_ref().is_none_or(|origin| origin != ANY) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(allowed: &[&str], from: Option<&'static str>) -> Option<HeaderValue> {
        let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        let headers = from.map(|from| (ORIGIN, HeaderValue::from_static(from)));
        origin(&allowed, &HeaderMap::from_iter(headers))
    }

    #[test]
    fn only_listed_origins_are_named_and_none_where_none_is_configured() {
        assert_eq!(named(&[], Some("https://a.example")), None);
        assert_eq!(named(&["https://a.example"], None), None);
        assert_eq!(named(&["https://a.example"], Some("https://b.example")), None);
        assert_eq!(named(&["https://a.example"], Some("https://a.example.b.example")), None);
        let both = ["https://a.example", "https://b.example"];
        assert_eq!(named(&both, Some("https://b.example")).expect("listed"), "https://b.example");
        assert_eq!(named(&["*"], Some("https://b.example")).expect("any"), "*");
    }

    #[test]
    fn a_page_is_foreign_unless_its_origin_is_listed_and_what_is_no_page_never_is() {
        let is_foreign = |allowed: &[&str], from: Option<&'static str>| {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            let headers = from.map(|from| (ORIGIN, HeaderValue::from_static(from)));
            foreign(&allowed, &HeaderMap::from_iter(headers))
        };
        assert!(is_foreign(&[], Some("https://a.example")));
        assert!(is_foreign(&[], Some("null")));
        assert!(is_foreign(&["https://a.example"], Some("https://b.example")));
        assert!(!is_foreign(&["https://a.example"], Some("https://a.example")));
        assert!(!is_foreign(&["*"], Some("https://b.example")));
        assert!(!is_foreign(&[], None));
    }
}
