//! TLS and mutual TLS, from PEM files that are reloaded when they change.
//!
//! Unusable files leave the last good ones in place. Open connections keep the certificates they started with.

use crate::files::Reloads;
use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes that a lane signs before it serves its other sockets again.
///
/// A signature occupies the lane for as long as many responses.
const SIGNED_AT_ONCE: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {cause}; it must be a PEM file", path.display())]
    Unreadable { path: PathBuf, cause: pem::Error },
    #[error("{} contains no certificate; it must be a PEM file", .0.display())]
    Empty(PathBuf),
    #[error("the certificate of {} cannot be read: {cause}", path.display())]
    Malformed { path: PathBuf, cause: String },
    #[error("the certificate of {} expired {hours} hours ago; renew it", path.display())]
    Expired { path: PathBuf, hours: u64 },
    #[error("certificate, key and client authorities do not make a TLS server: {0}")]
    Unusable(String),
}

/// The files that the settings name.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

impl TlsFiles {
    pub(crate) fn of(config: &crate::ServerConfig) -> Option<TlsFiles> {
        let (cert, key) = (config.tls_cert.clone()?, config.tls_key.clone()?);
        Some(TlsFiles { cert, key, client_ca: config.tls_client_ca.clone() })
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca).cloned().collect()
    }
}

/// The contents of the files at the last reload.
struct Loaded {
    config: Arc<ServerConfig>,
    not_after: u64,
}

pub(crate) struct Tls {
    files: TlsFiles,
    loaded: ArcSwap<Loaded>,
    warned: AtomicBool,
    pub(crate) reloads: Reloads,
    pub(crate) handshakes_failed: AtomicU64,
}

impl Tls {
    pub(crate) fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        let loaded = ArcSwap::from_pointee(load(&files, now())?);
        Ok(Tls {
            files,
            loaded,
            warned: AtomicBool::new(false),
            reloads: Reloads::default(),
            handshakes_failed: AtomicU64::new(0),
        })
    }

    /// Performs the handshake. Runs on the connection's lane, so that a slow peer does not delay the acceptor.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        patience: Duration,
        turns: &Turns,
    ) -> Option<Box<TlsStream<TcpStream>>> {
        // Boxed: the handshake's state is large, and every connection's task would contain it.
        let shaken = tokio::time::timeout(patience, Box::pin(self.shake(stream, turns))).await;
        if let Ok(Ok(stream)) = shaken {
            return Some(Box::new(stream));
        }
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Takes a turn once the peer has sent everything that the signature needs; a slow peer holds none.
    async fn shake(&self, stream: TcpStream, turns: &Turns) -> io::Result<TlsStream<TcpStream>> {
        let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        let mut rest = std::pin::pin!(hello.into_stream(Arc::clone(&self.loaded.load().config)));
        match turns.begin(rest.as_mut()).await {
            Poll::Ready(shaken) => shaken,
            Poll::Pending => rest.await,
        }
    }

    /// Reads the files again; keeps the last good ones if they are unusable.
    pub(crate) fn reload(&self) {
        let refused = "the new certificates are not used; the last ones stay";
        self.reloads.apply(load(&self.files, now()), refused, |loaded| {
            tracing::info!(not_after = loaded.not_after, "the certificates were read again");
            self.loaded.store(Arc::new(loaded));
            self.warned.store(false, Ordering::Relaxed);
        });
    }

    /// Logs an expired certificate once; clients refuse it.
    pub(crate) fn warn_when_expired(&self) {
        if now() > self.not_after() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::error!(cert = %self.files.cert.display(), "the certificate has expired; renew it");
        }
    }

    /// When the certificate expires, in seconds since 1970.
    pub(crate) fn not_after(&self) -> u64 {
        self.loaded.load().not_after
    }
}

/// Limits the concurrent handshakes of one lane, in order of arrival.
pub(crate) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Semaphore::new(SIGNED_AT_ONCE))
    }
}

impl Turns {
    /// Polls expensive work once, in its turn, and yields to the lane's sockets before the next turn.
    async fn begin<F: Future>(&self, mut work: Pin<&mut F>) -> Poll<F::Output> {
        let _turn = self.0.acquire().await;
        let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        tokio::task::yield_now().await;
        begun
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn load(files: &TlsFiles, now: u64) -> Result<Loaded, TlsError> {
    let unusable = |cause: &dyn std::fmt::Display| TlsError::Unusable(cause.to_string());
    let chain = certificates(&files.cert)?;
    let not_after = not_after(&files.cert, &chain)?;
    if not_after < now {
        return Err(TlsError::Expired { path: files.cert.clone(), hours: (now - not_after) / 3600 });
    }
    let unreadable = |cause| TlsError::Unreadable { path: files.key.clone(), cause };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(unreadable)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| unusable(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Loaded { config: Arc::new(config), not_after })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |cause| TlsError::Unreadable { path: path.to_owned(), cause };
    let found = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    if found.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(found) }
}

fn not_after(path: &Path, chain: &[CertificateDer<'_>]) -> Result<u64, TlsError> {
    let malformed = |cause: &dyn std::fmt::Display| TlsError::Malformed {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
    let first = chain.first().ok_or_else(|| TlsError::Empty(path.to_owned()))?;
    let (_, certificate) = x509_parser::parse_x509_certificate(first).map_err(|error| malformed(&error))?;
    Ok(u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0))
}

fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let malformed = |cause: String| TlsError::Malformed { path: path.to_owned(), cause };
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority).map_err(|error| malformed(error.to_string()))?;
    }
    let provider = Arc::new(ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use tokio::task::{JoinSet, LocalSet};

    #[tokio::test]
    async fn a_burst_of_handshakes_lets_the_lane_breathe_after_a_few() {
        let (turns, signed) = (Rc::new(Turns::default()), Rc::new(Cell::new(0)));
        let mut tasks = JoinSet::new();
        let local = LocalSet::new();
        for _ in 0..100 {
            let (turns, signed) = (Rc::clone(&turns), Rc::clone(&signed));
            let work = async move {
                let sign = std::pin::pin!(async { signed.set(signed.get() + 1) });
                assert!(turns.begin(sign).await.is_ready());
            };
            tasks.spawn_local_on(work, &local);
        }
        let watch = async {
            let mut most = 0;
            while signed.get() < 100 {
                let before = signed.get();
                tokio::task::yield_now().await;
                most = most.max(signed.get() - before);
            }
            most
        };
        let most = tokio::time::timeout(Duration::from_secs(10), local.run_until(watch)).await;
        let most = most.expect("everybody has a turn");
        assert!((1..=2 * SIGNED_AT_ONCE).contains(&most), "{most} were signed at once");
    }

    #[tokio::test]
    async fn a_handshake_that_waits_for_its_peer_holds_no_turn() {
        let turns = Turns::default();
        for _ in 0..=SIGNED_AT_ONCE {
            let dawdling = std::pin::pin!(std::future::pending::<()>());
            let begun = tokio::time::timeout(Duration::from_secs(10), turns.begin(dawdling)).await;
            assert!(begun.expect("a turn is free").is_pending());
        }
    }
}
