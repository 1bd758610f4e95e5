//! The places of the registry under loom: every order of steps that the memory model allows.
//!
//! The kernel's locks are a word each, which names the holder. A member that dies loses its lock
//! and does nothing more.

mod common;

use common::check;
use loom::sync::Arc;
use loom::thread;
use manx_loom::pool::registry::slots::{self, Locks, Place, Terms};
use platform::atomic::{AtomicU32, AtomicU64, Ordering};

const NOBODY: u32 = 0;

/// A file with `N` places.
struct File<const N: usize> {
    words: [AtomicU64; N],
    holders: [AtomicU32; N],
}

impl<const N: usize> File<N> {
    fn new() -> Arc<File<N>> {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(File { words, holders: std::array::from_fn(|_| AtomicU32::new(NOBODY)) })
    }

    fn is_taken(&self, place: usize) -> bool {
        Terms::of(self.words[place].load(Ordering::Relaxed)).is_some()
    }
}

/// The file as a process has it open; the processes' numbers begin at 1.
struct Process<const N: usize>(Arc<File<N>>, u32);

impl<const N: usize> Locks for Process<N> {
    fn try_lock(&self, place: usize) -> bool {
        let holder = &self.0.holders[place];
        holder.compare_exchange(NOBODY, self.1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn unlock(&self, place: usize) {
        assert_eq!(self.0.holders[place].swap(NOBODY, Ordering::AcqRel), self.1, "somebody else's lock");
    }

    fn is_locked_by_another(&self, place: usize) -> bool {
        // The kernel looks under a lock of its own: it sees the last process that took it.
        let holder = self.0.holders[place].fetch_add(0, Ordering::AcqRel);
        holder != NOBODY && holder != self.1
    }
}

impl<const N: usize> Process<N> {
    fn take(&self) -> Option<Place> {
        slots::take(&self.0.words, Terms::new(1, 100, 200), self)
    }

    fn change(&self, place: Place) -> bool {
        slots::change(&self.0.words, place, Terms::new(2, 50, 200))
    }

    fn is_own(&self, place: Place) -> bool {
        slots::is_own(&self.0.words, place)
    }

    fn leave(&self, place: Place) {
        slots::leave(&self.0.words, place, self);
    }

    fn sweep(&self) -> usize {
        slots::sweep(&self.0.words, None, self)
    }

    /// Ends without a word.
    fn die(self, place: Place) {
        self.unlock(place.index);
    }
}

#[test]
fn newcomers_get_places_of_their_own() {
    check(3, || {
        let file = File::<2>::new();
        let newcomer = {
            let file = file.clone();
            thread::spawn(move || {
                let one = Process(file, 1);
                let place = one.take()?;
                assert!(one.change(place));
                Some(place.index)
            })
        };
        let other = Process(file.clone(), 2);
        let own = other.take();
        let its = newcomer.join().unwrap();
        let (Some(own), Some(its)) = (own, its) else { panic!("there is room for both") };
        assert_ne!(own.index, its);
        assert!(other.is_own(own) && file.is_taken(its));
    });
}

#[test]
fn a_place_of_the_dead_comes_back_once_and_its_next_holder_keeps_it() {
    check(3, || {
        let file = File::<1>::new();
        let dead = Process(file.clone(), 1);
        let place = dead.take().expect("free");
        let sweeper = {
            let file = file.clone();
            thread::spawn(move || Process(file, 2).sweep())
        };
        let newcomer = {
            let file = file.clone();
            thread::spawn(move || {
                let newcomer = Process(file, 3);
                let place = newcomer.take()?;
                assert!(newcomer.change(place), "the place of one who lives was taken back");
                Some(place)
            })
        };
        dead.die(place);
        let freed = Process(file.clone(), 4).sweep() + sweeper.join().unwrap();
        let taken = newcomer.join().unwrap();
        assert!(freed <= 1, "freed {freed} times");
        assert!(!slots::is_own(&file.words, place), "the dead came back, or is still there");
        match taken {
            Some(own) => assert!(slots::is_own(&file.words, own)),
            // It came before the end of the member that was there.
            None => assert_eq!((freed, file.is_taken(0)), (1, false)),
        }
    });
}

#[test]
fn the_living_are_not_swept_while_others_come_and_go() {
    check(3, || {
        let file = File::<1>::new();
        let sweepers: Vec<_> = [2, 3]
            .map(|number| {
                let file = file.clone();
                thread::spawn(move || Process(file, number).sweep())
            })
            .into_iter()
            .collect();
        // Two members, one after the other; both leave.
        for number in [4, 5] {
            let member = Process(file.clone(), number);
            let place = member.take().expect("whoever was here has left");
            assert!(member.change(place) && member.is_own(place), "swept while it lived");
            member.leave(place);
        }
        for sweeper in sweepers {
            assert_eq!(sweeper.join().unwrap(), 0, "nobody died");
        }
        assert!(!file.is_taken(0));
    });
}

#[test]
fn one_whose_place_was_taken_back_does_not_bring_it_back_to_life() {
    check(3, || {
        let file = File::<1>::new();
        let member = Process(file.clone(), 1);
        let place = member.take().expect("free");
        // Something ends its lock, and it does not know.
        member.unlock(place.index);
        let newcomer = {
            let file = file.clone();
            thread::spawn(move || {
                let newcomer = Process(file, 2);
                newcomer.sweep();
                let own = newcomer.take().expect("nobody holds it");
                assert!(newcomer.is_own(own));
                own
            })
        };
        let _ = member.change(place);
        let own = newcomer.join().unwrap();
        assert!(!member.change(place) && !member.is_own(place));
        assert!(slots::is_own(&file.words, own));
    });
}
