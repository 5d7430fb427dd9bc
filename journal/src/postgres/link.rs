//! The way to the server, for callers that wait on a thread.
//!
//! Owns the connections, the thread they live on, how long a request may take, and what their failures are
//! called here. Must not know what is asked.

use super::place::PostgresPlace;
use crate::error::JournalError;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::ConfigVerifierExt as _;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Connections: one that writes, one that waits for its turn, and those that read.
const CONNECTIONS: usize = 6;
/// How long one request may take, whatever it is.
const REQUEST: Duration = Duration::from_secs(15);
/// How long somebody who waits for a reading may stand.
const READ: Duration = Duration::from_secs(5);
/// How long a server that did not answer is left alone by those who read.
const REST: Duration = Duration::from_secs(1);

/// Connections on a thread of their own. Whoever asks waits, on whatever thread it is.
pub(super) struct Link {
    pool: Pool,
    /// When the server did not answer last, until it does.
    down: Arc<Mutex<Option<Instant>>>,
    /// There until it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Link {
    /// Makes the link; connects when something is asked.
    pub(super) fn new(place: &PostgresPlace) -> Result<Self, JournalError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("leasehold-postgres")
            .enable_all()
            .build()?;
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let config = place.config.clone();
        let manager = if place.is_local() {
            Manager::from_config(config, NoTls, settings)
        } else {
            Manager::from_config(config, MakeRustlsConnect::new(tls(place)?), settings)
        };
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(REQUEST))
            .create_timeout(Some(REQUEST))
            .recycle_timeout(Some(REQUEST))
            .build()
            .map_err(|_| JournalError::Storage)?;
        Ok(Self { pool, down: Arc::default(), runtime: Some(runtime) })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.as_ref().expect("only an end takes it").handle()
    }

    /// Starts something that goes on beside the requests, until the link is dropped.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle().spawn(work);
    }

    /// The server answers again: whoever reads may ask it at once.
    pub(super) fn is_back(&self) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Carries a request out and waits for its end.
    ///
    /// # Errors
    /// What it answers; [`JournalError::Unreachable`] when it ends without an answer.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, JournalError>> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.handle().spawn(async move {
            if answer.send(request.await).is_err() {
                tracing::trace!("nobody waits for a request any more");
            }
        });
        answered.recv().unwrap_or(Err(JournalError::Unreachable))
    }

    /// The same for one request on a connection, within its time.
    /// What waits for it may be the engine itself, so a server that does not answer is not asked again at once.
    pub(super) fn ask<T, W>(
        &self,
        request: impl FnOnce(Arc<Object>) -> W + Send + 'static,
    ) -> Result<T, JournalError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, tokio_postgres::Error>> + Send + 'static,
    {
        let (pool, down) = (self.pool.clone(), Arc::clone(&self.down));
        if down.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < REST)
        {
            return Err(JournalError::Unreachable);
        }
        self.wait(async move {
            let asked = tokio::time::timeout(READ, async {
                let connection = Arc::new(connect(&pool).await?);
                let answered = within(request(Arc::clone(&connection))).await;
                if answered.is_ok() {
                    return answered;
                }
                // Whatever is still on its way, nobody else is to wait behind it.
                if let Some(connection) = Arc::into_inner(connection) {
                    drop(Object::take(connection));
                }
                answered
            });
            let answered = asked.await.unwrap_or(Err(JournalError::Unreachable));
            let gone = matches!(answered, Err(JournalError::Unreachable));
            *down.lock().unwrap_or_else(PoisonError::into_inner) = gone.then(Instant::now);
            answered
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A runtime that is simply dropped waits, which is not allowed on another runtime's thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection.
pub(super) async fn connect(pool: &Pool) -> Result<Object, JournalError> {
    match pool.get().await {
        Ok(connection) => Ok(connection),
        Err(PoolError::Backend(error)) => Err(named(&error)),
        Err(
            PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_),
        ) => Err(JournalError::Unreachable),
    }
}

/// The answer to a request, if it comes in time.
pub(super) async fn within<T>(
    request: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, JournalError> {
    match tokio::time::timeout(REQUEST, request).await {
        Ok(answer) => answer.map_err(|error| named(&error)),
        Err(_) => Err(JournalError::Unreachable),
    }
}

/// What a failure is called here. Its text stays where it is: it may name hosts, users and rows.
pub(super) fn named(error: &tokio_postgres::Error) -> JournalError {
    let Some(state) = error.code() else { return JournalError::Unreachable };
    let code = state.code();
    let missing =
        [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME, SqlState::CHECK_VIOLATION];
    // The last one: a frame whose partition is not there.
    if missing.contains(state) {
        JournalError::Missing
    } else if *state == SqlState::INVALID_CATALOG_NAME {
        JournalError::ParentMissing
    } else if code.starts_with("28") {
        JournalError::Credentials
    } else if *state == SqlState::INSUFFICIENT_PRIVILEGE {
        JournalError::ReadOnly
    } else if *state == SqlState::DISK_FULL {
        JournalError::Full
    } else if ["08", "57", "53", "25", "40", "55"].iter().any(|class| code.starts_with(class)) {
        // Connections, a server that became another one's standby, an operator who stops the server, resources, a transaction that was ended for
        // being idle, deadlocks, locks.
        JournalError::Unreachable
    } else {
        tracing::error!(code = "storage_failed", sqlstate = code, "the server refused a request");
        JournalError::Storage
    }
}

fn tls(place: &PostgresPlace) -> Result<rustls::ClientConfig, JournalError> {
    match &place.root_certificates {
        None => rustls::ClientConfig::with_platform_verifier().map_err(|_| JournalError::Storage),
        Some(file) => {
            let mut roots = rustls::RootCertStore::empty();
            let certificates =
                CertificateDer::pem_file_iter(file).map_err(|_| JournalError::UrlInvalid)?;
            for certificate in certificates {
                let certificate = certificate.map_err(|_| JournalError::UrlInvalid)?;
                roots.add(certificate).map_err(|_| JournalError::UrlInvalid)?;
            }
            Ok(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
        }
    }
}
