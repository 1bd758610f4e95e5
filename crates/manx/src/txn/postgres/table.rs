//! The table of a store, the record of its owner, and what a server does there: it takes the store
//! over, reads it, and commits groups of batches, each as one transaction.
//!
//! | table | what |
//! | --- | --- |
//! | `manx` | the entries: `key`, `value`. Keys are of the type `bytea`, which is ordered by its bytes |
//! | `manx_record` | one row: what a later owner will find, the owner's epoch, and its step |
//! | `manx_lease` | one row: the owner, and a beat that rises as long as the owner lives (`owner.rs`) |
//!
//! # The chain
//! A commit is one statement. It changes the record if that has the owner's epoch and its last
//! step, and the entries only if it has changed the record:
//!
//! ```text
//!   WITH link AS (UPDATE record SET step = step + 1, … WHERE epoch = … AND step = … RETURNING …)
//!        puts and deletions of arrays of keys, WHERE EXISTS (link)
//! ```
//!
//! The record's row is locked until the end of the transaction, and the condition is looked at
//! again after a wait for the lock (`READ COMMITTED`). So there is one order of all changes,
//! whatever arrives late or twice:
//!
//! - **Fencing.** A server takes over by a higher epoch. From then on no statement of an older
//!   owner changes anything, also not one that was on its way or waits for the lock.
//! - **Ambiguous answers.** A statement without an answer is sent again as it was. If it was
//!   carried out meanwhile, the step has changed, and the record shows that. If another server has
//!   taken over, its record says which step it found; so the owner knows even then, unless a third
//!   server has come.
//!
//! A group that is too large for one statement is cut into pieces, between `BEGIN` and `COMMIT`.
//! Each piece is a statement of the same form, and a step.
//!
//! A group for which PostgreSQL has no room is sent again until it has; meanwhile batches are
//! refused, and reads go on (`txn/remote/queue.rs`). A log without room ends PostgreSQL, as a crash
//! does.
//!
//! Invariants:
//! 1. `epoch` and `step` are those of the record after this owner's last commit.
//! 2. Whatever changes the record holds the lock of its row, and compares the epoch.
//! 3. Statements of one owner are sent one after the other.

use super::address::Address;
use super::link::{Failed, Link, Route, Session, Trouble};
use crate::txn::remote::owner::Entries;
use crate::txn::remote::queue::{Broken, Group, Queue, Size};
use crate::txn::{Outcome, Recovered, Value};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use tokio_stream::StreamExt as _;

/// What is one statement.
pub(super) const SIZE: Size = Size { changes_max: 4096, bytes_max: 4 << 20 };
/// What a record begins with.
const TITLE: &str = "manx 1";

/// The statements, with the names of the tables.
struct Statements {
    find: String,
    is_foreign: String,
    create: String,
    take: String,
    take_lease: String,
    beat: String,
    release: String,
    read: String,
    commit: String,
    rise: String,
}

/// What all calls of a store need.
#[derive(Clone)]
pub(super) struct Site {
    /// The store's address, for messages.
    pub(super) place: Arc<str>,
    /// For how long a call is repeated.
    patience: Duration,
    queue: Arc<Queue>,
    route: Route,
    statements: Arc<Statements>,
    /// For everything but entries: a long commit does not keep the lease from being renewed.
    link: Arc<Mutex<Link>>,
}

/// The record and the lease, as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    epoch: i64,
    step: i64,
    /// The epoch and the step that the owner found when it took the store over.
    found: (i64, i64),
    /// The first epoch of the owner, and its beat.
    pub(super) beat: (i64, i64),
    /// For how long the store is the owner's after a beat. 0: it is free.
    pub(super) lease_ms: i64,
}

/// A taken store.
pub(super) struct Table {
    site: Site,
    link: Link,
    /// The first epoch of this owner, which no other server has.
    pub(super) owner: i64,
    epoch: i64,
    step: i64,
    known: Recovered,
}

impl Statements {
    fn new(table: &str) -> Statements {
        // A name has no quotation mark (`address.rs`).
        let (schema, name) = match table.split_once('.') {
            Some((schema, name)) => (format!("\"{schema}\"."), name),
            None => (String::new(), table),
        };
        let [entries, record, lease] =
            ["", "_record", "_lease"].map(|ending| format!("{schema}\"{name}{ending}\""));
        let known = "last_id::text, \"timestamp\"::text, oldest_timestamp::text";
        Statements {
            find: format!(
                "SELECT title, epoch, step, found_epoch, found_step, owner, beat, lease_ms, \
                    current_setting('fsync') = 'on' FROM {record}, {lease}"
            ),
            is_foreign: format!("SELECT coalesce(to_regclass('{entries}'), to_regclass('{record}'))::text"),
            // Two servers may come at once.
            create: format!(
                "BEGIN; SELECT pg_advisory_xact_lock(hashtext('manx')); \
                CREATE TABLE IF NOT EXISTS {entries} (key bytea PRIMARY KEY, value bytea NOT NULL); \
                CREATE TABLE IF NOT EXISTS {record} (is_only boolean PRIMARY KEY CHECK (is_only), \
                    title text NOT NULL, epoch bigint NOT NULL, step bigint NOT NULL, \
                    last_id numeric(20) NOT NULL, \"timestamp\" numeric(20) NOT NULL, \
                    oldest_timestamp numeric(20) NOT NULL, \
                    found_epoch bigint NOT NULL, found_step bigint NOT NULL); \
                CREATE TABLE IF NOT EXISTS {lease} (is_only boolean PRIMARY KEY CHECK (is_only), \
                    owner bigint NOT NULL, beat bigint NOT NULL, lease_ms bigint NOT NULL); \
                INSERT INTO {record} VALUES (true, '{TITLE}', 0, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING; \
                INSERT INTO {lease} VALUES (true, 0, 0, 0) ON CONFLICT DO NOTHING; \
                COMMIT"
            ),
            take: format!(
                "UPDATE {record} SET epoch = epoch + 1, found_epoch = epoch, found_step = step \
                    WHERE epoch = $1 RETURNING epoch, step, {known}"
            ),
            take_lease: format!(
                "UPDATE {lease} SET owner = $1, beat = beat + 1, lease_ms = $2 \
                    WHERE owner = $3 AND beat = $4"
            ),
            beat: format!("UPDATE {lease} SET beat = beat + 1 WHERE owner = $1"),
            release: format!("UPDATE {lease} SET lease_ms = 0 WHERE owner = $1"),
            read: format!("SELECT key, value FROM {entries}"),
            commit: format!(
                "WITH link AS (UPDATE {record} SET step = step + 1, last_id = $3::text::numeric, \
                        \"timestamp\" = $4::text::numeric, oldest_timestamp = $5::text::numeric \
                        WHERE epoch = $1 AND step = $2 RETURNING 1), \
                    puts AS (INSERT INTO {entries} SELECT * FROM unnest($6::bytea[], $7::bytea[]) \
                        WHERE EXISTS (SELECT FROM link) \
                        ON CONFLICT (key) DO UPDATE SET value = excluded.value), \
                    deletions AS (DELETE FROM {entries} \
                        WHERE key = ANY ($8::bytea[]) AND EXISTS (SELECT FROM link)) \
                SELECT count(*) FROM link"
            ),
            rise: format!(
                "UPDATE {record} SET epoch = epoch + 1, found_epoch = epoch, found_step = step \
                    WHERE epoch = $1 AND step = $2"
            ),
        }
    }
}

impl Site {
    pub(super) fn new(address: &Address, patience: Duration, queue: Arc<Queue>) -> Result<Site, String> {
        let route = Route::new(address)?;
        Ok(Site {
            place: address.to_string().into(),
            patience,
            queue,
            statements: Arc::new(Statements::new(&address.table)),
            link: Arc::new(Mutex::new(Link::new(&route))),
            route,
        })
    }

    fn until(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// An error that has changed nothing.
    fn error(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.place)
    }

    async fn call<R>(
        &self,
        until: Instant,
        attempt: impl AsyncFn(&Session) -> Result<R, Trouble>,
    ) -> Result<R, Failed> {
        self.link.lock().await.call(until, attempt).await
    }

    /// The record, if there is a store.
    pub(super) async fn find(&self) -> Result<Option<Found>, String> {
        let attempt = async |session: &Session| self.find_in(session).await;
        self.call(self.until(), attempt).await.map_err(|failed| self.error(failed.text))
    }

    async fn find_in(&self, session: &Session) -> Result<Option<Found>, Trouble> {
        let (client, statements) = (&session.client, &*self.statements);
        let foreign = |name: &str| {
            Trouble::Wrong(format!(
                "the table `{name}` is there, but it is no store of this version: name another with ?table=NAME"
            ))
        };
        let asked = session.timely(client.query_opt(&*statements.find, &[])).await;
        let row = match asked {
            Ok(row) => row.ok_or_else(|| Trouble::Wrong("its record is gone: restore a backup".into()))?,
            Err(Trouble::Said(error)) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                let there = session.timely(client.query_one(&*statements.is_foreign, &[])).await?;
                // Another server may make the store just now: it makes all at once.
                return match there.try_get::<_, Option<String>>(0)? {
                    Some(name) => Err(foreign(&name)),
                    None => Ok(None),
                };
            }
            Err(Trouble::Said(error)) if error.code() == Some(&SqlState::UNDEFINED_COLUMN) => {
                return Err(foreign("manx_record"));
            }
            Err(trouble) => return Err(trouble),
        };
        if row.try_get::<_, &str>(0)? != TITLE {
            let what = "its record is of another version: use the version of manx that has written it";
            return Err(Trouble::Wrong(what.into()));
        }
        if !row.try_get::<_, bool>(8)? {
            let what = "fsync is off there, so a loss of power would lose commits: switch it on";
            return Err(Trouble::Wrong(what.into()));
        }
        Ok(Some(Found {
            epoch: row.try_get(1)?,
            step: row.try_get(2)?,
            found: (row.try_get(3)?, row.try_get(4)?),
            beat: (row.try_get(5)?, row.try_get(6)?),
            lease_ms: row.try_get(7)?,
        }))
    }

    /// Makes the tables.
    pub(super) async fn create(&self) -> Result<(), String> {
        let attempt = async |session: &Session| {
            session.timely(session.client.batch_execute(&self.statements.create)).await
        };
        self.call(self.until(), attempt).await.map_err(|failed| self.error(failed.text))
    }

    /// Takes the store over from the owner that was found; `None` if that one still lives, or
    /// another server came first.
    pub(super) async fn take_over(&self, found: &Found, lease_ms: i64) -> Result<Option<Table>, String> {
        // Without an answer the store may have this server's name, and nothing renews its lease:
        // then it is waited for as for any other.
        let attempt = async |session: &Session| {
            let (client, statements) = (&session.client, &*self.statements);
            session.timely(client.batch_execute("BEGIN")).await?;
            // The last commit of the older owner may be on its way: this waits for its end.
            let row = session.timely(client.query_opt(&*statements.take, &[&found.epoch])).await?;
            if let Some(row) = row {
                let (owner, beat) = found.beat;
                let epoch: i64 = row.try_get(0)?;
                let parameters: [&(dyn ToSql + Sync); 4] = [&epoch, &lease_ms, &owner, &beat];
                let taken = client.execute(&*statements.take_lease, &parameters);
                if session.timely(taken).await? == 1 {
                    session.timely(client.batch_execute("COMMIT")).await?;
                    return Ok(Some((epoch, row.try_get(1)?, known(&row)?)));
                }
            }
            session.timely(client.batch_execute("ROLLBACK")).await?;
            Ok(None)
        };
        let taken = self.call(self.until(), attempt).await.map_err(|failed| self.error(failed.text))?;
        Ok(taken.map(|(epoch, step, known)| {
            let link = Link::new(&self.route);
            Table { site: self.clone(), link, owner: epoch, epoch, step, known }
        }))
    }

    /// Says that the owner lives; whether it is the owner.
    pub(super) async fn beat(&self, owner: i64, time: Duration) -> Result<bool, Failed> {
        let attempt = async |session: &Session| {
            let statement = session.prepared(&self.statements.beat).await?;
            session.timely(session.client.execute(statement, &[&owner])).await
        };
        Ok(self.call(Instant::now() + time, attempt).await? == 1)
    }

    /// Gives the store free. If that fails the lease ends by itself.
    pub(super) async fn release(&self, owner: i64) {
        let attempt = async |session: &Session| {
            session.timely(session.client.execute(&*self.statements.release, &[&owner])).await
        };
        let until = Instant::now() + Duration::from_secs(1).min(self.patience);
        let _ = self.call(until, attempt).await;
    }
}

impl Table {
    pub(super) fn known(&self) -> Recovered {
        self.known
    }

    /// All entries.
    pub(super) async fn read(&mut self) -> Result<Entries, Broken> {
        let statement = &*self.site.statements.read;
        let attempt = async |session: &Session| {
            let client = &session.client;
            let begin = "BEGIN READ ONLY; SET LOCAL enable_seqscan = on";
            session.timely(client.batch_execute(begin)).await?;
            let none = std::iter::empty::<&(dyn ToSql + Sync)>();
            let mut rows = pin!(session.timely(client.query_raw(statement, none)).await?);
            let mut entries = Vec::new();
            loop {
                let next = async { Ok::<_, Error>(rows.next().await) };
                let Some(row) = session.timely(next).await? else { break };
                let row = row?;
                let (key, value): (&[u8], &[u8]) = (row.try_get(0)?, row.try_get(1)?);
                entries.push((Value::from(key), Value::from(value)));
            }
            session.timely(client.batch_execute("COMMIT")).await?;
            Ok(entries)
        };
        let read = self.link.call(self.site.until(), attempt).await;
        read.map(|entries| entries.into_iter().collect())
            .map_err(|failed| Broken { text: self.site.error(failed.text), flying: Outcome::NotApplied })
    }

    /// Commits a group.
    pub(super) async fn commit(&mut self, group: &Group) -> Result<(), Broken> {
        let pieces = pieces(group);
        let statement = &self.site.statements.commit;
        let Recovered { last_id, timestamp, oldest_timestamp, .. } = group.known;
        let [last_id, timestamp, oldest] =
            [last_id, timestamp, oldest_timestamp].map(|number| number.to_string());
        let (epoch, first) = (self.epoch, self.step);
        let attempt = async |session: &Session| {
            let (client, is_one) = (&session.client, pieces.len() == 1);
            let statement = session.prepared(statement).await?;
            if is_one {
                session.commits();
            } else {
                session.timely(client.batch_execute("BEGIN")).await?;
            }
            for (step, piece) in (first..).zip(&pieces) {
                let Piece { keys, values, gone } = piece;
                let parameters: [&(dyn ToSql + Sync); 8] =
                    [&epoch, &step, &last_id, &timestamp, &oldest, keys, values, gone];
                let row = session.timely(client.query_one(statement, &parameters)).await?;
                if row.try_get::<_, i64>(0)? == 0 {
                    if !is_one {
                        session.timely(client.batch_execute("ROLLBACK")).await?;
                    }
                    return Ok(false);
                }
            }
            if !is_one {
                session.commits();
                session.timely(client.batch_execute("COMMIT")).await?;
            }
            Ok(true)
        };
        let (mut was_full, mut may_be_done) = (false, false);
        let changed = loop {
            match self.link.call(self.site.until(), &attempt).await {
                Ok(changed) => break changed,
                Err(failed) => {
                    may_be_done |= failed.may_be_done;
                    if !failed.is_full || !self.waits_for_room(&failed).await {
                        return Err(self.broken(Failed { may_be_done, ..failed }));
                    }
                    was_full = true;
                }
            }
        };
        if was_full {
            self.site.queue.admit();
        }
        let wanted = first + i64::try_from(pieces.len()).unwrap_or(i64::MAX);
        if !changed {
            let now = self.look().await?;
            if now.is_none_or(|now| (now.epoch, now.step) != (epoch, wanted)) {
                return Err(self.fenced(now, Some(wanted)));
            }
        }
        (self.step, self.known) = (wanted, group.known);
        Ok(())
    }

    /// Tells that PostgreSQL has no room, and waits a little; not if the store is closed.
    async fn waits_for_room(&self, why: &Failed) -> bool {
        let text = format!("{}: make room on its disk; until then nothing is changed", why.text);
        self.site.queue.waits_for_room(self.site.error(text)).await
    }

    /// The same owner's next epoch.
    pub(super) async fn rise(&mut self) -> Result<(), Broken> {
        let (statement, epoch, step) = (&*self.site.statements.rise, self.epoch, self.step);
        let attempt = async |session: &Session| {
            session.timely(session.client.execute(statement, &[&epoch, &step])).await
        };
        let risen = self.link.call(self.site.until(), attempt).await;
        if risen.map_err(|failed| self.broken(failed))? == 0 {
            let now = self.look().await?;
            if now.is_none_or(|now| (now.epoch, now.beat.0) != (epoch + 1, self.owner)) {
                return Err(self.fenced(now, None));
            }
        }
        self.epoch += 1;
        self.known.epoch += 1;
        Ok(())
    }

    /// Whether the store is still this server's.
    pub(super) async fn confirm(&mut self) -> Result<(), Broken> {
        match self.look().await? {
            Some(now) if now.beat.0 == self.owner => Ok(()),
            now => Err(self.fenced(now, None)),
        }
    }

    /// The record, after a statement that has found another one than it wanted.
    async fn look(&mut self) -> Result<Option<Found>, Broken> {
        let site = &self.site;
        let attempt = async |session: &Session| site.find_in(session).await;
        let looked = self.link.call(site.until(), attempt).await;
        looked.map_err(|failed| self.broken(Failed { may_be_done: true, ..failed }))
    }

    /// PostgreSQL has not done it, or has not answered.
    fn broken(&self, failed: Failed) -> Broken {
        let (what, flying) = match failed.may_be_done {
            true => ("whether the last changes were made is not known", Outcome::Unknown),
            false => ("the last changes were not made", Outcome::NotApplied),
        };
        let text = failed.text;
        let text =
            format!("{text}: {what}, and nothing is changed any more: see to PostgreSQL, and start again");
        Broken { text: self.site.error(text), flying }
    }

    /// The record is no longer this owner's; `wanted` is the step that was to be made.
    fn fenced(&self, now: Option<Found>, wanted: Option<i64>) -> Broken {
        let (text, flying) = match now {
            Some(now) if now.epoch > self.epoch => {
                let text =
                    format!("another server has taken it over (epoch {}, here {})", now.epoch, self.epoch);
                let is_out = match wanted {
                    None => true,
                    // If the next owner has found this step, it was made; a third owner has
                    // forgotten what the second one found.
                    Some(wanted) => now.found.0 == self.epoch && now.found.1 < wanted,
                };
                (text, if is_out { Outcome::Fenced } else { Outcome::Unknown })
            }
            _ => {
                let text = "its record is gone, or was changed by hand: nothing is changed any more";
                (text.into(), Outcome::Unknown)
            }
        };
        Broken { text: self.site.error(text), flying }
    }
}

/// What a row of the record says that a later owner finds.
fn known(row: &Row) -> Result<Recovered, Trouble> {
    let number = |index: usize| {
        let text: &str = row.try_get(index)?;
        text.parse::<u64>().map_err(|_| Trouble::Wrong(format!("its record has no number but `{text}`")))
    };
    let epoch = u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
    Ok(Recovered { epoch, last_id: number(2)?, timestamp: number(3)?, oldest_timestamp: number(4)? })
}

/// A part of a group that is one statement.
#[derive(Default)]
struct Piece<'a> {
    keys: Vec<&'a [u8]>,
    values: Vec<&'a [u8]>,
    gone: Vec<&'a [u8]>,
}

/// Cuts a group, which may be empty, into one piece or more.
fn pieces(group: &Group) -> Vec<Piece<'_>> {
    let (mut pieces, mut piece, mut count, mut bytes) = (Vec::new(), Piece::default(), 0, 0);
    for (key, value) in &group.changes {
        let more = key.len() + value.as_ref().map_or(0, |value| value.len());
        if count > 0 && (count == SIZE.changes_max || bytes + more > SIZE.bytes_max) {
            pieces.push(std::mem::take(&mut piece));
            (count, bytes) = (0, 0);
        }
        (count, bytes) = (count + 1, bytes + more);
        match value {
            Some(value) => {
                piece.keys.push(&**key);
                piece.values.push(&**value);
            }
            None => piece.gone.push(&**key),
        }
    }
    pieces.push(piece);
    pieces
}
