//! What is held, by which holder and since when; which waiters wait for which holders; and what has
//! happened so far.
//!
//! The held ranges are of one moment, because all the words of the shards are held while they are
//! collected. The waiters are of one moment as well. Between the two moments a thread may have come
//! or gone. A dump helps to look at a program that stands still, and the statistics are figures to
//! collect. Taking and releasing a range run no code of this file.

use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::precedence;
use super::raw::Access;
use super::slot;
use super::span::Span;
use platform::clock::{self, duration_ns};
use std::fmt::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

/// A range that is held.
///
/// ```
/// use manx::range::{Access, RangeLock, Span};
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let reader = file.lock_shared(0..10)?;
/// let held = &file.dump().held[0];
/// assert_eq!((&held.span, held.access), (&Span::new(0, 10)?, Access::Shared));
/// # drop(reader);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldRange<K> {
    /// The range.
    pub span: Span<K>,
    /// Whether the range is shared.
    pub access: Access,
    /// The identity of the holder.
    pub holder: Holder,
    /// For how long the range has been held, accurate to two milliseconds, if the lock records that
    /// ([`Options::recorded`](super::Options::recorded)).
    pub held: Option<Duration>,
}

/// A waiter.
///
/// ```
/// use manx::range::RangeLock;
///
/// let file: RangeLock<u64> = RangeLock::new();
/// for waiter in file.dump().waiting {
///     println!("{} waits for {:?} since {:?}", waiter.holder, waiter.spans, waiter.waited);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter<K> {
    /// The ranges that it waits for.
    pub spans: Vec<Span<K>>,
    /// Whether it wants to share them.
    pub access: Access,
    /// The identity of the waiter.
    pub holder: Holder,
    /// For how long it has waited.
    pub waited: Duration,
    /// Whether its window is over: it may not be overtaken any more.
    pub starving: bool,
    /// The holders of what it waits for, and the waiters that came before it and exclude it.
    pub waits_for: Vec<Holder>,
}

/// A lock as it is at a moment.
///
/// ```
/// use manx::range::RangeLock;
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let guard = file.lock(0..10)?;
/// let dump = file.dump();
/// assert_eq!((dump.held.len(), dump.waiting.len()), (1, 0));
/// println!("{dump}");
/// # drop(guard);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump<K> {
    /// The held ranges, in the order of keys.
    pub held: Vec<HeldRange<K>>,
    /// The waiters, in the order of arrival.
    pub waiting: Vec<Waiter<K>>,
}

/// What has happened in a lock.
///
/// ```
/// use manx::range::RangeLock;
///
/// let file: RangeLock<u64> = RangeLock::new();
/// drop(file.lock(0..10)?);
/// let statistics = file.statistics();
/// assert_eq!((statistics.acquired, statistics.waits, statistics.waiting), (1, 0, 0));
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Ranges taken.
    pub acquired: u64,
    /// Waits in the wait queue, for ranges that were taken or given up.
    pub waits: u64,
    /// How long that took, all together.
    pub waited: Duration,
    /// How long it took at most.
    pub waited_max: Duration,
    /// Waits that ended because the range was handed over, its waiter being starving.
    pub handed_over: u64,
    /// Waits that ended without the range.
    pub given_up: u64,
    /// How many wait now.
    pub waiting: u64,
    /// Ranges that the lock has room for on the heap now, beside those in the lock itself.
    pub spilled: u64,
    /// The number of times that the lock replaced its scale because it had learnt a better one
    /// (strings only).
    pub rescaled: u64,
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// What has happened so far.
    ///
    /// ```
    /// let lock: manx::range::RangeLock = manx::range::RangeLock::new();
    /// drop(lock.lock(0..10));
    /// let statistics = lock.statistics();
    /// assert_eq!((statistics.acquired, statistics.waits), (1, 0));
    /// assert!(statistics.to_string().contains("acquired"));
    /// assert!(statistics.to_json().starts_with("{\"acquired\":1,"));
    /// ```
    pub fn statistics(&self) -> Statistics {
        let (counters, waiting) = {
            let queue = self.queue.lock();
            (queue.counters, queue.count)
        };
        Statistics {
            acquired: self.table.acquired(),
            waits: counters.waits,
            waited: Duration::from_nanos(counters.waited_ns),
            waited_max: Duration::from_nanos(counters.waited_ns_max),
            handed_over: counters.handed.into(),
            given_up: counters.given_up.into(),
            waiting: waiting.into(),
            spilled: self.table.spilled() as u64,
            rescaled: self.table.common.scales.replaced(),
        }
    }

    /// Returns what is held and by which holder, and which waiters wait for which holders. It stops
    /// all other users of the lock for as long as the copy takes.
    ///
    /// ```
    /// let lock: manx::range::RangeLock = manx::range::RangeLock::new();
    /// let guard = lock.lock(0..10);
    /// let dump = lock.dump();
    /// assert_eq!(dump.held[0].span.to_string(), "0..10");
    /// assert!(dump.to_string().contains("exclusive"));
    /// assert!(dump.to_json().contains("\"range\":\"0..10\""));
    /// # drop(guard);
    /// ```
    pub fn dump(&self) -> Dump<K> {
        let queue = self.queue.lock();
        let now_ns = clock::now_ns();
        let mut held = Vec::new();
        self.table.each_held(|entry, state| {
            held.push(HeldRange {
                span: entry.span.clone(),
                access: slot::access(state),
                holder: slot::holder(state),
                held: slot::since_ns(state).map(|since_ns| since(now_ns, since_ns)),
            });
        });
        held.sort_by(|one, two| one.span.compare(&two.span));
        let waiting = queue
            .nodes()
            .map(|node| {
                let request = node.request();
                let mut waits_for = Vec::new();
                let mut add = |holder: Holder| {
                    if !waits_for.contains(&holder) {
                        waits_for.push(holder);
                    }
                };
                let _ = self.table.blockers(&request, |_, state| {
                    add(slot::holder(state));
                    ControlFlow::<()>::Continue(())
                });
                precedence::before(&self.table, &queue, request, node)
                    .for_each(|earlier| add(earlier.request().holder));
                // SAFETY: the wait queue's mutex is held.
                let guarded = unsafe { node.guarded() };
                Waiter {
                    spans: request.spans.to_vec(),
                    access: request.access,
                    holder: request.holder,
                    waited: since(now_ns, guarded.began_ns),
                    starving: guarded.starving,
                    waits_for,
                }
            })
            .collect();
        Dump { held, waiting }
    }
}

impl Statistics {
    fn figures(&self) -> [(&'static str, u64); 9] {
        [
            ("acquired", self.acquired),
            ("waits", self.waits),
            ("waited_ns", duration_ns(self.waited)),
            ("waited_ns_max", duration_ns(self.waited_max)),
            ("handed_over", self.handed_over),
            ("given_up", self.given_up),
            ("waiting", self.waiting),
            ("spilled", self.spilled),
            ("rescaled", self.rescaled),
        ]
    }

    /// As a JSON object of numbers.
    pub fn to_json(&self) -> String {
        let figures = self.figures().map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", figures.join(","))
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.figures() {
            writeln!(to, "{name:<14} {value:>20}")?;
        }
        Ok(())
    }
}

fn name(access: Access) -> &'static str {
    match access {
        Access::Exclusive => "exclusive",
        Access::Shared => "shared",
    }
}

fn joined<T>(values: &[T], separator: &str, write: impl Fn(&T) -> String) -> String {
    values.iter().map(write).collect::<Vec<_>>().join(separator)
}

/// The time from `began_ns` to `now_ns`, both of the monotonic clock.
fn since(now_ns: u64, began_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(began_ns))
}

/// Milliseconds with three places.
fn milliseconds(time: Duration) -> String {
    format!("{}.{:03} ms", time.as_millis(), time.subsec_micros() % 1_000)
}

/// A table: one line for each range and each waiter.
impl<K: fmt::Debug> fmt::Display for Dump<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{} held, {} waiting", self.held.len(), self.waiting.len())?;
        for held in &self.held {
            let since = held.held.map_or_else(|| "not recorded".to_owned(), milliseconds);
            writeln!(
                to,
                "held     {:<9} {:<20} {:>14}  {:?}",
                name(held.access),
                held.holder,
                since,
                held.span
            )?;
        }
        for waiter in &self.waiting {
            let since = milliseconds(waiter.waited);
            let spans = joined(&waiter.spans, ", ", |span| format!("{span:?}"));
            let whom = joined(&waiter.waits_for, ", ", Holder::to_string);
            let starving = if waiter.starving { ", starving" } else { "" };
            let access = name(waiter.access);
            writeln!(
                to,
                "waits    {access:<9} {:<20} {since:>14}  {spans} for {whom}{starving}",
                waiter.holder
            )?;
        }
        Ok(())
    }
}

impl<K: fmt::Debug> Dump<K> {
    /// As a JSON object: `held` and `waiting`, arrays of objects; ranges as Rust writes them, in
    /// strings.
    ///
    /// ```
    /// let file: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let guard = file.lock(0..10)?;
    /// assert!(file.dump().to_json().starts_with("{\"held\":["));
    /// # drop(guard);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn to_json(&self) -> String {
        let held = joined(&self.held, ",", |held| {
            let since = held.held.map_or_else(|| "null".to_owned(), |time| duration_ns(time).to_string());
            let (access, holder) = (name(held.access), held.holder);
            let range = quoted(&format!("{:?}", held.span));
            format!(
                "{{\"range\":{range},\"access\":\"{access}\",\"holder\":\"{holder}\",\"held_ns\":{since}}}"
            )
        });
        let waiting = joined(&self.waiting, ",", |waiter| {
            let (access, holder) = (name(waiter.access), waiter.holder);
            let (waited_ns, starving) = (duration_ns(waiter.waited), waiter.starving);
            let ranges = joined(&waiter.spans, ",", |span| quoted(&format!("{span:?}")));
            let whom = joined(&waiter.waits_for, ",", |holder| format!("\"{holder}\""));
            format!(
                "{{\"ranges\":[{ranges}],\"access\":\"{access}\",\"holder\":\"{holder}\",\"waited_ns\":{waited_ns},\
                 \"overdue\":{starving},\"waits_for\":[{whom}]}}"
            )
        });
        format!("{{\"held\":[{held}],\"waiting\":[{waiting}]}}")
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => {
                // Writing to a string succeeds.
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_numbers_of_nanoseconds_and_as_milliseconds() {
        let (access, holder) = (Access::Exclusive, Holder::NOBODY);
        let held = |held| HeldRange { span: Span::from(7_u64), access, holder, held };
        let (spans, waited) = (vec![Span::point(8)], Duration::from_nanos(2_000_045_678));
        let waiter = Waiter { spans, access, holder, waited, starving: true, waits_for: vec![holder] };
        let held = vec![held(Some(Duration::from_nanos(1_234_567))), held(None)];
        let dump = Dump { held, waiting: vec![waiter] };
        assert_eq!(
            dump.to_json(),
            "{\"held\":[\
             {\"range\":\"7..\",\"access\":\"exclusive\",\"holder\":\"somebody\",\"held_ns\":1234567},\
             {\"range\":\"7..\",\"access\":\"exclusive\",\"holder\":\"somebody\",\"held_ns\":null}],\
             \"waiting\":[{\"ranges\":[\"8..9\"],\"access\":\"exclusive\",\"holder\":\"somebody\",\
             \"waited_ns\":2000045678,\"overdue\":true,\"waits_for\":[\"somebody\"]}]}"
        );
        let text = dump.to_string();
        for shown in [" 1.234 ms ", " not recorded ", " 2000.045 ms "] {
            assert!(text.contains(shown), "{text}");
        }
        let statistics = Statistics {
            waited: Duration::from_micros(3),
            waited_max: Duration::from_secs(2),
            ..Statistics::default()
        };
        let json = statistics.to_json();
        assert!(json.contains("\"waited_ns\":3000,\"waited_ns_max\":2000000000,"), "{json}");
    }
}
