//! Counts refused requests outside walks, by status: metadata, repository, journal, unknown paths.
//!
//! Walks count themselves.

use crate::counted::{counter, labelled};
use crate::grpc::STATUS;
use crate::reply::Reply;
use flyball_core::Protocol;
use flyball_telemetry::Family;
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
    /// Counts a reply if it is a refusal.
    pub(crate) fn count(&self, protocol: Protocol, reply: &Reply) {
        let counter = match protocol {
            Protocol::Http => usize::from(reply.status().as_u16())
                .checked_sub(HTTP_FIRST)
                .and_then(|place| self.http.get(place)),
            // A refusal has its status in the headers, because it has no body.
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
        let of = |protocol: Protocol, first: usize, counters: &[AtomicU64]| {
            let counted = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).enumerate();
            let label = |place| format!(r#"protocol="{}",code="{}""#, protocol.label(), first + place);
            let counted = counted.filter(|(_, count)| *count > 0);
            labelled(counted.map(|(place, count)| (label(place), count)))
        };
        let mut samples = of(Protocol::Http, HTTP_FIRST, &self.http);
        samples.extend(of(Protocol::Grpc, 0, &self.grpc));
        counter(
            "flyball_questions_refused_total",
            "refused requests that are neither inferences nor decisions, by HTTP status or gRPC code",
            samples,
        )
    }
}
