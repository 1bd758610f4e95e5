//! When to keep a program to fewer CPUs under a quota, and to how many.
//!
//! A group of processes with a quota gets so much CPU time in each period. If its threads run on
//! more CPUs than the quota pays for, they use the time up early, and then the kernel stops all of
//! them until the period ends: with two threads and a quota of one CPU, for 50 ms of each 100. This
//! stop is the tail of what the program does. A program whose threads run on as many CPUs as the
//! quota pays for gets the same CPU time and is never stopped. So to keep it there costs no
//! throughput, as long as these CPUs are free for it.
//!
//! # A fraction
//! A quota of 1.5 CPUs pays for one CPU all the time and for a second one half of the time. So for
//! the first half of a period the program has two CPUs, and then one. Any stretch of time as long
//! as a period then holds the same CPU time, whenever the kernel's period begins. A quota of less
//! than one CPU cannot be paced in this way: the program has one CPU, and is stopped for a shorter
//! time.
//!
//! # Evidence
//! Nothing is done to a program that is not stopped. What is done is asked about:
//!
//! | what is seen | what follows |
//! | --- | --- |
//! | the group was stopped | for a twentieth of a period only a look: what it gets, and how long its threads run at a time. This time begins anew when the program loads code: runtimes count CPUs when they are loaded, and remember them |
//! | the stop was longer than a hundredth of a period | it is paced, and these figures are kept |
//! | in a second of pacing it is stopped for more than half of that time: others in the group use the quota, or the quota is too small | pacing ends, for a second at first and for twice the time whenever that is seen again |
//! | it gets less than nine tenths, and these CPUs are not idle: others use them | the same |
//! | its threads run for less than 10 µs at a time, and for a quarter of what they ran before at most: they wait for each other so often that to switch takes longer than the work, and before they waited on CPUs of their own | the same, for eight seconds at first. This is looked at in each period |
//! | it gets between two and four fifths: its threads wait for each other, and need more CPUs at a time than they use | the same |
//! | it gets less, because it has less to do | pacing ends, after a second at first; if it is soon stopped again, after twice the time |
//! | the quota is another one | pacing ends; if the group is stopped, all begins again |
//!
//! So a program stands still once, when it first uses up its quota. To look for a second costs ten
//! stops more: 2 threads of PyTorch with a quota of one CPU had a p99 of 58 ms in runs of 5 s.
//!
//! Invariants:
//! 1. A program that is never stopped is never paced.
//! 2. While a program is paced, it has at least one CPU, and at least the whole CPUs of its quota.

use manx::cpu::Quota;

/// A period that is shorter or longer than this is taken for this.
const PERIOD_NS: std::ops::RangeInclusive<u64> = 20_000_000..=1_000_000_000;
/// The time for which a program is paced before it is judged.
const STRETCH_NS: u64 = 1_000_000_000;
/// The shortest rest after pacing did not help, and the shortest time for which a program is paced
/// that has little to do …
const PATIENCE_NS_MIN: u64 = 1_000_000_000;
/// … and the longest. Both double.
const PATIENCE_NS_MAX: u64 = 64_000_000_000;
/// Threads that run for less than this at a time do hardly anything but switch …
const SLICE_NS_MIN: f64 = 10_000.0;
/// … if they switch more often than this in a second …
const SLICES_MIN: f64 = 1_000.0;
/// … and it is this part of what it was.
const SLICE_PART: f64 = 0.25;
/// The shortest rest after that.
const SWITCHES_REST_NS_MIN: u64 = 8_000_000_000;
/// A program that is stopped again within this number of times the time for which it was paced is
/// stopped soon.
const SOON: u64 = 10;
/// A program that gets this part of what it got does not have less to do: it is slower.
const ONLY_SLOWER: std::ops::Range<f64> = 0.4..0.8;
/// A program that is stopped for less than this part of a period is left alone.
const STOPPED_MIN: f64 = 0.01;
/// The part of a fraction that is used: the rest is for what else runs in the group.
const USED: f64 = 0.95;
/// Looks in a period while the program is not paced: a stop is seen before the next one …
const LOOKS: u64 = 4;
/// … and while it is asked about.
const ASKS: u64 = 20;
/// A smaller fraction is not worth the changes.
const FRACTION_MIN: f64 = 0.1;

/// A look at a moment. All but the time and the quota are sums that only grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// By the monotonic clock.
    pub now_ns: u64,
    /// The quota, if there is one.
    pub quota: Option<Quota>,
    /// For how long the group was stopped, summed over CPUs.
    pub stopped_ns: u64,
    /// The CPU time that the program got.
    pub got_ns: u64,
    /// The number of times that a thread of the program came to a CPU.
    pub slices: u64,
    /// The number of files with code in the program's memory.
    pub code: u64,
    /// For how long the CPUs to which the program is kept had nothing to run.
    pub idle_ns: u64,
}

/// To how many CPUs a program is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The number of CPUs that it has all the time.
    pub narrow: usize,
    /// The number that it has in the first part of each period.
    pub wide: usize,
    /// The length of this first part.
    pub wide_ns: u64,
    /// The length of a period.
    pub period_ns: u64,
}

/// What a program gets, for a second of time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    stopped: f64,
    got: f64,
    slices: f64,
    idle: f64,
}

impl Rates {
    /// How long a thread runs at a time, in nanoseconds; for ever if threads hardly switch.
    fn slice_ns(&self) -> f64 {
        if self.slices < SLICES_MIN { f64::INFINITY } else { self.got * 1e9 / self.slices }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Not paced; not before this time.
    Free { until_ns: u64 },
    /// It was stopped, for this part of a period. What the group gets is looked at since then.
    Asked { stopped: f64, since: Seen },
    /// Paced since then. The stretch is the one that is not judged yet.
    Paced { pace: Pace, since_ns: u64, as_it_was: Rates, stretch: Seen },
}

/// Decides for one program. [`Pacer::see`] is called as often as [`Pacer::next_ns`] says.
#[derive(Debug)]
pub struct Pacer {
    allowed: usize,
    state: State,
    before: Option<Seen>,
    rest_ns: u64,
    hold_ns: u64,
    ended_ns: Option<u64>,
}

impl Pace {
    /// How a quota is paced on this number of CPUs; `None` if it pays for all of them.
    pub fn of(quota: Quota, allowed: usize) -> Option<Pace> {
        let cpus = quota.cpus();
        let narrow = (cpus as usize).max(1);
        if narrow >= allowed {
            return None;
        }
        let period_ns = period_ns(Some(quota));
        let fraction = (cpus - narrow as f64) * USED;
        let wide = if fraction < FRACTION_MIN { narrow } else { narrow + 1 };
        let wide_ns = if wide == narrow { 0 } else { (period_ns as f64 * fraction) as u64 };
        Some(Pace { narrow, wide, wide_ns, period_ns })
    }

    /// The CPU time in a second of a program that uses this much where there are enough CPUs.
    fn share(&self, got: f64) -> f64 {
        let wide = self.wide_ns as f64 / self.period_ns as f64;
        got.min(self.narrow as f64) * (1.0 - wide) + got.min(self.wide as f64) * wide
    }

    /// To how many CPUs the program is kept this long after the beginning, and for how long from
    /// then on.
    pub fn at(&self, since_ns: u64) -> (usize, u64) {
        let phase_ns = since_ns % self.period_ns;
        match phase_ns < self.wide_ns {
            true => (self.wide, self.wide_ns - phase_ns),
            false => (self.narrow, self.period_ns - phase_ns),
        }
    }
}

/// A group's period, within bounds.
pub fn period_ns(quota: Option<Quota>) -> u64 {
    let period_ns = quota.map_or(*PERIOD_NS.end(), |quota| quota.period.as_nanos() as u64);
    period_ns.clamp(*PERIOD_NS.start(), *PERIOD_NS.end())
}

impl Pacer {
    /// For a program that may run on this number of CPUs.
    pub fn new(allowed: usize) -> Pacer {
        Pacer {
            allowed,
            state: State::Free { until_ns: 0 },
            before: None,
            rest_ns: PATIENCE_NS_MIN,
            hold_ns: PATIENCE_NS_MIN,
            ended_ns: None,
        }
    }

    /// How the program is paced, and since when; `None` if it is not.
    pub fn pace(&self) -> Option<(Pace, u64)> {
        match self.state {
            State::Paced { pace, since_ns, .. } => Some((pace, since_ns)),
            _ => None,
        }
    }

    /// Whether what the program gets has to be seen: the program is paced, or may be soon.
    pub fn asks(&self) -> bool {
        !matches!(self.state, State::Free { .. })
    }

    /// For how long there is nothing to see under this quota; the program is not paced.
    pub fn next_ns(&self, quota: Option<Quota>) -> u64 {
        match (quota, self.state) {
            (None, _) => period_ns(None),
            (_, State::Asked { .. }) => period_ns(quota) / ASKS,
            _ => period_ns(quota) / LOOKS,
        }
    }

    /// Another helper acts for the group.
    pub fn give_up(&mut self) {
        self.state = State::Free { until_ns: 0 };
    }

    /// Decides anew.
    pub fn see(&mut self, seen: Seen) {
        let Some(before) = self.before.replace(seen) else { return };
        if before.quota != seen.quota {
            self.state = State::Free { until_ns: 0 };
            return;
        }
        let Some(pace) = seen.quota.and_then(|quota| Pace::of(quota, self.allowed)) else { return };
        match self.state {
            State::Free { until_ns } => {
                let stopped_ns = seen.stopped_ns - before.stopped_ns;
                let span_ns = (seen.now_ns - before.now_ns).max(pace.period_ns);
                let stopped = stopped_ns as f64 / span_ns as f64;
                if stopped > STOPPED_MIN && seen.now_ns >= until_ns {
                    self.state = State::Asked { stopped, since: seen };
                }
            }
            State::Asked { stopped, since } => {
                if seen.code != since.code {
                    self.state = State::Asked { stopped, since: seen };
                } else if seen.now_ns - since.now_ns >= pace.period_ns / ASKS {
                    let now = rates(&since, &seen);
                    // It ran without a stop. In a whole period it is stopped for what is above its
                    // quota; the first stop may have been a short one.
                    let cpus = seen.quota.map_or(f64::INFINITY, |quota| quota.cpus());
                    let (got, stopped) = (pace.share(now.got).min(cpus), stopped.max(now.got - cpus));
                    self.begin(seen.now_ns);
                    let as_it_was = Rates { stopped, got, ..now };
                    self.state = State::Paced { pace, since_ns: seen.now_ns, as_it_was, stretch: seen };
                }
            }
            State::Paced { since_ns, as_it_was, ref mut stretch, .. } => {
                // The CPUs are known since the first step of pacing only.
                if stretch.now_ns == since_ns {
                    *stretch = seen;
                    return;
                }
                let lately = rates(&before, &seen);
                let slice_ns = lately.slice_ns();
                if slice_ns < SLICE_NS_MIN && slice_ns < SLICE_PART * as_it_was.slice_ns() {
                    self.rest_ns = self.rest_ns.max(SWITCHES_REST_NS_MIN);
                    self.end(seen.now_ns);
                    return;
                }
                if seen.now_ns - stretch.now_ns < STRETCH_NS {
                    return;
                }
                let rates = rates(stretch, &seen);
                *stretch = seen;
                self.judge(&as_it_was, &rates, pace, seen.now_ns, since_ns);
            }
        }
    }

    /// Pacing begins. If it ended a short time ago, it lasts longer from now on.
    fn begin(&mut self, now_ns: u64) {
        let soon = self.ended_ns.take().is_some_and(|ended_ns| now_ns - ended_ns < SOON * self.hold_ns);
        self.hold_ns = if soon { (self.hold_ns * 2).min(PATIENCE_NS_MAX) } else { PATIENCE_NS_MIN };
    }

    /// Pacing does not help.
    fn end(&mut self, now_ns: u64) {
        self.state = State::Free { until_ns: now_ns + self.rest_ns };
        self.rest_ns = (self.rest_ns * 2).min(PATIENCE_NS_MAX);
    }

    fn judge(&mut self, as_it_was: &Rates, now: &Rates, pace: Pace, now_ns: u64, since_ns: u64) {
        let has_idle_cpus = now.idle > 0.05 * pace.narrow as f64;
        let in_vain = now.stopped > 0.5 * as_it_was.stopped;
        let crowded_out = now.got < 0.9 * as_it_was.got && !has_idle_cpus;
        let needs_more = ONLY_SLOWER.contains(&(now.got / as_it_was.got));
        if in_vain || crowded_out || needs_more {
            return self.end(now_ns);
        }
        self.rest_ns = PATIENCE_NS_MIN;
        if now.got < ONLY_SLOWER.start * as_it_was.got && now_ns - since_ns >= self.hold_ns {
            self.state = State::Free { until_ns: 0 };
            self.ended_ns = Some(now_ns);
        }
    }
}

fn rates(from: &Seen, to: &Seen) -> Rates {
    let ns = (to.now_ns - from.now_ns).max(1) as f64;
    let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / ns;
    Rates {
        stopped: rate(from.stopped_ns, to.stopped_ns),
        got: rate(from.got_ns, to.got_ns),
        slices: rate(from.slices, to.slices) * 1e9,
        idle: rate(from.idle_ns, to.idle_ns),
    }
}

#[cfg(test)]
#[path = "pace/tests.rs"]
mod tests;
