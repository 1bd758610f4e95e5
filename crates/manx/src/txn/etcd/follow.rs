//! A server that waits for a store follows it: it reads all entries once, and then what the owner
//! changes, by a watch of etcd. So when it takes over, it need not read everything first.
//!
//! A watch begins at a revision and tells all changes from there on, in their order, those of one
//! revision together. It covers all keys of the store, the record too: the new owner has all that
//! was before when the watch tells of the owner's own record. A watch that breaks is opened again
//! where it ended, at another member.
//!
//! 1. `entries` are those of `revision`.
//! 2. What cannot be followed (etcd has compacted the revision, or is silent for too long) is
//!    given up, and read as a whole.

use super::chain::Site;
use crate::etcd::client::Failed;
use crate::etcd::messages::{
    Event, RANGE, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::txn::Value;
use crate::txn::remote::owner::Entries;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Streaming;

/// The most entries of a page. A first page has few, because their size is not known.
const PAGE_MAX: i64 = 4096;
const PAGE_FIRST: i64 = 64;
/// About as many bytes are to be in a page.
const PAGE_BYTES: usize = 4 << 20;
/// When the last changes are awaited and a member is silent for so long, another one is asked.
const SILENCE: Duration = Duration::from_secs(1);

/// See [the module](self).
pub(super) struct Follower {
    site: Site,
    entries: Entries,
    revision: i64,
    watch: Option<Streaming<WatchResponse>>,
}

/// The store cannot be followed from here.
struct GivenUp;

impl Site {
    /// All entries as they are at one revision, and that revision.
    pub(super) async fn read(&self) -> Result<(Entries, i64), String> {
        let (mut key, range_end) = self.keys.all_data();
        let (mut limit, mut revision, mut entries) = (PAGE_FIRST, 0, Vec::new());
        loop {
            let range_end = range_end.clone();
            let request = RangeRequest { key, range_end, limit, revision, ..RangeRequest::default() };
            let answer: Result<RangeResponse, Failed> = self.client.call(RANGE, &request, self.until()).await;
            let RangeResponse { header, kvs, more } = answer.map_err(|failed| self.error(failed))?;
            if revision == 0 {
                revision = header.map_or(0, |header| header.revision);
            }
            let bytes: usize = kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
            let last = kvs.last().map(|kv| kv.key.clone());
            let entry = |key: &[u8], value| (Value::from(self.keys.stored(key)), Value::from(value));
            entries.extend(kvs.into_iter().map(|kv| entry(&kv.key, kv.value)));
            let Some(last) = last.filter(|_| more) else { break };
            key = [&last[..], &[0]].concat();
            limit = if bytes > PAGE_BYTES { limit / 2 } else { limit * 2 }.clamp(1, PAGE_MAX);
        }
        Ok((entries.into_iter().collect(), revision))
    }
}

impl Follower {
    pub(super) async fn start(site: &Site) -> Result<Follower, String> {
        let (entries, revision) = site.read().await?;
        Ok(Follower { site: site.clone(), entries, revision, watch: None })
    }

    /// Follows for this time; whether it still does then.
    pub(super) async fn follow_for(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let followed = tokio::select! {
            GivenUp = self.follow() => false,
            () = sleep_until(until) => true,
        };
        // Not again at once.
        sleep_until(until).await;
        followed
    }

    /// The entries as they were at this revision, which is that of the newest change; none if that
    /// does not come in time.
    pub(super) async fn until(mut self, revision: i64) -> Option<Entries> {
        let late = self.site.until();
        while self.revision < revision {
            if Instant::now() > late {
                return None;
            }
            match timeout(SILENCE, self.step()).await {
                Ok(Ok(())) => {}
                Ok(Err(GivenUp)) => return None,
                Err(_) => {
                    self.watch = None;
                    let client = &self.site.client;
                    client.go_on(client.moves(), "it tells no changes");
                }
            }
        }
        Some(self.entries)
    }

    async fn follow(&mut self) -> GivenUp {
        loop {
            if let Err(given_up) = self.step().await {
                return given_up;
            }
        }
    }

    /// Opens the watch, or waits for its next changes. May be broken off anywhere.
    async fn step(&mut self) -> Result<(), GivenUp> {
        let Some(watch) = &mut self.watch else {
            let (key, range_end) = self.site.keys.all();
            let create = WatchCreateRequest { key, range_end, start_revision: self.revision + 1 };
            let request = WatchRequest { create: Some(create) };
            let watch = self.site.client.watch(request, self.site.until()).await;
            self.watch = Some(watch.map_err(|_| GivenUp)?.value);
            return Ok(());
        };
        match watch.message().await {
            Ok(Some(answer)) if answer.canceled => Err(GivenUp),
            Ok(Some(answer)) => {
                answer.events.into_iter().for_each(|event| self.apply(event));
                Ok(())
            }
            Ok(None) | Err(_) => {
                self.watch = None;
                Ok(())
            }
        }
    }

    fn apply(&mut self, Event { kind, kv }: Event) {
        let Some(kv) = kv else { return };
        self.revision = self.revision.max(kv.mod_revision);
        let (first, end) = self.site.keys.all_data();
        if kv.key < first || kv.key >= end {
            return;
        }
        let key = Value::from(self.site.keys.stored(&kv.key));
        match kind {
            Event::DELETE => drop(self.entries.remove(&key)),
            _ => drop(self.entries.insert(key, kv.value.into())),
        }
    }
}
