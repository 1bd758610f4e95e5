//! The requests of threads: each thread has a queue of requests, which it repeats.
//!
//! A queue is made before the measured time, so that drawing numbers costs nothing during the run,
//! and so that every competitor gets the same ranges in the same order. A range is some bytes that
//! begin and end at words of 8 bytes. So an owner for each word is enough to find out whether two
//! overlapping ranges were held at once.
//!
//! The thesis' author deals shuffled ranges to the threads ([`Pattern::Shuffled`]), so that a range
//! is far from the one before it, and each thread's ranges lie among those of all others.
//!
//! Some locks know only blocks. Where threads have slices of their own, each slice consists of
//! whole ranges, whose width is a power of two. So two threads, or two ranges of a batch, never
//! have a block in common, unless blocks are wider than these ranges.
//!
//! The overlap is the chance that two requests of different threads overlap. For ranges of L bytes
//! that begin anywhere in a window of W bytes it is 1 - (1 - L / (W - L))²; with 1 KiB in 7 KiB it
//! is 31 %.

use manx::range::{Access, Span};

/// The bytes of a word, which has one owner.
pub const WORD: usize = 8;
/// The usual width of a range.
pub const WIDTH: usize = 1024;
/// The usual size of the region that threads share.
pub(super) const SPACE: usize = 512 * 1024;
/// The most threads that can be asked for.
pub const THREADS_MAX: usize = 64;
/// The number of requests in a queue whose ranges are drawn.
const DRAWN: usize = 1024;
/// The widest of ranges that are of many widths.
const WIDTH_MAX: usize = 64 * 1024;
/// The narrowest.
const WIDTH_MIN: usize = 64;
/// The width of ranges that meet at their edges: no power of two, so that edges lie anywhere in a
/// block.
const WIDTH_EDGES: usize = 1000;

/// A range, and how a thread accesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its first byte
    pub start: u32,
    /// The first byte behind it
    pub end: u32,
    /// Whether others may read it at the same time
    pub access: Access,
}

impl Request {
    /// Exclusive.
    fn of(start: usize, width: usize) -> Request {
        Request { start: start as u32, end: (start + width) as u32, access: Access::Exclusive }
    }

    /// Its keys.
    #[inline(always)]
    pub(super) fn span(self) -> Span<u64> {
        Span::new(u64::from(self.start), u64::from(self.end)).expect("requests have bytes")
    }

    /// Whether there is a byte in both.
    #[cfg(test)]
    fn overlaps(self, other: Request) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Which ranges a thread asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// One range after the other in the thread's own slice.
    Own {
        /// Of all slices together
        space: usize,
    },
    /// Adjacent ranges, shuffled and dealt to the threads in equal parts.
    Shuffled {
        /// How many there are
        ranges: usize,
    },
    /// Ranges anywhere in a window; `readers_percent` % of them are shared.
    Window {
        /// Its size
        window: usize,
        /// How many of a hundred requests read
        readers_percent: u32,
    },
    /// The same range again and again. It begins where the range of the thread before ends.
    Edges {
        /// The size of the space in which the ranges lie, from its start
        space: usize,
    },
    /// Ranges of many widths in the thread's own slice.
    Widths {
        /// Of all slices together
        space: usize,
    },
}

impl Pattern {
    /// Requests within `space` bytes. Two requests of different threads overlap with a chance of
    /// `percent` %.
    pub fn overlapping(percent: u32, space: usize) -> Pattern {
        if percent == 0 {
            return Pattern::Own { space };
        }
        let part = 1.0 - (1.0 - f64::from(percent.min(100)) / 100.0).sqrt();
        let window = (WIDTH as f64 * (1.0 + 1.0 / part)) as usize / WORD * WORD;
        Pattern::Window { window: window.min(space), readers_percent: 0 }
    }

    /// True if no two threads ask for the same byte.
    pub fn disjoint(self) -> bool {
        !matches!(self, Pattern::Window { .. })
    }

    /// The width of ranges that begin at its multiples; `None` if ranges begin anywhere.
    pub fn unit(self, threads: usize) -> Option<usize> {
        match self {
            Pattern::Own { space } => Some(unit(space, threads)),
            Pattern::Shuffled { .. } => Some(WIDTH),
            Pattern::Window { .. } | Pattern::Edges { .. } | Pattern::Widths { .. } => None,
        }
    }

    /// The bytes that may be asked for.
    pub fn space(self) -> usize {
        match self {
            Pattern::Own { space } | Pattern::Edges { space } | Pattern::Widths { space } => space,
            Pattern::Shuffled { ranges } => ranges * WIDTH,
            Pattern::Window { window, .. } => window,
        }
    }

    /// Returns the requests of each of `threads` threads.
    ///
    /// # Panics
    /// As [`Pattern::queue`].
    pub fn queues(self, threads: usize) -> Vec<Vec<Request>> {
        let Pattern::Shuffled { ranges } = self else {
            return (0..threads).map(|thread| self.queue(thread, threads)).collect();
        };
        assert!(ranges >= threads, "{ranges} ranges for {threads} threads");
        let mut all: Vec<Request> = (0..ranges).map(|at| Request::of(at * WIDTH, WIDTH)).collect();
        dice(0).shuffle(&mut all);
        all.chunks_exact(ranges / threads).take(threads).map(<[Request]>::to_vec).collect()
    }

    /// Returns the requests of thread `thread` of `threads`.
    ///
    /// # Panics
    /// If there is not a word, or a range that meets others at its edges, for each thread; or the
    /// window is narrower than a range.
    pub fn queue(self, thread: usize, threads: usize) -> Vec<Request> {
        let mut dice = dice(thread as u64);
        let slice = |space: usize| {
            let unit = unit(space, threads);
            let slice = space / threads / unit * unit;
            (thread * slice, slice)
        };
        match self {
            Pattern::Own { space } => {
                let (first, slice) = slice(space);
                let width = unit(space, threads);
                (0..slice / width).map(|at| Request::of(first + at * width, width)).collect()
            }
            Pattern::Shuffled { .. } => self.queues(threads).swap_remove(thread),
            Pattern::Edges { space } => {
                assert!(space >= threads * WIDTH_EDGES, "{space} bytes for {threads} threads");
                vec![Request::of(thread * WIDTH_EDGES, WIDTH_EDGES)]
            }
            Pattern::Window { window, readers_percent } => {
                assert!(window >= WIDTH, "a window of {window} bytes");
                let places = (window - WIDTH) / WORD + 1;
                let mut draw = || {
                    let request = Request::of(dice.usize(..places) * WORD, WIDTH);
                    let reads = dice.usize(..100) < readers_percent as usize;
                    Request { access: if reads { Access::Shared } else { Access::Exclusive }, ..request }
                };
                (0..DRAWN).map(|_| draw()).collect()
            }
            Pattern::Widths { space } => {
                let (first, slice) = slice(space);
                let most = WIDTH_MAX.min(slice);
                let least = WIDTH_MIN.min(most);
                // Each doubling of the width is as likely as any other.
                let doublings = (most / least).ilog2() as usize + 1;
                let mut draw = || {
                    let width = least << dice.usize(..doublings);
                    let places = (slice - width) / WORD + 1;
                    Request::of(first + dice.usize(..places) * WORD, width)
                };
                (0..DRAWN).map(|_| draw()).collect()
            }
        }
    }
}

/// The width of ranges in slices: a power of two, so that a slice has at least one of them.
fn unit(space: usize, threads: usize) -> usize {
    let slice = space / threads;
    assert!(slice >= WORD, "{space} bytes for {threads} threads");
    WIDTH.min(1 << slice.ilog2())
}

/// Numbers that look drawn at random, the same in every run.
pub(crate) fn dice(thread: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(thread)
}

/// SplitMix64's mixing function (Steele, Lea and Flood). Each step has an inverse.
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of pairs of two threads' requests that overlap, of the first few hundred.
    fn overlapping(one: &[Request], other: &[Request]) -> f64 {
        let [one, other] = [one, other].map(|queue| &queue[..queue.len().min(400)]);
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| a.overlaps(*b)));
        pairs.filter(|&overlap| overlap).count() as f64 / (one.len() * other.len()) as f64
    }

    #[test]
    fn slices_are_disjoint_and_whole_words() {
        for pattern in [
            Pattern::Own { space: 512 * 1024 },
            Pattern::Own { space: 16 * 1024 },
            Pattern::Edges { space: 32 * WIDTH_EDGES },
            Pattern::Widths { space: 512 * 1024 },
        ] {
            for threads in [1, 2, 3, 8, 32] {
                assert!(pattern.disjoint());
                let mut free = 0;
                for thread in 0..threads {
                    let queue = pattern.queue(thread, threads);
                    for request in &queue {
                        let ends = [request.start as usize, request.end as usize];
                        assert!(
                            free <= ends[0] && ends[0] < ends[1],
                            "{request:?} of {thread} in {pattern:?}"
                        );
                        assert!(ends[1] <= pattern.space(), "{request:?}");
                        assert!(ends.iter().all(|end| end % WORD == 0), "{request:?}");
                    }
                    if let Some(unit) = pattern.unit(threads) {
                        let whole = |request: &Request| (request.start as usize).is_multiple_of(unit);
                        assert!(unit.is_power_of_two() && queue.iter().all(whole));
                    }
                    // The next thread's slice is behind all of this one's.
                    let last = queue.iter().map(|request| request.end as usize).max();
                    free = last.expect("every thread has something to ask for");
                }
            }
        }
    }

    #[test]
    fn shuffled_ranges_are_dealt_once_each_and_lie_among_those_of_other_threads() {
        const RANGES: usize = 10_000;
        let pattern = Pattern::Shuffled { ranges: RANGES };
        for threads in [1, 3, 64] {
            let queues = pattern.queues(threads);
            assert!(queues.iter().all(|queue| queue.len() == RANGES / threads));
            let mut starts: Vec<u32> = queues.iter().flatten().map(|request| request.start).collect();
            starts.sort_unstable();
            assert!(starts.windows(2).all(|pair| pair[0] < pair[1]) && pattern.disjoint());
            let half = (pattern.space() / 2) as u32;
            for queue in &queues {
                let low = queue.iter().filter(|request| request.start < half).count();
                assert!((queue.len() / 4..queue.len() * 3 / 4).contains(&low), "{low} of {}", queue.len());
            }
        }
    }

    #[test]
    fn ranges_that_meet_at_edges_have_nothing_in_between() {
        let pattern = Pattern::Edges { space: 8 * WIDTH_EDGES };
        let edges = |thread| pattern.queue(thread, 8)[0];
        assert!((1..8).all(|thread| edges(thread - 1).end == edges(thread).start));
    }

    #[test]
    fn a_thread_of_its_own_slice_never_overlaps_itself_so_batches_cannot_block_themselves() {
        for threads in [1, 2, 3, 8, 32] {
            let queue = Pattern::Own { space: 512 * 1024 }.queue(threads - 1, threads);
            for (at, request) in queue.iter().enumerate() {
                assert!(queue[..at].iter().all(|other| !other.overlaps(*request)));
            }
        }
    }

    #[test]
    fn the_given_percentage_of_pairs_overlaps() {
        for percent in [0, 1, 10, 25, 31, 50, 75, 100] {
            let pattern = Pattern::overlapping(percent, 512 * 1024);
            let queues: Vec<_> = (0..4).map(|thread| pattern.queue(thread, 4)).collect();
            let (mut sum, mut pairs) = (0.0, 0.0);
            for (at, queue) in queues.iter().enumerate() {
                for other in &queues[..at] {
                    sum += overlapping(queue, other);
                    pairs += 1.0;
                }
            }
            let found = 100.0 * sum / pairs;
            assert!((found - f64::from(percent)).abs() <= 2.0, "{found} instead of {percent} %");
        }
    }

    #[test]
    fn seven_kilobytes_are_what_a_third_overlaps_in() {
        let Pattern::Window { window, .. } = Pattern::overlapping(31, usize::MAX) else {
            panic!("a window is shared")
        };
        assert!((6 * 1024..8 * 1024).contains(&window), "{window}");
    }

    #[test]
    fn the_given_percentage_of_requests_reads() {
        for percent in [0, 50, 90, 100] {
            let queue = Pattern::Window { window: 7 * WIDTH, readers_percent: percent }.queue(5, 8);
            let readers = queue.iter().filter(|request| request.access == Access::Shared).count() as f64;
            let found = 100.0 * readers / queue.len() as f64;
            assert!((found - f64::from(percent)).abs() < 5.0, "{found} instead of {percent} %");
        }
    }

    #[test]
    fn widths_reach_from_the_narrowest_to_the_widest() {
        let queue = Pattern::Widths { space: 512 * 1024 }.queue(0, 8);
        let widths = || queue.iter().map(|request| (request.end - request.start) as usize);
        assert_eq!((widths().min(), widths().max()), (Some(WIDTH_MIN), Some(WIDTH_MAX)));
    }
}
