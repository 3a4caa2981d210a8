//! The door: refused here costs nothing further. Bounds on what is in flight, and deadlines that have passed already.

use crate::admission::Permit;
use crate::{Model, Plane};
use flyball_core::{Fault, FaultKind, Nanos, Stage};

pub(crate) fn admit<M>(plane: &Plane<M>, model: &Model<M>, deadline: Option<Nanos>) -> Result<Permit, Fault> {
    if deadline.is_some_and(|deadline| deadline <= plane.clock.now()) {
        return Err(Fault::new(
            FaultKind::DeadlinePassed,
            Stage::Admit,
            "the deadline passed before the request was read",
        ));
    }
    let full = |of: &str, most: usize| {
        let text = format!("{of} has {most} requests in flight, its limit; try again shortly");
        Fault::new(FaultKind::InFlightFull, Stage::Admit, text)
    };
    let server = plane.gate.try_enter().ok_or_else(|| full("the server", plane.gate.inside_max()))?;
    let deployment = model.gate.try_enter();
    let deployment =
        deployment.ok_or_else(|| full(&format!("model '{}'", model.name), model.gate.inside_max()))?;
    Ok(Permit { _server: server, _deployment: deployment })
}
