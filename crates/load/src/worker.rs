//! One connection: takes a request, sends it, awaits the response within the timeout, checks and counts it.

use crate::patience::Patience;
use crate::session::{Session, Ticket};
use crate::tally::{Ending, Origin, Problem};
use std::time::Duration;
use tokio::time::Instant;

/// A pause after a failed connect, so that a dead server is not called a million times a second.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The exchange of one protocol.
pub(crate) trait Client {
    type Answer;

    /// May be cancelled at any point; the next exchange then uses a new connection.
    async fn exchange(&mut self, ticket: Ticket) -> Result<Self::Answer, Problem>;

    /// Separate from the exchange, so that checking a response does not count as waiting for it.
    fn check(&self, ticket: Ticket, answer: &Self::Answer) -> Ending;
}

/// Sends requests until there are no more.
pub(crate) async fn work(session: &Session, seat: usize, mut client: impl Client) {
    let mut patience = Patience::new(session.target.timeout);
    while let Some(ticket) = session.next(seat).await {
        let left = Instant::now();
        if session
            .target
            .connection_wait
            .is_some_and(|wait| left.saturating_duration_since(ticket.due) > wait)
        {
            session.give_up(ticket, left);
            continue;
        }
        let answer = patience.within(left, client.exchange(ticket)).await;
        let ended = Instant::now();
        let unreachable = matches!(&answer, Some(Err(problem)) if problem.origin == Origin::Connect);
        let ending = match answer {
            Some(Ok(answer)) => client.check(ticket, &answer),
            Some(Err(problem)) => Ending::Failed(problem),
            None => Ending::TimedOut,
        };
        session.finish(ticket, left, ended, ending);
        if unreachable {
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }
}
