//! Opens connections before the load starts.
//!
//! No request then waits for a handshake: with many connections, those would dominate the first second.

use crate::grpc::Channel;
use crate::plan::{Protocol, Target};
use crate::run::LoadError;
use crate::stream::Stream;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

/// Connections opened at a time by one thread: more would overflow a server's accept queue.
const OPENING_MAX: usize = 64;

/// One connection. If it could not be opened, its first request retries and reports why.
pub(crate) enum Link {
    Http(Option<Stream>),
    Grpc(Rc<Channel>),
}

/// Opens this many connections, within the timeout of a request.
pub(crate) async fn open(
    target: &Arc<Target>,
    protocol: Protocol,
    count: usize,
) -> Result<Vec<Link>, LoadError> {
    let deadline = Instant::now() + target.timeout;
    let (mut links, mut opening) = (Vec::with_capacity(count), JoinSet::new());
    for _ in 0..count {
        if opening.len() == OPENING_MAX {
            links.extend(opening.join_next().await);
        }
        let target = Arc::clone(target);
        opening.spawn_local(async move { Link::open(&target, protocol, deadline).await });
    }
    while let Some(link) = opening.join_next().await {
        links.push(link);
    }
    let broken = |error: JoinError| LoadError::Broken(error.to_string());
    links.into_iter().collect::<Result<_, _>>().map_err(broken)
}

impl Link {
    async fn open(target: &Target, protocol: Protocol, deadline: Instant) -> Link {
        match protocol {
            Protocol::Grpc => {
                let channel = Rc::new(Channel::default());
                let _ = timeout_at(deadline, channel.sender(target)).await;
                Link::Grpc(channel)
            }
            Protocol::Http | Protocol::HttpBinary | Protocol::Json => {
                let opened = timeout_at(deadline, target.address.connect()).await;
                Link::Http(opened.ok().and_then(Result::ok))
            }
        }
    }
}
