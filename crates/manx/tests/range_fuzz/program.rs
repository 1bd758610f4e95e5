//! Bytes as calls of a range lock, and a list of what has to be held after each of them.
//!
//! [`run`] takes any bytes at all, so that whatever makes bytes can drive it: a random generator, a
//! test that shrinks what fails, or a fuzzer that looks at coverage (`fuzz_target!(|bytes: &[u8]|
//! program::run(bytes))`). One thread makes all calls, through guards, sets, owners and futures,
//! also an owner's. Whatever the lock answers is compared with the list: a range without a conflict
//! is had, one with a conflict is not, what fails leaves everything as it was, and in the end
//! nothing is held.
//!
//! | byte | call |
//! | --- | --- |
//! | the first | which lock: shards, slots, keys a block, limit |
//! | of a call, modulo [`CALLS`] | which; its arguments are in the bytes that follow, and 0 where there are none left |

use manx::range::{
    Access, LockError, LockFuture, ManyGuard, Options, Owner, RangeGuard, RangeLock, Span, SpanSet,
};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How many kinds of calls there are.
const CALLS: u8 = 17;
/// Keys are few, and the highest ones there are.
const KEYS: u64 = 24;
/// The most things held at once: a bound on what a program costs.
const HELD_MAX: usize = 40;

/// Bytes, one after the other.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.next()) % limit
    }

    fn key(&mut self) -> u64 {
        let byte = self.next();
        let key = u64::from(byte % KEYS as u8);
        if byte >= 240 { u64::MAX - key } else { key }
    }

    fn access(&mut self) -> Access {
        if self.next().is_multiple_of(2) { Access::Exclusive } else { Access::Shared }
    }

    fn span(&mut self) -> Span<u64> {
        let kind = self.next() % 8;
        let (one, other) = (self.key(), self.key());
        match kind {
            0 => Span::all(),
            1 => Span::from(one),
            // A range up to the lowest key has none.
            2 => Span::to(one.max(1)),
            3 => Span::point(one),
            _ => Span::new(one.min(other), one.max(other)).unwrap_or_else(|_| Span::point(one)),
        }
    }
}

/// What is held, and by which holder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    span: Span<u64>,
    access: Access,
    by: u32,
}

/// The holders, each with its number in the model.
enum Holding<'l, const SHARDS: usize, const SLOTS: usize> {
    Guard(RangeGuard<'l, u64, SHARDS, SLOTS>),
    Set { _guard: ManyGuard<'l, u64, SHARDS, SLOTS> },
}

type Waiting<'l, const SHARDS: usize, const SLOTS: usize> =
    (Pin<Box<LockFuture<'l, u64, SHARDS, SLOTS>>>, Span<u64>, Access);

/// An owner that waits comes back with what became of that; with nothing if it was told to give up.
type Comes<'l, const SHARDS: usize, const SLOTS: usize> =
    Pin<Box<dyn Future<Output = (Owner<'l, u64, SHARDS, SLOTS>, Option<Result<(), LockError>>)> + 'l>>;

/// An owner that is here, or waits.
enum Place<'l, const SHARDS: usize, const SLOTS: usize> {
    Here(Owner<'l, u64, SHARDS, SLOTS>),
    Waits {
        comes: Comes<'l, SHARDS, SLOTS>,
        gives_up: Rc<Cell<bool>>,
        span: Span<u64>,
        access: Access,
    },
    /// For a moment.
    Nowhere,
}

struct Program<'l, const SHARDS: usize, const SLOTS: usize> {
    lock: &'l RangeLock<u64, SHARDS, SLOTS>,
    model: Vec<Entry>,
    holding: Vec<(u32, Holding<'l, SHARDS, SLOTS>)>,
    owners: [(u32, Place<'l, SHARDS, SLOTS>); 2],
    waiting: Vec<Waiting<'l, SHARDS, SLOTS>>,
    numbers: u32,
    limited: bool,
}

/// Runs a program.
///
/// # Panics
/// If the lock does not do what it should.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let kind = bytes.next();
    let options = Options::new().window(Duration::ZERO);
    let options = if kind & 4 == 0 { options.block_log2(0) } else { options.block_log2(3) };
    let options = if kind & 8 == 0 { options } else { options.spill_max(8) };
    let options = if kind & 16 == 0 { options } else { options.recorded() };
    let limited = kind & 8 != 0;
    match kind & 3 {
        0 => run_on(&RangeLock::<u64, 1, 1>::with(options), limited, bytes),
        1 => run_on(&RangeLock::<u64, 2, 2>::with(options), limited, bytes),
        2 => run_on(&RangeLock::<u64, 16, 1>::with(options), limited, bytes),
        _ => run_on(&RangeLock::<u64, 64, 8>::with(options), limited, bytes),
    }
}

fn run_on<const SHARDS: usize, const SLOTS: usize>(
    lock: &RangeLock<u64, SHARDS, SLOTS>,
    limited: bool,
    mut bytes: Bytes<'_>,
) {
    let mut program = Program {
        lock,
        model: Vec::new(),
        holding: Vec::new(),
        owners: [(1, Place::Here(lock.owner())), (2, Place::Here(lock.owner()))],
        waiting: Vec::new(),
        numbers: 3,
        limited,
    };
    while !bytes.0.is_empty() {
        let call = bytes.next() % CALLS;
        program.call(call, &mut bytes);
        program.compare();
    }
    drop(program);
    let dump = lock.dump();
    assert!(dump.held.is_empty() && dump.waiting.is_empty(), "all was given back: {dump}");
    assert!(lock.try_lock(..).is_ok(), "nothing is closed");
}

impl<'l, const SHARDS: usize, const SLOTS: usize> Program<'l, SHARDS, SLOTS> {
    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns whether another holder has something in the way.
    fn conflicts(&self, span: &Span<u64>, access: Access, by: u32) -> bool {
        self.model
            .iter()
            .any(|entry| entry.by != by && entry.access.conflicts_with(access) && entry.span.overlaps(span))
    }

    /// The waiter (an owner, or 0 for another one) and the ranges that it wants. The lock may have
    /// handed them over already.
    fn wanted(&self) -> impl Iterator<Item = (u32, &Span<u64>, Access)> {
        let owners = self.owners.iter().filter_map(|(by, owner)| match owner {
            Place::Waits { span, access, .. } => Some((*by, span, *access)),
            _ => None,
        });
        self.waiting.iter().map(|(_, span, access)| (0, span, *access)).chain(owners)
    }

    /// Whether an answer is the right one for these; what waits is asked first, and nothing is said
    /// where that decides.
    fn check<T>(
        &self,
        answer: Result<T, LockError>,
        spans: &[Span<u64>],
        access: Access,
        by: u32,
    ) -> Option<T> {
        let conflicts = spans.iter().any(|span| self.conflicts(span, access, by));
        let behind = self.wanted().any(|(_, span, its)| {
            its.conflicts_with(access) && spans.iter().any(|wanted| wanted.overlaps(span))
        });
        match answer {
            Ok(taken) => {
                assert!(!conflicts, "{spans:?} {access:?} is held by others: {:?}", self.model);
                Some(taken)
            }
            Err(LockError::WouldBlock) => {
                assert!(conflicts || behind, "{spans:?} {access:?} is free: {:?}", self.model);
                None
            }
            Err(LockError::TooMany { .. }) => {
                assert!(self.limited, "there is no limit");
                None
            }
            Err(error) => panic!("{spans:?}: {error}"),
        }
    }

    fn add(&mut self, span: Span<u64>, access: Access, by: u32) {
        self.model.push(Entry { span, access, by });
    }

    fn call(&mut self, call: u8, bytes: &mut Bytes<'_>) {
        match call {
            0..3 if self.holding.len() < HELD_MAX => self.take(bytes),
            3 if self.holding.len() < HELD_MAX => self.take_many(bytes),
            4..7 => self.give_back(bytes),
            7 => self.change(bytes),
            8 | 9 => self.owner_takes(bytes),
            10 => self.owner_gives_back(bytes),
            11 if self.waiting.len() < 4 => {
                let (span, access) = (bytes.span(), bytes.access());
                self.waiting.push((Box::pin(self.lock.lock_async(span.clone(), access)), span, access));
                self.poll(self.waiting.len() - 1);
            }
            12 if !self.waiting.is_empty() => {
                let at = bytes.below(self.waiting.len());
                self.poll(at);
            }
            13 if !self.waiting.is_empty() => {
                let at = bytes.below(self.waiting.len());
                drop(self.waiting.remove(at));
            }
            14 => self.owner_waits(bytes),
            15 => self.poll_owner(bytes.below(2), false),
            16 => self.poll_owner(bytes.below(2), true),
            _ => {}
        }
    }

    fn take(&mut self, bytes: &mut Bytes<'_>) {
        let (span, access) = (bytes.span(), bytes.access());
        let by = self.number();
        let answer = self.lock.try_lock_as(span.clone(), access);
        if let Some(guard) = self.check(answer, std::slice::from_ref(&span), access, by) {
            assert_eq!((guard.span(), guard.access()), (&span, access));
            self.add(span, access, by);
            self.holding.push((by, Holding::Guard(guard)));
        }
    }

    fn take_many(&mut self, bytes: &mut Bytes<'_>) {
        let count = 1 + bytes.below(12);
        let spans: Vec<Span<u64>> = (0..count).map(|_| bytes.span()).collect();
        let access = bytes.access();
        let overlap = |at: usize| spans[..at].iter().any(|other| other.overlaps(&spans[at]));
        assert_eq!(SpanSet::disjoint(spans.clone()).is_err(), (0..count).any(overlap));
        let set = SpanSet::merged(spans).expect("it has members");
        let by = self.number();
        let answer = self.lock.try_lock_many(set.clone(), access);
        if let Some(guard) = self.check(answer, set.spans(), access, by) {
            set.spans().iter().for_each(|span| self.add(span.clone(), access, by));
            self.holding.push((by, Holding::Set { _guard: guard }));
        }
    }

    fn give_back(&mut self, bytes: &mut Bytes<'_>) {
        if self.holding.is_empty() {
            return;
        }
        let at = bytes.below(self.holding.len());
        let (by, holding) = self.holding.swap_remove(at);
        drop(holding);
        self.model.retain(|entry| entry.by != by);
    }

    /// Changes a guard in one of the ways there are.
    fn change(&mut self, bytes: &mut Bytes<'_>) {
        if self.holding.is_empty() {
            return;
        }
        let at = bytes.below(self.holding.len());
        if matches!(self.holding[at].1, Holding::Set { .. }) {
            return;
        }
        let (by, Holding::Guard(guard)) = self.holding.swap_remove(at) else { return };
        let entry = Entry { span: guard.span().clone(), access: guard.access(), by };
        let full = LockError::TooMany { limit: 8 };
        let result = match bytes.next() % 4 {
            0 => {
                // Below the lowest key there is nothing to have.
                let key = bytes.key().max(1);
                let possible = entry.span.clone().split_at(key);
                match guard.split_at(key) {
                    Ok((low, high)) => {
                        let (low_span, high_span) = possible.expect("neither part is empty");
                        self.model.retain(|entry| entry.by != by);
                        for (span, guard) in [(low_span, low), (high_span, high)] {
                            let by = self.number();
                            assert_eq!((guard.span(), guard.access()), (&span, entry.access));
                            self.add(span, entry.access, by);
                            self.holding.push((by, Holding::Guard(guard)));
                        }
                        return;
                    }
                    Err(unchanged) => {
                        assert!(possible.is_err() || unchanged.error == full, "{}", unchanged.error);
                        Err(unchanged)
                    }
                }
            }
            1 => {
                let to = bytes.span();
                let inside = entry.span.covers(&to);
                let result = guard.shrink(to.clone());
                match &result {
                    Ok(guard) => assert!(inside && *guard.span() == to),
                    Err(unchanged) => assert!(!inside || unchanged.error == full, "{}", unchanged.error),
                }
                result
            }
            2 => guard.downgrade(),
            // A holder that shares it with others would wait for them; also with a waiter that it
            // was handed to.
            _ if self.lock.dump().held.iter().filter(|held| held.span.overlaps(&entry.span)).count() > 1 => {
                Ok(guard)
            }
            _ => guard.upgrade(),
        };
        let guard = match result {
            Ok(guard) => guard,
            Err(unchanged) => {
                let guard = unchanged.guard;
                assert_eq!(
                    (guard.span(), guard.access()),
                    (&entry.span, entry.access),
                    "it holds what it held"
                );
                guard
            }
        };
        self.model.retain(|entry| entry.by != by);
        self.add(guard.span().clone(), guard.access(), by);
        self.holding.push((by, Holding::Guard(guard)));
    }

    fn owner_takes(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(2);
        let (span, access) = (bytes.span(), bytes.access());
        let (by, Place::Here(owner)) = &mut self.owners[which] else { return };
        let by = *by;
        if owner.held().count() >= HELD_MAX {
            return;
        }
        let answer = owner.try_lock_as(span.clone(), access);
        if self.check(answer, std::slice::from_ref(&span), access, by).is_some() {
            self.add(span, access, by);
        }
    }

    /// An owner that is here begins to wait.
    fn owner_waits(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(2);
        let (span, access) = (bytes.span(), bytes.access());
        let mut owner = match std::mem::replace(&mut self.owners[which].1, Place::Nowhere) {
            Place::Here(owner) if owner.held().count() < HELD_MAX => owner,
            other => {
                self.owners[which].1 = other;
                return;
            }
        };
        let gives_up = Rc::new(Cell::new(false));
        let (wanted, is_told) = (span.clone(), Rc::clone(&gives_up));
        let comes = Box::pin(async move {
            let answer = {
                let mut waits = pin!(owner.lock_as_async(wanted, access));
                poll_fn(|context| match is_told.get() {
                    true => Poll::Ready(None),
                    false => waits.as_mut().poll(context).map(Some),
                })
                .await
            };
            (owner, answer)
        });
        self.owners[which].1 = Place::Waits { comes, gives_up, span, access };
        self.poll_owner(which, false);
    }

    fn poll_owner(&mut self, which: usize, leaves: bool) {
        let (by, Place::Waits { comes, gives_up, span, access }) = &mut self.owners[which] else { return };
        let (by, span, access) = (*by, span.clone(), *access);
        gives_up.set(leaves);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready((owner, answer)) = comes.as_mut().poll(&mut context) else {
            assert!(!leaves, "a waiter that is told to give up does so");
            return;
        };
        let before = self.model.iter().filter(|entry| entry.by == by).count();
        self.owners[which].1 = Place::Nowhere;
        match answer {
            None => assert_eq!(owner.held().count(), before, "it holds what it held"),
            Some(Err(LockError::UpgradeDeadlock)) => {
                let shares = |by: u32, span: &Span<u64>| {
                    let mut its = self.model.iter().filter(|entry| entry.by == by);
                    its.any(|entry| entry.access == Access::Shared && entry.span.overlaps(span))
                };
                let (other, Place::Waits { span: wants, .. }) = &self.owners[1 - which] else {
                    panic!("nobody else upgrades")
                };
                assert!(access == Access::Exclusive && shares(by, &span) && shares(*other, wants));
            }
            Some(answer) => {
                if self.check(answer, std::slice::from_ref(&span), access, by).is_some() {
                    assert_eq!(owner.held().count(), before + 1);
                    self.add(span, access, by);
                }
            }
        }
        self.owners[which].1 = Place::Here(owner);
    }

    fn owner_gives_back(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(2);
        let (by, Place::Here(owner)) = &mut self.owners[which] else { return };
        let by = *by;
        match bytes.next() % 4 {
            0 => {
                let span = bytes.span();
                let last = self.model.iter().rposition(|entry| entry.by == by && entry.span == span);
                let answer = owner.unlock(span);
                assert_eq!(answer, last.map(drop).ok_or(LockError::NotHeld));
                last.map(|at| self.model.remove(at));
            }
            1 => {
                let span = bytes.span();
                let any = self.model.iter().any(|entry| entry.by == by && entry.span.overlaps(&span));
                match owner.release(span) {
                    Ok(()) => assert!(any),
                    Err(error) => assert!(error == LockError::NotHeld && !any || self.limited, "{error}"),
                }
                self.follow_owner(which);
            }
            2 => {
                let before = owner.held().count();
                let fewer = owner.escalate();
                assert_eq!(owner.held().count() + fewer, before);
                self.follow_owner(which);
            }
            _ => {
                owner.release_all();
                self.model.retain(|entry| entry.by != by);
            }
        }
    }

    /// What an owner says that it holds is what the model has from now on; the lock has to agree,
    /// and the others are in its way as ever.
    fn follow_owner(&mut self, which: usize) {
        let (by, Place::Here(owner)) = &self.owners[which] else { return };
        let by = *by;
        self.model.retain(|entry| entry.by != by);
        let held: Vec<_> = owner.held().map(|(span, access)| (span.clone(), access)).collect();
        for (span, access) in held {
            assert!(!self.conflicts(&span, access, by), "{span} {access:?} is held by others");
            self.add(span, access, by);
        }
    }

    fn poll(&mut self, at: usize) {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(answer) = self.waiting[at].0.as_mut().poll(&mut context) else { return };
        let (_, span, access) = self.waiting.remove(at);
        let by = self.number();
        if let Some(guard) = self.check(answer, std::slice::from_ref(&span), access, by) {
            self.add(span, access, by);
            self.holding.push((by, Holding::Guard(guard)));
        }
    }

    /// The lock holds what the model holds, and perhaps what was handed to waiters that were not
    /// polled since.
    fn compare(&self) {
        let dump = self.lock.dump();
        let mut held: Vec<_> = dump.held.iter().map(|held| (held.span.clone(), held.access)).collect();
        for entry in &self.model {
            let at = held.iter().position(|held| *held == (entry.span.clone(), entry.access));
            held.remove(at.unwrap_or_else(|| panic!("{entry:?} is not held: {dump}")));
        }
        for (span, access) in held {
            let mut waited = self.wanted().filter(|(_, its, how)| (*its, *how) == (&span, access)).peekable();
            assert!(waited.peek().is_some(), "{span} {access:?} is held by nobody: {dump}");
            // Of several that wait for the same it is not known which one was handed it.
            let free = waited.any(|(by, ..)| !self.conflicts(&span, access, by));
            assert!(free, "{span} was handed over while held");
        }
    }
}
