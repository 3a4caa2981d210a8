//! Response options in a request's head: content coding, and CORS headers.
//!
//! Applied to the finished response; handlers do not know of them.

use super::cors;
use crate::reply::{Reply, ReplyBody};
use crate::{ServerConfig, coding};
use ::http::{HeaderMap, HeaderValue, Request, header};
use flyball_wire::coding::Coding;

#[derive(Default)]
pub(crate) struct ResponseOptions {
    /// The preferred coding that the caller accepts; `None` without `Accept-Encoding`.
    coding: Option<Coding>,
    origin: Option<HeaderValue>,
}

impl ResponseOptions {
    pub(super) fn read(config: &ServerConfig, headers: &HeaderMap) -> ResponseOptions {
        ResponseOptions { coding: accepted(headers), origin: cors::origin(&config.cors_origins, headers) }
    }

    /// The same options without compression.
    pub(super) fn uncoded(self) -> ResponseOptions {
        ResponseOptions { coding: None, ..self }
    }

    /// The response to a browser's preflight.
    pub(super) fn preflight<B>(&self, request: &Request<B>) -> Option<Reply> {
        self.origin.as_ref().and_then(|_allowed| cors::preflight(request))
    }

    pub(super) async fn apply(self, config: &ServerConfig, reply: Reply) -> Reply {
        let mut reply = match self.coding {
            Some(coding) => compressed(coding, config.compress_bytes_min, reply).await,
            None => reply,
        };
        if !config.cors_origins.is_empty() {
            cors::mark(self.origin, reply.headers_mut());
        }
        reply
    }
}

fn accepted(headers: &HeaderMap) -> Option<Coding> {
    let mut lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let first = lines.next()?;
    // Nearly always one line; several are equivalent to one with commas.
    match lines.next() {
        None => Some(Coding::accepted(first)),
        Some(second) => {
            Some(Coding::accepted(&[first, second].into_iter().chain(lines).collect::<Vec<_>>().join(",")))
        }
    }
}

async fn compressed(coding: Coding, bytes_min: usize, mut reply: Reply) -> Reply {
    let ReplyBody::Whole(Some(body)) = reply.body() else { return reply };
    if body.len() < bytes_min {
        return reply;
    }
    let smaller = coding::deflated(coding, &body.clone()).await;
    reply.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some(smaller) = smaller {
        let name = HeaderValue::from_static(coding.name());
        reply.headers_mut().insert(header::CONTENT_ENCODING, name);
        *reply.body_mut() = ReplyBody::Whole(Some(smaller));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::whole;
    use ::http::StatusCode;
    use bytes::Bytes;

    fn granted(lines: &[&'static str], body: Bytes) -> Reply {
        let headers = lines.iter().map(|line| (header::ACCEPT_ENCODING, HeaderValue::from_static(line)));
        let config = ServerConfig::default();
        let options = ResponseOptions::read(&config, &HeaderMap::from_iter(headers));
        let reply = whole(StatusCode::OK, "application/json", body);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(options.apply(&config, reply))
    }

    #[test]
    fn large_answers_are_compressed_for_those_who_ask() {
        let large = Bytes::from(vec![b'7'; 1024]);
        for (lines, coding) in [
            (&["gzip"][..], Some("gzip")),
            (&["deflate"], Some("deflate")),
            (&["br", "deflate;q=0.5"], Some("deflate")),
            (&["gzip;q=0"], None),
            (&["br"], None),
        ] {
            let reply = granted(lines, large.clone());
            let is = reply.headers().get(header::CONTENT_ENCODING).map(|name| name.to_str().expect("text"));
            assert_eq!(is, coding, "{lines:?}");
            assert_eq!(reply.headers()[header::VARY], "Accept-Encoding");
        }
        assert!(granted(&[], large).headers().get(header::VARY).is_none());
    }

    #[test]
    fn small_answers_and_those_that_would_grow_stay_as_they_are() {
        let noise = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let noise = std::iter::successors(Some(1), noise).map(|n| (n >> 56) as u8);
        let noise: Bytes = noise.take(2048).collect();
        for (body, varies) in [(Bytes::from(vec![b'7'; 1023]), false), (noise, true)] {
            let reply = granted(&["gzip"], body.clone());
            assert!(reply.headers().get(header::CONTENT_ENCODING).is_none());
            assert_eq!(reply.headers().contains_key(header::VARY), varies);
            let ReplyBody::Whole(Some(sent)) = reply.into_body() else { panic!("no body") };
            assert_eq!(sent, body);
        }
    }
}
