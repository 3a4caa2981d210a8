//! Counts refused requests that are not walks: metadata, repository, journal and unknown paths. Walks count themselves; these
//! are counted here by status, so that no refused attempt is missed.

use crate::grpc::STATUS;
use crate::reply::Reply;
use flyball_core::Protocol;
use flyball_telemetry::Family;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

const HTTP_FIRST: usize = 400;
const HTTP_LAST: usize = 599;
const GRPC_LAST: usize = 16;

pub(crate) struct RefusedQueries {
    http: [AtomicU64; HTTP_LAST - HTTP_FIRST + 1],
    grpc: [AtomicU64; GRPC_LAST + 1],
}

impl Default for RefusedQueries {
    fn default() -> RefusedQueries {
        RefusedQueries {
            http: std::array::from_fn(|_| AtomicU64::new(0)),
            grpc: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl RefusedQueries {
    /// Counts a reply where it is a refusal.
    pub(crate) fn count(&self, protocol: Protocol, reply: &Reply) {
        let counter = match protocol {
            Protocol::Http => usize::from(reply.status().as_u16())
                .checked_sub(HTTP_FIRST)
                .and_then(|place| self.http.get(place)),
            // A refusal has its status in the headers, for nothing comes after them.
            Protocol::Grpc => {
                let status = reply
                    .headers()
                    .get(&STATUS)
                    .and_then(|status| status.to_str().ok()?.parse::<usize>().ok());
                status.filter(|status| *status != 0).and_then(|status| self.grpc.get(status))
            }
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn family(&self) -> Family {
        let of =
            |protocol: Protocol, first: usize, counters: &[AtomicU64]| -> Vec<(Cow<'static, str>, f64)> {
                let counted = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).enumerate();
                let sample = |(place, count): (usize, u64)| {
                    let labels = format!(r#"protocol="{}",code="{}""#, protocol.label(), first + place);
                    (Cow::Owned(labels), count as f64)
                };
                counted.filter(|(_, count)| *count > 0).map(sample).collect()
            };
        let mut samples = of(Protocol::Http, HTTP_FIRST, &self.http);
        samples.extend(of(Protocol::Grpc, 0, &self.grpc));
        Family {
            name: "flyball_questions_refused_total",
            kind: "counter",
            help: "refused requests that are neither inferences nor decisions, by HTTP status or gRPC code",
            samples,
        }
    }
}
