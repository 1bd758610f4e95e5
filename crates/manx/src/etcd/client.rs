//! Calls of an etcd cluster.
//!
//! A call goes to the member that answered last. A member may be dead, stopped, without a leader or
//! just slow: after an error that may pass, or too long a silence, the call is repeated at the next
//! member, a little later each time, until an answer comes or the call's time is over. So a request
//! may be carried out more than once, or after its call has failed: requests that change something
//! are transactions that compare what only they change (`txn/etcd/chain.rs`), or do no harm twice.
//!
//! A call, a stream and a lease's heartbeats go to the same member. So the heartbeat, which never
//! pauses, also shows that a stream without messages is alive: a member that was stopped keeps its
//! connections and says nothing. When the client *goes on* to the next member, those that wait for
//! a stream are told ([`Client::moved`]).
//!
//! A member that has no leader answers at once that it has none, because each call asks for that
//! (`hasleader`). With a user, each call has a token, which is asked for first, and again when etcd
//! no longer knows it.

use super::address::Address;
use super::messages::{
    AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, LEASE_KEEP_ALIVE, LeaseRequest, LeaseResponse,
    WATCH, WatchRequest, WatchResponse,
};
use crate::causes::with_causes;
use crate::lock::Mutex;
use http::uri::PathAndQuery;
use prost::Message;
use std::fmt;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// How long the first member may be silent, if nothing else is said; each further one twice as
/// long, …
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// … up to this time.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(1);
/// After so long a silence a member is asked whether it is there. Etcd ends connections that ask
/// more often than every 5 s.
const PING: Duration = Duration::from_secs(10);
/// The bytes that a member may send ahead of what was read: pages are large.
const WINDOW_BYTES: u32 = 8 << 20;
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// A page of entries may be as large as etcd's whole database.
const ANSWER_BYTES_MAX: usize = 1 << 31;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What was said: by etcd, or about it.
    pub(crate) text: String,
    /// Whether etcd may have carried it out, or may yet.
    pub(crate) may_be_done: bool,
    /// Whether etcd has said that it will not do it. Otherwise the time was over.
    pub(crate) is_refusal: bool,
}

impl Failed {
    /// Whether etcd has no room for what is written. It says so before it does anything or
    /// afterwards, and then to each call that writes, until an operator has made room.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.text.contains("database space exceeded")
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

/// What a call said.
pub(crate) struct Answer<R> {
    pub(crate) value: R,
    /// Whether an earlier attempt of the call may still be carried out.
    pub(crate) is_doubtful: bool,
    /// When the attempt was sent that was answered.
    pub(crate) sent: Instant,
    /// How often the client had gone on to another member then.
    pub(crate) moves: usize,
}

/// What an error of one attempt means.
enum Kind {
    /// Etcd will not do it; the same request would fail again.
    Refused,
    /// It may have been done, or not; another attempt may succeed.
    Retry,
    /// The token is not, or no longer, known.
    Token,
}

struct Member {
    name: String,
    endpoint: Endpoint,
    channel: Mutex<Channel>,
}

/// A connection to each member; calls are made in a runtime of tokio.
pub(crate) struct Client {
    members: Vec<Member>,
    /// How often it has gone on to the next member: this number tells which one is asked.
    moves: watch::Sender<usize>,
    /// Why it has gone on the last time.
    why: Mutex<String>,
    /// How long the first member may be silent.
    silence: Duration,
    user: Option<(String, String)>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

impl Client {
    /// Connects lazily. To be called in the runtime.
    pub(crate) fn new(address: &Address, silence: Duration) -> Result<Client, String> {
        let connect = |member: &String| {
            let scheme = if address.is_secure { "https" } else { "http" };
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{member}"))
                .map_err(|error| format!("{member}: {error}"))?
                .connect_timeout(CONNECT)
                .http2_keep_alive_interval(PING)
                .keep_alive_timeout(CONNECT)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .tcp_nodelay(true);
            if address.is_secure {
                let tls = tls(address);
                endpoint = endpoint.tls_config(tls).map_err(|error| {
                    format!("the certificates for etcd cannot be used: {}", with_causes(&error))
                })?;
            }
            let channel = Mutex::new(endpoint.connect_lazy());
            Ok(Member { name: member.clone(), endpoint, channel })
        };
        let members = address.members.iter().map(connect).collect::<Result<Vec<_>, String>>()?;
        let password = address.password.clone().unwrap_or_default();
        let user = address.user.clone().map(|user| (user, password));
        let (moves, why, token) = (watch::Sender::new(0), Mutex::default(), Mutex::default());
        Ok(Client { members, moves, why, silence, user, token })
    }

    /// Calls until there is an answer, or it is too late.
    pub(crate) async fn call<Q, R>(
        &self,
        path: &'static str,
        request: &Q,
        until: Instant,
    ) -> Result<R, Failed>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.ask(path, request, until).await.map(|answer| answer.value)
    }

    /// The same; and tells how the answer came.
    pub(crate) async fn ask<Q, R>(
        &self,
        path: &'static str,
        request: &Q,
        until: Instant,
    ) -> Result<Answer<R>, Failed>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.repeat(until, |channel, token| async move {
            let mut grpc = ready(channel).await?;
            let request = with_metadata(Request::new(request.clone()), token);
            let path = PathAndQuery::from_static(path);
            grpc.unary(request, path, ProstCodec::<Q, R>::default()).await.map(tonic::Response::into_inner)
        })
        .await
    }

    /// Keeps a lease alive; the answer says for how many seconds it lives from when it was sent.
    pub(crate) async fn keep_alive(&self, id: i64, until: Instant) -> Result<Answer<LeaseResponse>, Failed> {
        self.repeat(until, |channel, token| async move {
            let mut grpc = ready(channel).await?;
            let once = tokio_stream::once(LeaseRequest { id });
            let request = with_metadata(Request::new(once), token);
            let path = PathAndQuery::from_static(LEASE_KEEP_ALIVE);
            let codec = ProstCodec::<LeaseRequest, LeaseResponse>::default();
            let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
            answers.message().await?.ok_or_else(|| Status::unavailable("the answer ended"))
        })
        .await
    }

    /// Opens a stream of changes.
    pub(crate) async fn watch(
        &self,
        request: WatchRequest,
        until: Instant,
    ) -> Result<Answer<Streaming<WatchResponse>>, Failed> {
        let request = &request;
        self.repeat(until, |channel, token| async move {
            let mut grpc = ready(channel).await?;
            // The stream of requests stays open: its end may end the watch.
            let requests = tokio_stream::once(request.clone()).chain(tokio_stream::pending());
            let request = with_metadata(Request::new(requests), token);
            let path = PathAndQuery::from_static(WATCH);
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            Ok(grpc.streaming(request, path, codec).await?.into_inner())
        })
        .await
    }

    /// How often it has gone on to another member.
    pub(crate) fn moves(&self) -> usize {
        *self.moves.borrow()
    }

    /// Returns when it has gone on to another member after `moves`. A stream of a member that was
    /// stopped does not end: what waits for its next message waits for this, too.
    pub(crate) async fn moved(&self, moves: usize) {
        // The sender is here, so it is not gone.
        let _ = self.moves.subscribe().wait_for(|now| *now != moves).await;
    }

    /// Further calls go to another member than after `moves`.
    pub(crate) fn go_on(&self, moves: usize, why: &str) {
        let goes_on = self.moves.send_if_modified(|now| {
            let is_first = *now == moves;
            *now += usize::from(is_first);
            is_first
        });
        if goes_on {
            why.clone_into(&mut self.why.lock());
        }
    }

    /// Why it has gone on to another member the last time.
    pub(crate) fn why(&self) -> String {
        self.why.lock().clone()
    }

    async fn repeat<R, F: Future<Output = Result<R, Status>>>(
        &self,
        until: Instant,
        attempt: impl Fn(Channel, Option<MetadataValue<Ascii>>) -> F,
    ) -> Result<Answer<R>, Failed> {
        let (mut silence, mut backoff, mut may_be_done) = (self.silence, BACKOFF, false);
        loop {
            let moves = self.moves();
            let Member { name, endpoint, channel } = &self.members[moves % self.members.len()];
            let channel_now = channel.lock().clone();
            let sent = Instant::now();
            let late = until.min(sent + silence);
            let answer = timeout_at(late, async {
                let token = self.token(&channel_now).await?;
                attempt(channel_now.clone(), token).await
            });
            let (kind, text) = match answer.await {
                Ok(Ok(value)) => return Ok(Answer { value, is_doubtful: may_be_done, sent, moves }),
                Ok(Err(status)) => (kind_of(&status), format!("{name}: {}", text_of(&status))),
                Err(_) => {
                    // Nothing may ever come by this connection.
                    *channel.lock() = endpoint.connect_lazy();
                    (Kind::Retry, format!("{name}: no answer within {:?}", sent.elapsed()))
                }
            };
            may_be_done |= matches!(kind, Kind::Retry);
            match kind {
                Kind::Refused => return Err(Failed { text, may_be_done, is_refusal: true }),
                Kind::Token => *self.token.lock() = None,
                Kind::Retry => {
                    self.go_on(moves, &text);
                    silence = (silence * 2).min(SILENCE_MAX);
                }
            }
            if Instant::now() + backoff >= until {
                return Err(Failed { text, may_be_done, is_refusal: false });
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// The user's token, if there is a user.
    async fn token(&self, channel: &Channel) -> Result<Option<MetadataValue<Ascii>>, Status> {
        let Some((name, password)) = &self.user else { return Ok(None) };
        let known = self.token.lock().clone();
        if known.is_some() {
            return Ok(known);
        }
        let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
        let request = with_metadata(Request::new(request), None);
        let path = PathAndQuery::from_static(AUTHENTICATE);
        let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
        let answer = ready(channel.clone()).await?.unary(request, path, codec).await?.into_inner();
        let token = MetadataValue::try_from(answer.token)
            .map_err(|_| Status::internal("its token for the user is no text"))?;
        *self.token.lock() = Some(token.clone());
        Ok(Some(token))
    }
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    grpc.ready().await.map_err(|error| Status::unavailable(with_causes(&error)))?;
    Ok(grpc)
}

fn with_metadata<T>(mut request: Request<T>, token: Option<MetadataValue<Ascii>>) -> Request<T> {
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}

fn tls(address: &Address) -> ClientTlsConfig {
    let mut tls = ClientTlsConfig::new();
    if let Some(domain) = &address.domain {
        tls = tls.domain_name(domain);
    }
    if let Some(ca) = &address.ca {
        tls = tls.ca_certificate(Certificate::from_pem(ca));
    }
    if let Some((certificate, key)) = &address.identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    tls
}

fn kind_of(status: &Status) -> Kind {
    let says = |what: &str| status.message().contains(what);
    match status.code() {
        Code::Unauthenticated => Kind::Token,
        _ if says("invalid auth token") || says("revision of auth store is old") => Kind::Token,
        Code::ResourceExhausted if says("too many requests") => Kind::Retry,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Kind::Refused,
        _ => Kind::Retry,
    }
}

fn text_of(status: &Status) -> String {
    let message = status.message();
    let message = message.strip_prefix("etcdserver: ").unwrap_or(message);
    match std::error::Error::source(status) {
        Some(cause) => format!("{message}: {}", with_causes(cause)),
        None if message.is_empty() => status.code().to_string(),
        None => message.to_owned(),
    }
}
