//! What each thread did at each look: one character a look.
//!
//! A look sees the state of a thread, and `R` means both: a thread that runs and a thread that
//! waits for a CPU. The kernel counts how long the thread ran and waited since the look before. So
//! each runnable thread earns, at each look, the part of that time in which it ran. As many threads
//! as these parts add up to are drawn as running, those with the most credit first, and each pays
//! one for it. Then no look shows more running threads than there were on average, and each thread
//! is drawn as running for its true part of the time.
//!
//! Invariants:
//! 1. At most [`LOOKS_MAX`] looks are kept. When there are more, each second one is dropped, and
//!    from then on looks are kept half as often: they stay evenly spread.
//! 2. At most `CELLS_MAX` states are kept in all, by the same means, so a process with thousands
//!    of threads needs no more memory.
//! 3. At most [`THREADS_MAX`] threads are drawn: those that lost most.

use serde::Serialize;
use std::collections::BTreeMap;

/// How many looks are kept (Invariant 1).
pub const LOOKS_MAX: usize = 400;
/// How many threads are drawn (Invariant 3).
pub const THREADS_MAX: usize = 64;
/// How many states of threads are kept while a process is watched (Invariant 2).
const CELLS_MAX: usize = 400_000;
/// Locks that have a letter of their own.
const LETTERS: usize = 26;
/// What is no loss: the thread runs, sleeps without a lock, or is not there.
const NOT_LOST: &str = "rs ";

/// What the threads of a process did at each look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The time of each look that was kept, since the first look, in ns
    pub looks_ns: Vec<u64>,
    /// The threads that lost most time; the one that lost most is first
    pub threads: Vec<ThreadTimeline>,
}

/// What one thread did at each look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTimeline {
    /// Its number
    pub tid: i32,
    /// Its name
    pub name: String,
    /// One character for each look: `r` ran, `q` was runnable and had no CPU, `s` slept, `d` waited
    /// for a disk, `w` ran in a loop that waits, `A` to `Z` slept for that lock of the evidence's
    /// list (`A` is the first), `l` for a further lock, a space was not there
    pub states: String,
}

/// The state of a thread at one look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// The thread ran, or wished to run.
    Runnable {
        /// How long it ran since the look before, as a part of the time in which it wished to run
        ran: f32,
        /// An instruction at which it was seen since then; 0 if there is none
        address: u64,
    },
    /// The thread slept.
    Asleep,
    /// The thread waited for a disk.
    Blocked,
    /// The thread slept at the futex at this address.
    Futex(u64),
}

/// The looks while a process is watched.
#[derive(Debug)]
pub struct Recorder {
    looks: Vec<(u64, Vec<(i32, Cell)>)>,
    cells: usize,
    /// Each look whose number is a multiple of this is kept.
    stride: u32,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder { looks: Vec::new(), cells: 0, stride: 1 }
    }
}

impl Recorder {
    /// Whether the look with this number, from 0, is kept.
    pub fn keeps(&self, look: u32) -> bool {
        look.is_multiple_of(self.stride)
    }

    /// Adds a look, which was so long after the first.
    pub fn add(&mut self, since_ns: u64, cells: Vec<(i32, Cell)>) {
        self.cells += cells.len();
        self.looks.push((since_ns, cells));
        // Two looks stay in any case: their number is not what takes the memory then.
        while self.looks.len() > LOOKS_MAX || self.cells > CELLS_MAX && self.looks.len() > 2 {
            let mut at = 0;
            self.looks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.cells = self.looks.iter().map(|(_, cells)| cells.len()).sum();
            self.stride = self.stride.saturating_mul(2);
        }
    }

    /// Draws them. `locks` are the addresses of the locks in their order, `waits` says whether the
    /// code at an address waits, `names` has the threads' names, `yields` those that yield in a
    /// loop.
    pub fn timeline(
        self,
        locks: &[u64],
        waits: impl Fn(u64) -> bool,
        names: &BTreeMap<i32, String>,
        yields: impl Fn(i32) -> bool,
    ) -> Timeline {
        let mut rows: BTreeMap<i32, Vec<u8>> = BTreeMap::new();
        let mut credits: BTreeMap<i32, f32> = BTreeMap::new();
        let mut whole = 0.0;
        for (at, (_, cells)) in self.looks.iter().enumerate() {
            let running = draw_running(cells, &mut credits, &mut whole);
            for (tid, cell) in cells {
                let state = match *cell {
                    Cell::Runnable { address, .. } if running.contains(tid) => {
                        if address != 0 && waits(address) || yields(*tid) { b'w' } else { b'r' }
                    }
                    Cell::Runnable { .. } => b'q',
                    Cell::Asleep => b's',
                    Cell::Blocked => b'd',
                    Cell::Futex(address) => match locks.iter().position(|lock| *lock == address) {
                        Some(index) if index < LETTERS => b'A' + index as u8,
                        Some(_) => b'l',
                        // A word that is no lock: the thread is idle.
                        None => b's',
                    },
                };
                let row = rows.entry(*tid).or_default();
                row.resize(at, b' ');
                row.push(state);
            }
        }
        let thread = |(tid, mut row): (i32, Vec<u8>)| {
            row.resize(self.looks.len(), b' ');
            let name = names.get(&tid).cloned().unwrap_or_default();
            ThreadTimeline { tid, name, states: row.into_iter().map(char::from).collect() }
        };
        let mut threads: Vec<ThreadTimeline> = rows.into_iter().map(thread).collect();
        threads.sort_by_cached_key(|thread| (std::cmp::Reverse(lost(&thread.states)), thread.tid));
        threads.truncate(THREADS_MAX);
        Timeline { looks_ns: self.looks.iter().map(|(since_ns, _)| *since_ns).collect(), threads }
    }
}

/// In how many looks the thread was kept from its work.
fn lost(states: &str) -> usize {
    states.chars().filter(|state| !NOT_LOST.contains(*state)).count()
}

/// The threads that are drawn as running at a look. `whole` is what the looks before left over.
fn draw_running(cells: &[(i32, Cell)], credits: &mut BTreeMap<i32, f32>, whole: &mut f32) -> Vec<i32> {
    let mut runnable = Vec::new();
    for (tid, cell) in cells {
        if let Cell::Runnable { ran, .. } = cell {
            *whole += ran;
            let credit = credits.entry(*tid).or_default();
            *credit += ran;
            runnable.push((*credit, *tid));
        }
    }
    let count = (whole.round().max(0.0) as usize).min(runnable.len());
    *whole -= count as f32;
    runnable.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let running: Vec<i32> = runnable.into_iter().take(count).map(|(_, tid)| tid).collect();
    for tid in &running {
        *credits.entry(*tid).or_default() -= 1.0;
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runnable(ran: f32) -> Cell {
        Cell::Runnable { ran, address: 0 }
    }

    fn drawn(looks: Vec<Vec<(i32, Cell)>>, locks: &[u64]) -> Timeline {
        let mut recorder = Recorder::default();
        for (at, cells) in looks.into_iter().enumerate() {
            recorder.add(at as u64, cells);
        }
        let names = [(1, "one".to_owned())].into();
        recorder.timeline(locks, |address| address == 0x50, &names, |tid| tid == 9)
    }

    #[test]
    fn runnable_threads_run_for_their_part_of_the_time_and_never_too_many_at_once() {
        let looks = vec![(1..=8).map(|tid| (tid, runnable(0.25))).collect(); 40];
        let timeline = drawn(looks, &[]);
        assert_eq!(timeline.threads.len(), 8);
        for thread in &timeline.threads {
            let ran = thread.states.chars().filter(|state| *state == 'r').count();
            assert!((9..=11).contains(&ran), "{thread:?}");
        }
        for look in 0..40 {
            let ran = timeline.threads.iter().filter(|thread| thread.states.as_bytes()[look] == b'r');
            assert_eq!(ran.count(), 2);
        }
    }

    #[test]
    fn each_state_has_its_character() {
        let cells = |cell| vec![(1, cell)];
        let locks: Vec<u64> = (100..130).collect();
        let waits = Cell::Runnable { ran: 1.0, address: 0x50 };
        let works = Cell::Runnable { ran: 1.0, address: 0x60 };
        let looks = vec![
            vec![],
            cells(works),
            cells(waits),
            cells(Cell::Asleep),
            cells(Cell::Blocked),
            cells(Cell::Futex(100)),
            cells(Cell::Futex(125)),
            cells(Cell::Futex(126)),
            cells(Cell::Futex(7)),
            vec![(9, runnable(1.0))],
        ];
        let timeline = drawn(looks, &locks);
        assert_eq!(timeline.looks_ns.len(), 10);
        let [one, nine] = &timeline.threads[..] else { panic!("{timeline:?}") };
        assert_eq!((one.name.as_str(), one.states.as_str()), ("one", " rwsdAZls "));
        assert_eq!((nine.tid, nine.states.as_str()), (9, "         w"));
    }

    #[test]
    fn a_thread_that_got_no_cpu_queues() {
        let timeline = drawn(vec![vec![(1, runnable(0.0))]; 3], &[]);
        assert_eq!(timeline.threads[0].states, "qqq");
    }

    #[test]
    fn looks_and_threads_are_bounded_and_evenly_spread() {
        let mut recorder = Recorder::default();
        for look in 0..10_000_u32 {
            if recorder.keeps(look) {
                recorder.add(u64::from(look), (0..100).map(|tid| (tid, Cell::Asleep)).collect());
            }
        }
        let timeline = recorder.timeline(&[], |_| false, &BTreeMap::new(), |_| false);
        let looks = timeline.looks_ns;
        assert!((LOOKS_MAX / 2..=LOOKS_MAX).contains(&looks.len()), "{}", looks.len());
        let step = looks[1] - looks[0];
        assert!(looks.windows(2).all(|pair| pair[1] - pair[0] == step), "{looks:?}");
        assert_eq!(timeline.threads.len(), THREADS_MAX);
        assert!(timeline.threads.iter().all(|thread| thread.states.len() == looks.len()));
    }

    #[test]
    fn thousands_of_threads_need_no_more_memory() {
        let mut recorder = Recorder::default();
        for look in 0..100 {
            recorder.add(look, (0..10_000).map(|tid| (tid, Cell::Asleep)).collect());
            assert!(recorder.cells <= CELLS_MAX, "{look}");
        }
    }

    #[test]
    fn the_threads_that_lost_most_come_first() {
        let looks = vec![vec![(1, Cell::Asleep), (2, Cell::Blocked), (3, runnable(1.0))]; 3];
        let timeline = drawn(looks, &[]);
        assert_eq!(timeline.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [2, 1, 3]);
    }
}
