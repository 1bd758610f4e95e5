//! The shuffle lock with a proportional policy: N competitors from big cores pass for one from a
//! little core.
//!
//! A shuffle lock (Kashyap, Calciu, Cheng, Min and Kim, "Scalable and practical locking with
//! shuffling", SOSP 2019) is a flag, and a queue of its waiters. Only the first in the queue, its
//! *head*, looks at the flag; and while it does, it has time to rearrange those behind it as a
//! policy wants. The policy here is that of SHFL-PB10, which LibASL is compared with (Liu and
//! others, "Asymmetry-aware scalable locking", 2022, section 4): in place of NUMA nodes there are
//! two classes of cores, and a counter lets exactly one from a little core pass after ten from big
//! ones. Why no static proportion is good enough is what that paper is about.
//!
//! ```text
//!   taken: held by a thread that has left the queue
//!            │ looks                  tail ─────────────────────────┐
//!          head ──next──► waiter ──next──► waiter ──next──► waiter ◄┘
//!                                ▲            │
//!                                └── moved ───┘  if it is the first one of the class wanted next
//! ```
//!
//! The class that is wanted next depends on how many from big cores have become head since the last
//! one from a little core: fewer than N, and it is big, otherwise little. If no thread of that
//! class waits, the next in line is as good. Among those of one class the order is that of arrival.
//! So from the time that a little one stands in line, at most N big ones become head before the
//! first little one does (one more for each that comes to stand behind the last one just when that
//! one would be moved).
//!
//! A head that has the flag leaves the queue and makes the next one head, so no thread stands in
//! the queue while it holds the lock, and a place need not outlive the call: it is on the waiter's
//! stack.
//!
//! What differs from the original: one waiter at most is moved for each head, to where it is next,
//! and it may be the last in the queue, so the proportion is exact however short the queue. What
//! the head has looked at is remembered by itself only. All waiters spin; with more threads than
//! CPUs this is as bad as any strict queue.
//!
//! Invariants:
//! 1. Between its change from false to true and the next store of false, `taken` belongs to the
//!    thread that changed it. It is tried by the head, and by threads that have found the queue
//!    empty.
//! 2. There is one head while the queue is not empty: the thread that found it empty, then the one
//!    told by the head before it, once, when that one left.
//! 3. Links are written by the head, but for the `next` of the last place, which is written once by
//!    the thread that has found that place in `tail`. So the head may change a link behind which
//!    there is another place. It may also change the link of a place that it has made the last one,
//!    before another thread could find that place in `tail`.
//! 4. Only a head leaves, so the places behind it stay where they are; and it leaves when no thread
//!    will write to its place: it has taken `tail` back to null, or has seen the place behind.
//! 5. `passed` is used by the head only.
//!
//! # Memory orderings
//! `taken` is changed with acquire and stored with release: a thread that takes the lock sees what
//! the last holder wrote. A swap of `tail` releases a place, `next` is written with release and
//! read with acquire, so the head sees places as their owners made them. `ready` is stored with
//! release and read with acquire, and `tail` goes back to null with release and is swapped with
//! acquire: a head sees all links and the counter as the head before it left them.

use manx::cpu::{Class, class};
use manx::lock::RawLock;
use manx::wait::{Policy, Spin};
use platform::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::ptr;

/// The shuffle lock that lets `BIG` from big cores pass for one from a little core. Spins. See the
/// module's text.
///
/// ```
/// use manx::cpu::{Class, set_class_of_this_thread};
/// use baselines::lock::Shfl;
/// use manx::lock::RawLock;
///
/// static LOCK: Shfl = Shfl::new(); // 10 to 1
/// std::thread::scope(|scope| {
///     for class in [Class::Big, Class::Little] {
///         scope.spawn(move || {
///             set_class_of_this_thread(Some(class));
///             LOCK.lock();
///             // SAFETY: held by this thread.
///             unsafe { LOCK.unlock(()) };
///         });
///     }
/// });
/// ```
#[derive(Debug)]
pub struct Shfl<const BIG: u32 = 10> {
    taken: AtomicBool,
    /// How many from big cores have become head since one from a little core did; no more than
    /// `BIG` matter.
    passed: AtomicU32,
    tail: AtomicPtr<Place>,
}

/// A place in the queue, on its owner's stack.
#[repr(align(128))]
struct Place {
    next: AtomicPtr<Place>,
    /// It is the head. Stored once, by the head before.
    ready: AtomicBool,
    class: Class,
}

/// What a head has found out about those behind it.
struct Search {
    wanted: Class,
    /// The last place that is known not to be of the class wanted.
    seen: *const Place,
    /// The next one is of that class.
    found: bool,
}

impl<const BIG: u32> Shfl<BIG> {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            Shfl {
                taken: AtomicBool::new(false),
                passed: AtomicU32::new(0),
                tail: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Something that stands for the last one in line, and differs once another one stands behind
    /// it. To compare; its value means nothing.
    pub fn last_in_line(&self) -> usize {
        self.tail.load(Ordering::Relaxed).addr()
    }

    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`. A failure learns nothing.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, if no thread stands in line for it.
    #[inline]
    fn take_if_nobody_waits(&self) -> bool {
        // Relaxed: the order of arrival is meant, not the order of memory.
        self.tail.load(Ordering::Relaxed).is_null() && self.take()
    }

    #[cold]
    fn lock_contended(&self) {
        let place =
            Place { next: AtomicPtr::new(ptr::null_mut()), ready: AtomicBool::new(false), class: class() };
        self.enter(&place);
        // Here it is the head, until it has left.
        let mut search = Search { wanted: self.count(place.class), seen: &place, found: false };
        Spin.until(|| {
            self.search(&place, &mut search);
            !self.taken.load(Ordering::Relaxed) && self.take()
        });
        self.leave(&place, &mut search);
    }

    /// Stands in line, and waits to be the head.
    fn enter(&self, place: &Place) {
        let before = self.tail.swap(ptr::from_ref(place).cast_mut(), Ordering::AcqRel);
        if before.is_null() {
            return;
        }
        // SAFETY: by Invariant 4 it has not left, and will not until this is written.
        unsafe { (*before).next.store(ptr::from_ref(place).cast_mut(), Ordering::Release) };
        Spin.until(|| place.ready.load(Ordering::Acquire));
    }

    /// Counts the new head; returns which class is wanted next.
    fn count(&self, class: Class) -> Class {
        // Relaxed: by Invariant 5.
        let passed = match class {
            Class::Big => self.passed.load(Ordering::Relaxed).saturating_add(1),
            Class::Little => 0,
        };
        self.passed.store(passed, Ordering::Relaxed);
        if passed < BIG { Class::Big } else { Class::Little }
    }

    /// Looks at the waiters that have arrived since it last looked, and moves the first one of the
    /// class wanted to where it is next. Ends when it has found one, or seen the last one.
    fn search(&self, head: &Place, search: &mut Search) {
        while !search.found {
            // SAFETY: the head itself, or behind it (Invariant 4).
            let seen = unsafe { &*search.seen };
            let place = seen.next.load(Ordering::Acquire);
            if place.is_null() {
                return;
            }
            // SAFETY: as above.
            if unsafe { (*place).class } != search.wanted {
                search.seen = place;
            } else if ptr::eq(seen, head) || self.move_to_front(head, seen, place) {
                search.found = true;
            } else {
                // It was the last, and another thread is about to stand behind it: another time.
                return;
            }
        }
    }

    /// Makes `place`, which is behind `before`, the next one. Returns false, and has changed
    /// nothing, if another thread is about to write to it.
    fn move_to_front(&self, head: &Place, before: &Place, place: *mut Place) -> bool {
        // SAFETY: behind the head (Invariant 4).
        let moved = unsafe { &*place };
        let behind = moved.next.load(Ordering::Acquire);
        // Relaxed, here and below: published with `tail`, or with `ready` when the head leaves.
        before.next.store(behind, Ordering::Relaxed);
        if behind.is_null() {
            // It is the last one, and `before` becomes it, unless another thread has found it in
            // `tail`.
            let last = ptr::from_ref(before).cast_mut();
            if self.tail.compare_exchange(place, last, Ordering::Release, Ordering::Relaxed).is_err() {
                before.next.store(place, Ordering::Relaxed);
                return false;
            }
        }
        moved.next.store(head.next.load(Ordering::Relaxed), Ordering::Relaxed);
        head.next.store(place, Ordering::Relaxed);
        true
    }

    /// Leaves the queue, with the lock, and makes the next one head.
    fn leave(&self, head: &Place, search: &mut Search) {
        // A waiter that has come since it last looked counts too.
        self.search(head, search);
        let mut next = head.next.load(Ordering::Acquire);
        if next.is_null() {
            // Release: the next head sees the counter.
            let own = ptr::from_ref(head).cast_mut();
            let gone = ptr::null_mut();
            if self.tail.compare_exchange(own, gone, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
            Spin.until(|| {
                next = head.next.load(Ordering::Acquire);
                !next.is_null()
            });
        }
        // SAFETY: it waits until it is told (Invariants 2 and 4).
        unsafe { (*next).ready.store(true, Ordering::Release) };
    }
}

// SAFETY: by Invariant 1, and by the orderings in the module's text. Places do not know where the
// lock is.
unsafe impl<const BIG: u32> RawLock for Shfl<BIG> {
    type Held = ();
    const NAME: &'static str = "shfl-pb";
    platform::initial! { Shfl::new() }

    #[inline]
    fn lock(&self) {
        if !self.take_if_nobody_waits() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.take_if_nobody_waits().then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        self.taken.store(false, Ordering::Release);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Big, Little};
    use manx::cpu::set_class_of_this_thread;
    use platform::cell::UnsafeCell;
    use std::thread;

    struct Guarded<const BIG: u32> {
        lock: Shfl<BIG>,
        order: UnsafeCell<Vec<usize>>,
    }

    // SAFETY: the order is used by holders of the lock only.
    unsafe impl<const BIG: u32> Sync for Guarded<BIG> {}

    /// Lets threads of these classes stand in line one after the other, and returns the order in
    /// which they were let in.
    fn order<const BIG: u32>(classes: &[Class]) -> Vec<usize> {
        let guarded = Guarded::<BIG> { lock: Shfl::new(), order: UnsafeCell::new(Vec::new()) };
        let (guarded, lock) = (&guarded, &guarded.lock);
        RawLock::lock(lock);
        thread::scope(|scope| {
            let mut head: *const Place = ptr::null();
            for (number, &class) in classes.iter().enumerate() {
                scope.spawn(move || {
                    set_class_of_this_thread(Some(class));
                    RawLock::lock(lock);
                    // SAFETY: this thread holds the lock.
                    guarded.order.with_mut(|order| unsafe { (*order).push(number) });
                    // SAFETY: as above.
                    unsafe { lock.unlock(()) };
                });
                // The first one is the head, and no thread leaves while this thread holds the lock.
                while head.is_null() {
                    thread::yield_now();
                    head = lock.tail.load(Ordering::Acquire);
                }
                while in_line(head, classes.len()) <= number {
                    thread::yield_now();
                }
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        });
        assert!(!lock.is_locked() && lock.last_in_line() == 0);
        // SAFETY: all others have ended.
        guarded.order.with_mut(|order| unsafe { std::mem::take(&mut *order) })
    }

    /// How many places can be reached from this one, itself included. While the head moves a place,
    /// one less.
    fn in_line(head: *const Place, most: usize) -> usize {
        let mut place = head;
        for count in 0..most {
            if place.is_null() {
                return count;
            }
            // SAFETY: no thread leaves meanwhile.
            place = unsafe { (*place).next.load(Ordering::Acquire) };
        }
        most
    }

    /// The policy, told once more with a list.
    fn expected(classes: &[Class], big: u32) -> Vec<usize> {
        let mut waiting: Vec<usize> = (0..classes.len()).collect();
        let (mut order, mut next, mut passed) = (Vec::new(), 0, 0);
        while !waiting.is_empty() {
            let head = waiting.remove(next);
            passed = if classes[head] == Big { passed + 1 } else { 0 };
            let wanted = if passed < big { Big } else { Little };
            next = waiting.iter().position(|&waiter| classes[waiter] == wanted).unwrap_or(0);
            order.push(head);
        }
        order
    }

    #[test]
    fn two_big_ones_pass_for_one_little_one() {
        let classes = [Little, Little, Big, Big, Big, Big, Big, Little];
        assert_eq!(order::<2>(&classes), [0, 2, 3, 1, 4, 5, 7, 6]);
    }

    #[test]
    fn the_last_in_line_may_be_the_next() {
        assert_eq!(order::<2>(&[Little, Little, Little, Big]), [0, 3, 1, 2]);
        assert_eq!(order::<1>(&[Big, Big, Big, Little]), [0, 3, 1, 2]);
    }

    #[test]
    fn one_class_alone_is_served_in_the_order_of_arrival() {
        assert_eq!(order::<2>(&[Big; 6]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order::<2>(&[Little; 6]), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_order_is_that_of_the_policy_for_many_queues() {
        // The bits of a number that visits every value say which one is little.
        for bits in (0..256_u32).map(|number| number * 37 % 256).take(12) {
            let classes: Vec<Class> =
                (0..8).map(|bit| if bits >> bit & 1 == 1 { Little } else { Big }).collect();
            assert_eq!(order::<1>(&classes), expected(&classes, 1), "{classes:?}");
            assert_eq!(order::<3>(&classes), expected(&classes, 3), "{classes:?}");
        }
    }

    #[test]
    fn ten_is_the_proportion_unless_told_otherwise() {
        let mut classes = [Big; 14];
        classes[1] = Little;
        // The first one is head before any other comes, and nine more of its class follow.
        let expected = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 11, 12, 13];
        assert_eq!(order::<10>(&classes), expected);
        let _: Shfl<10> = Shfl::<10>::new() as Shfl;
    }
}
