//! The state that all threads of a server share.

use crate::ServerConfig;
use crate::address_slots::AddressSlots;
use crate::body::BodyBudget;
use crate::callers::Callers;
use crate::control::Order;
use crate::drain::Drain;
use crate::journal::Annotations;
use crate::legal::LegalJob;
use crate::machine::Machine;
use crate::offload::Offloaded;
use crate::open_connections::OpenConnections;
use crate::open_streams::OpenStreams;
use crate::refused_queries::RefusedQueries;
use crate::restricted::Restricted;
use crate::tls::Tls;
use crate::trust::TrustFiles;
use flyball_deployments::{Applied, Loader};
use flyball_journal::Journal;
use flyball_plane::Plane;
use flyball_telemetry::{ModelMeter, Telemetry};
use flyball_wire::regions::Regions;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) plane: Arc<Plane<ModelMeter>>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) drain: Drain,
    pub(crate) machine: Machine,
    pub(crate) ort_version: String,
    /// Bytes of request bodies in memory.
    pub(crate) bodies: BodyBudget,
    /// Work that is too long for a lane.
    pub(crate) offload: mpsc::Sender<Offloaded>,
    /// Clients' loads and unloads.
    pub(crate) orders: mpsc::Sender<Order>,
    /// Empty while the server starts.
    pub(crate) loader: OnceLock<Arc<Loader<ModelMeter>>>,
    /// Registered shared memory; `None` if not allowed.
    pub(crate) regions: Option<Arc<Regions>>,
    pub(crate) tls: Option<Tls>,
    pub(crate) callers: Option<Callers>,
    pub(crate) restricted: Restricted,
    /// `None` if only unsigned deployments are served.
    pub(crate) trust: Option<TrustFiles>,
    /// `None` if decisions are not recorded.
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) annotations: Annotations,
    pub(crate) refused_queries: RefusedQueries,
    pub(crate) legal: LegalJob,
    /// Connections of each address.
    pub(crate) address_slots: Arc<AddressSlots>,
    /// Open connections, to evict idle ones.
    pub(crate) open: Arc<OpenConnections>,
    /// HTTP/2 streams of all connections.
    pub(crate) streams: OpenStreams,
    /// Open connections of each lane.
    pub(crate) connections: Vec<AtomicUsize>,
}

impl Shared {
    /// Whether requests are accepted; under `strict_readiness` only with every model that should serve.
    pub(crate) fn ready(&self) -> bool {
        let complete = || self.plane.routes.load().absent().all(|(_, absence)| !absence.is_wanted());
        self.serving() && (!self.config.strict_readiness || complete())
    }

    pub(crate) fn serving(&self) -> bool {
        self.drain.serving()
    }

    /// The status of all deployments; empty while the server starts.
    pub(crate) fn applied(&self) -> Arc<Applied> {
        self.loader.get().map(|loader| loader.applied()).unwrap_or_default()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.iter().map(|lane| lane.load(Ordering::Relaxed)).sum()
    }
}
