//! A connection to PostgreSQL that is made again when it breaks.
//!
//! A call is repeated, on a new connection and a little later each time, after an error that may
//! pass, or too long a silence, until an answer comes or the call's time is over. So what it does
//! may be done more than once, or after the call has failed: what changes something compares the
//! record that only it changes (`table.rs`), or does no harm twice.
//!
//! The server's process behind an old connection may still be at work. It holds the lock of the
//! record's row if it is about to change something, so what is sent again waits for it, and then
//! finds the record changed. A process that waits for the rest of a transaction ends by itself
//! (`idle_in_transaction_session_timeout`).

use super::address::Address;
use crate::causes::with_causes;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long the first answer may take; each further one twice as long, …
const SILENCE: Duration = Duration::from_secs(1);
/// … up to this time.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);
/// After so long a silence the other machine is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// What each session begins with. Whatever the user's settings are, a commit is on disk when it is
/// answered, an update that has waited for a row looks at it again, and keys are found by the
/// index, also if the planner knows nothing of the table yet. (What is not found so is taken to be
/// costly, and would be compiled each time: `jit`.)
const SETTINGS: &str = "\
    SET default_transaction_isolation = 'read committed'; \
    SET statement_timeout = 0; SET lock_timeout = 0; \
    SET idle_in_transaction_session_timeout = '5s'; \
    SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
    SELECT set_config('synchronous_commit', 'on', false) \
        WHERE current_setting('synchronous_commit') = 'off'";

/// Why a call failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// What was said: by PostgreSQL, or about it.
    pub(super) text: String,
    /// Whether a commit may have been carried out, or may yet.
    pub(super) may_be_done: bool,
    /// PostgreSQL has no room for it.
    pub(super) is_full: bool,
}

/// Why an attempt failed.
pub(super) enum Trouble {
    Said(Error),
    /// The answer does not come.
    Silence,
    /// The same call would find the same.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Said(error)
    }
}

/// How the database is reached.
#[derive(Clone)]
pub(super) struct Route {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Route {
    pub(super) fn new(address: &Address) -> Result<Route, String> {
        let mut config = address.config.clone();
        config.application_name("manx").connect_timeout(CONNECT).keepalives_idle(KEEP_ALIVE);
        // Of several hosts the one that may be written.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let tls = match &address.ca {
            Some(pem) => Some(tls(pem)?),
            None if address.is_secure() => return Err("it is not known which servers to trust".into()),
            None => {
                config.ssl_mode(SslMode::Disable);
                None
            }
        };
        Ok(Route { config, tls })
    }

    /// Connects. The task serves the connection.
    async fn connect(&self) -> Result<(Client, JoinHandle<()>), Error> {
        // What ends a connection is told to its calls.
        Ok(match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, tokio::spawn(async move { drop(connection.await) }))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, tokio::spawn(async move { drop(connection.await) }))
            }
        })
    }
}

/// A client that trusts these authorities.
fn tls(pem: &[u8]) -> Result<MakeRustlsConnect, String> {
    let unfit =
        |error: &dyn std::error::Error| format!("the authorities' certificates cannot be used: {error}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unfit(&error))?;
        roots.add(certificate).map_err(|error| unfit(&error))?;
    }
    if roots.is_empty() {
        return Err(
            "there is no certificate of an authority: it begins with -----BEGIN CERTIFICATE-----".into()
        );
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&error))?;
    Ok(MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// A connection that lives.
pub(super) struct Session {
    pub(super) client: Client,
    task: JoinHandle<()>,
    silence: Duration,
    has_sent: Cell<bool>,
    prepared: OnceCell<Statement>,
}

impl Session {
    /// Waits for an answer, not for ever.
    pub(super) async fn timely<T, E: Into<Trouble>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Trouble> {
        match timeout(self.silence, answer).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => Err(Trouble::Silence),
        }
    }

    /// A commit is sent now: without an answer it may be carried out.
    pub(super) fn commits(&self) {
        self.has_sent.set(true);
    }

    /// The one statement that this connection repeats.
    pub(super) async fn prepared(&self, text: &str) -> Result<&Statement, Trouble> {
        self.timely(self.prepared.get_or_try_init(|| self.client.prepare(text))).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// See [the module](self).
pub(super) struct Link {
    route: Route,
    session: Option<Session>,
}

impl Link {
    /// Connects lazily.
    pub(super) fn new(route: &Route) -> Link {
        Link { route: route.clone(), session: None }
    }

    /// Attempts something until there is an answer, or it is too late.
    pub(super) async fn call<R>(
        &mut self,
        until: Instant,
        attempt: impl AsyncFn(&Session) -> Result<R, Trouble>,
    ) -> Result<R, Failed> {
        let (mut silence, mut backoff, mut may_be_done) = (SILENCE, BACKOFF, false);
        loop {
            let trouble = match self.session(silence.min(until - Instant::now())).await {
                Ok(session) => match attempt(session).await {
                    Ok(answer) => return Ok(answer),
                    Err(trouble) => trouble,
                },
                Err(trouble) => trouble,
            };
            let has_sent = self.session.take().is_some_and(|session| session.has_sent.get());
            let mut is_full = false;
            let (is_over, text) = match trouble {
                Trouble::Said(error) => {
                    is_full = error.code() == Some(&SqlState::DISK_FULL);
                    (!may_pass(&error), text_of(&error))
                }
                Trouble::Silence => (false, "no answer".into()),
                Trouble::Wrong(text) => (true, text),
            };
            // After a refusal nothing was changed.
            may_be_done |= has_sent && !is_over;
            if is_over || Instant::now() + backoff >= until {
                return Err(Failed { text, may_be_done, is_full });
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
            silence = (silence * 2).min(SILENCE_MAX);
        }
    }

    /// The connection, a new one if need be.
    async fn session(&mut self, silence: Duration) -> Result<&Session, Trouble> {
        let session = match self.session.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => {
                let hosts = u32::try_from(self.route.config.get_hosts().len()).unwrap_or(1);
                let connected = timeout(CONNECT * hosts, self.route.connect()).await;
                let (client, task) = connected.map_err(|_| Trouble::Silence)??;
                let (has_sent, prepared) = (Cell::new(false), OnceCell::new());
                let session = Session { client, task, silence, has_sent, prepared };
                session.timely(session.client.batch_execute(SETTINGS)).await?;
                session
            }
        };
        let session = self.session.insert(session);
        session.silence = silence;
        session.has_sent.set(false);
        Ok(session)
    }
}

/// Whether another attempt may succeed, on a new connection.
fn may_pass(error: &Error) -> bool {
    if let Some(code) = error.code() {
        // The server ends, or a connection of it; two transactions are in each other's way; another
        // server of the database is to be asked.
        let codes = [
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::LOCK_NOT_AVAILABLE,
        ];
        let class = &code.code()[..2];
        return class == "08" || class == "57" || codes.contains(code);
    }
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        // What TLS says of a certificate, and what has no address.
        Some(kind) => !matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput),
        None => error.is_closed(),
    }
}

fn text_of(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => match said.hint().or(said.detail()) {
            Some(more) => format!("{}: {more}", said.message()),
            None => said.message().to_owned(),
        },
        None => with_causes(error),
    }
}
