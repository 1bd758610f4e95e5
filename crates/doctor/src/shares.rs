//! How much of the lost time each cause has: each second that a thread loses counts for one cause.
//!
//! The kernel counts for how long threads wished to run and had no CPU. Several causes can
//! contribute to that number, so it is divided among them, in this order:
//!
//! 1. *Throttled*: the part of the time in which a quota stopped the group, times the threads that
//!    wished to run.
//! 2. *Behind holders*: the waits of lock holders that have a worse priority than their waiters and
//!    were kept from running. They count for the priority inversion, not for the crowd.
//! 3. *Crowd*: the time that the program would lose if it were alone on these CPUs, because it has
//!    more runnable threads than CPUs.
//! 4. *Neighbours*: the rest, as far as other processes used CPUs. A process that never has more
//!    runnable threads than CPUs has no crowd.
//! 5. The remaining time has no known cause: some wake-ups take long.
//!
//! Waits of threads that Manx's guard makes yield count for none of these causes: such a thread
//! waits for another thread, and lets it run.
//!
//! Then comes busy waiting. `spinning` is the part of the run time that threads spent in loops that
//! wait. Without these loops this part of the run time would not be needed, and the same part of
//! the crowd and the waits for neighbours would not occur: the CPU time that loops burn is missing
//! elsewhere. And a thread that waits for a CPU only to look again loses nothing. What a thread
//! would have done with the CPU is known by what it does with the CPU that it gets:
//! `waiting_to_spin` is the part of the waits after which threads spent their run time in loops.
//! All waits of a thread that yields in a loop belong to it. Of a crowd, busy waiting gets both
//! parts: the waits of threads that would have looked again, and of the other waits those for
//! threads that spun. So it comes before the crowd if loops take about a quarter of the CPU time.
//! Of waits for neighbours, whose loops are another matter, it gets the greater part. The usual
//! case are two copies of a program that spin beside each other. The time that loops burn counts as
//! far as threads waited for a CPU: while CPUs are enough, nobody needs it. Throttled time is the
//! quota's: it would not be without the quota, whatever the threads do.
//!
//! The neighbours of a program that spins may spin, too. The part of their run time that they spend
//! in loops is no work that this program has to wait for. So busy waiting also gets this part of
//! the remaining waits for neighbours. A program that does not spin itself waits for its
//! neighbours, whatever they do.
//!
//! Threads that sleep for locks or disks are not in these numbers. They are counted at each look.

use crate::evidence::Evidence;
use crate::evidence::faults::worst;
use crate::evidence::thread::ThreadEvidence;
use crate::verdict::PART_MIN;

/// If neighbours used less of a CPU than this, they are no cause.
const NEIGHBOURS_MIN: f64 = 0.05;
/// Neighbours may have used this many times the CPU time that was counted, because ticks are
/// coarse.
const NEIGHBOURS_SLACK: f64 = 1.1;

/// Numbers of threads, on average over the time for which the process was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// How many CPUs the threads may use, without quotas
    pub cpus: f64,
    /// Threads that ran
    pub running: f64,
    /// Threads that wished to run and had no CPU
    pub waiting: f64,
    /// For which part of the time the group was stopped
    pub stopped: f64,
    /// Of the waiting threads: those that a quota stopped
    pub throttled: f64,
    /// … holders of locks that waiters of a better priority wait for
    pub behind_holders: f64,
    /// … those for which there are too few CPUs
    pub crowd: f64,
    /// … those that waited for other processes
    pub neighbours: f64,
    /// Which part of the run time threads spent in loops that wait, from 0 to 1
    pub spinning: f64,
    /// Which part of the waits for a CPU is of threads that would only have looked again, from 0 to
    /// 1
    pub waiting_to_spin: f64,
    /// Which part of their run time the neighbours of a program that spins spent in loops that wait
    pub others_spinning: f64,
    /// The part of the waits in loops that is for a thread with page faults, from 0 to 1
    pub faulting: f64,
    /// Threads that slept for a lock
    pub locked: f64,
    /// Of them: those that waited for a holder of worse priority that was kept from running
    pub inverted: f64,
    /// Threads that waited for a disk
    pub blocked: f64,
}

impl Shares {
    /// Divides the lost time in the evidence among the causes.
    pub fn of(evidence: &Evidence) -> Shares {
        let looks = f64::from(evidence.looks.max(1));
        let sum = |of: fn(&ThreadEvidence) -> u32| {
            evidence.threads.iter().map(|thread| f64::from(of(thread))).sum::<f64>() / looks
        };
        let running = evidence.running();
        let throttled_ns = evidence.groups.iter().map(|group| group.throttled_ns).max().unwrap_or(0);
        let mut waiting = evidence.waiting() - evidence.per_time(guarded_wait_ns(evidence));
        if throttled_ns > 0 || waiting == 0.0 {
            // Not every kernel counts a stopped thread as waiting, and some count no waits.
            let runnable =
                |thread: &ThreadEvidence| if yields_for_manx(thread) { 0 } else { thread.runnable };
            waiting = waiting.max(sum(runnable) - running);
        }
        let wished = running + waiting;
        let cpus = evidence.cpus.max(1.0);
        let stopped = (evidence.per_time(throttled_ns) / cpus.min(wished.max(1.0))).min(1.0);
        let throttled = waiting.min(stopped * wished);

        let locks = evidence.locks.iter();
        let locked: f64 = locks.clone().map(|lock| lock.waiters).sum();
        let inverted: f64 = locks.clone().map(|lock| lock.inverted).sum();
        let kept: f64 =
            locks.filter(|lock| lock.inverted > 0.0).map(|lock| f64::from(lock.holder_kept) / looks).sum();
        let behind_holders = kept.min(waiting - throttled);

        let rest = waiting - throttled - behind_holders;
        let crowd = (running + rest - cpus).clamp(0.0, rest);
        // Threads that wake up often and run for a moment would need no more CPU if they were
        // alone. Of them, a crowd waits at most for each other's run time.
        let steady = steady(evidence) / wished.max(f64::MIN_POSITIVE);
        let short = crowd.min(running * (running + rest) / cpus);
        let crowd = steady.min(1.0) * crowd + (1.0 - steady.min(1.0)) * short;
        let others = evidence.machine.busy_cpus - running;
        let others = if others < NEIGHBOURS_MIN { 0.0 } else { others * NEIGHBOURS_SLACK };
        let neighbours = (rest - crowd).min(others);
        let spinning = spinning(&evidence.threads);
        let waiting_to_spin = waiting_to_spin(&evidence.threads, spinning);
        let spins = spinning.max(waiting_to_spin) >= PART_MIN;
        Shares {
            cpus,
            running,
            waiting,
            stopped,
            throttled,
            behind_holders,
            crowd,
            neighbours,
            spinning,
            waiting_to_spin,
            others_spinning: evidence.machine.others_spinning.filter(|_| spins).unwrap_or(0.0),
            faulting: worst(&evidence.fault_sites, evidence.in_loops().1).map_or(0.0, |(_, part)| part),
            locked,
            inverted,
            blocked: sum(|thread| thread.blocked),
        }
    }

    /// How many threads ran, waited for a CPU, or slept for a lock or a disk.
    pub fn all(&self) -> f64 {
        self.running + self.waiting + self.locked + self.blocked
    }

    /// The cost of busy waiting, but for what it costs because a holder has page faults: the CPU
    /// time that it burns while CPUs are short, and the waits for a CPU that it causes.
    pub fn busy_waiting(&self) -> f64 {
        (1.0 - self.faulting) * (self.burned().min(self.waiting) + self.waits_to_spin())
    }

    /// The cost of spinning for a thread that has page faults. They would not wait
    /// without the faults, so what they burn counts also where CPUs are enough.
    pub fn behind_faults(&self) -> f64 {
        self.faulting * (self.burned() + self.waits_to_spin())
    }

    /// The number of CPUs that loops that wait burn.
    pub fn burned(&self) -> f64 {
        self.spinning * self.running
    }

    /// The waits for a CPU that busy waiting causes.
    pub fn waits_to_spin(&self) -> f64 {
        self.crowd - self.crowd_without_busy_waiting() + self.neighbours
            - self.neighbours_without_busy_waiting()
    }

    /// The crowd without the part that busy waiting has of it: the waits after which threads work,
    /// as far as threads that worked had the CPUs meanwhile.
    pub fn crowd_without_busy_waiting(&self) -> f64 {
        (1.0 - self.waiting_to_spin) * (1.0 - self.spinning) * self.crowd
    }

    /// The waits for neighbours without the part that busy waiting has of them, this program's and
    /// the neighbours'.
    pub fn neighbours_without_busy_waiting(&self) -> f64 {
        (1.0 - self.others_spinning) * (1.0 - self.spinning.max(self.waiting_to_spin)) * self.neighbours
    }
}

/// How many threads ran or wished to run, on average, among the threads that did so for at least
/// half of the time.
fn steady(evidence: &Evidence) -> f64 {
    let wished_ns = evidence.threads.iter().map(|thread| thread.run_ns + thread.wait_ns);
    evidence.per_time(wished_ns.filter(|wished_ns| *wished_ns >= evidence.span_ns / 2).sum())
}

/// Whether Manx's guard makes the thread yield.
fn yields_for_manx(thread: &ThreadEvidence) -> bool {
    thread.is_guarded && thread.yields()
}

/// For how long threads waited for a CPU only because Manx's guard makes them yield. Such a thread
/// waits for another thread, and lets it run meanwhile: it loses nothing.
fn guarded_wait_ns(evidence: &Evidence) -> u64 {
    let yielders = evidence.threads.iter().filter(|thread| yields_for_manx(thread));
    yielders.map(|thread| thread.wait_ns).sum()
}

/// Which part of the waits for a CPU is of threads that would only have looked again; `usual` is
/// for threads that were not sampled.
fn waiting_to_spin(threads: &[ThreadEvidence], usual: f64) -> f64 {
    let part = |thread: &ThreadEvidence| match thread.yields() {
        true if thread.is_guarded => 0.0,
        true => 1.0,
        false => thread.spinning().unwrap_or(usual),
    };
    let to_spin: f64 = threads.iter().map(|thread| thread.wait_ns as f64 * part(thread)).sum();
    to_spin / threads.iter().map(|thread| thread.wait_ns).sum::<u64>().max(1) as f64
}

/// Which part of the run time of the sampled threads lies in loops that wait.
fn spinning(threads: &[ThreadEvidence]) -> f64 {
    let sampled = threads.iter().filter_map(|thread| Some((thread.run_ns as f64, thread.spinning()?)));
    let (run, spun) = sampled.fold((0.0, 0.0), |(run, spun), (ran, part)| (run + ran, spun + ran * part));
    if run > 0.0 { spun / run } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::group::GroupEvidence;
    use crate::evidence::locks::LockEvidence;
    use crate::evidence::machine::MachineEvidence;

    const SECOND: u64 = 1_000_000_000;

    /// Threads that each ran and waited for these parts of the time, on two CPUs.
    fn evidence(threads: &[(f64, f64)], busy_cpus: f64) -> Evidence {
        let ns = |part: f64| (part * SECOND as f64) as u64;
        let thread = |&(run, wait): &(f64, f64)| ThreadEvidence {
            run_ns: ns(run),
            wait_ns: ns(wait),
            ..ThreadEvidence::default()
        };
        Evidence {
            span_ns: SECOND,
            looks: 100,
            cpus: 2.0,
            threads: threads.iter().map(thread).collect(),
            machine: MachineEvidence { busy_cpus, ..MachineEvidence::default() },
            ..Evidence::default()
        }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 0.01
    }

    #[test]
    fn eight_threads_on_two_cpus_are_a_crowd() {
        let shares = Shares::of(&evidence(&[(0.25, 0.75); 8], 2.0));
        assert!(near(shares.crowd, 6.0) && near(shares.neighbours, 0.0), "{shares:?}");
        assert_eq!(shares.busy_waiting(), 0.0);
    }

    #[test]
    fn two_threads_that_wait_on_two_busy_cpus_have_neighbours() {
        let shares = Shares::of(&evidence(&[(0.4, 0.6); 2], 2.0));
        assert!(near(shares.crowd, 0.0) && near(shares.neighbours, 1.2), "{shares:?}");
    }

    #[test]
    fn many_threads_that_run_for_a_moment_each_are_no_crowd() {
        let shares = Shares::of(&evidence(&[(0.0001, 0.01); 500], 2.0));
        assert!(shares.crowd < 0.2 && near(shares.neighbours, 2.145), "{shares:?}");
    }

    #[test]
    fn threads_that_the_guard_makes_yield_lose_nothing() {
        let thread = ThreadEvidence {
            run_ns: SECOND / 4,
            wait_ns: 3 * SECOND / 4,
            involuntary: 10_000,
            kernel_ns: SECOND / 8,
            ..ThreadEvidence::default()
        };
        let evidence =
            Evidence { span_ns: SECOND, cpus: 2.0, threads: vec![thread; 8], ..Evidence::default() };
        assert!(Shares::of(&evidence).waiting > 5.9);
        let mut guarded = evidence;
        guarded.looks = 40;
        for thread in &mut guarded.threads {
            (thread.is_guarded, thread.runnable) = (true, 40);
        }
        let shares = Shares::of(&guarded);
        assert!(shares.waiting < 0.01 && shares.waiting_to_spin == 0.0, "{shares:?}");
    }

    #[test]
    fn threads_that_yield_answer_for_all_of_their_waits() {
        let mut evidence = evidence(&[(0.25, 0.75); 8], 2.0);
        for thread in &mut evidence.threads {
            (thread.involuntary, thread.waiting_samples) = (10_000, 1);
        }
        let shares = Shares::of(&evidence);
        assert!(near(shares.waiting_to_spin, 1.0) && near(shares.busy_waiting(), 6.0), "{shares:?}");
        assert!(near(shares.crowd_without_busy_waiting(), 0.0));
    }

    #[test]
    fn a_wait_without_neighbours_has_no_cause() {
        let shares = Shares::of(&evidence(&[(0.4, 0.6); 2], 0.8));
        assert!(near(shares.crowd + shares.neighbours, 0.0), "{shares:?}");
    }

    #[test]
    fn time_that_a_quota_stopped_does_not_count_as_a_crowd() {
        let mut evidence = evidence(&[(0.125, 0.875); 4], 0.5);
        evidence.groups = vec![GroupEvidence { throttled_ns: SECOND * 3 / 2, ..GroupEvidence::default() }];
        let shares = Shares::of(&evidence);
        assert!(near(shares.stopped, 0.75) && near(shares.throttled, 3.0), "{shares:?}");
        assert!(near(shares.crowd, 0.0), "{shares:?}");
    }

    #[test]
    fn spinners_answer_for_their_part_of_the_crowd() {
        let mut evidence = evidence(&[(0.5, 0.5); 4], 2.0);
        for (at, thread) in evidence.threads.iter_mut().enumerate() {
            thread.samples = 100;
            thread.waiting_samples = if at < 2 { 100 } else { 0 };
        }
        let shares = Shares::of(&evidence);
        assert!(near(shares.spinning, 0.5) && near(shares.crowd, 2.0), "{shares:?}");
        assert!(near(shares.busy_waiting(), 2.5) && near(shares.crowd_without_busy_waiting(), 0.5));
    }

    #[test]
    fn spinners_answer_for_their_part_of_the_waits_for_neighbours() {
        let mut evidence = evidence(&[(0.5, 0.5); 2], 2.0);
        for thread in &mut evidence.threads {
            (thread.samples, thread.waiting_samples) = (100, 90);
        }
        let shares = Shares::of(&evidence);
        assert!(near(shares.neighbours, 1.0) && near(shares.busy_waiting(), 1.8), "{shares:?}");
        assert!(near(shares.neighbours_without_busy_waiting(), 0.1));
    }

    #[test]
    fn a_thread_that_spins_whenever_it_has_a_cpu_waits_for_nothing() {
        let mut evidence = evidence(&[(0.95, 0.05), (0.05, 0.95)], 2.0);
        for (at, thread) in evidence.threads.iter_mut().enumerate() {
            (thread.samples, thread.waiting_samples) = (20, [0, 16][at]);
        }
        let shares = Shares::of(&evidence);
        assert!(near(shares.spinning, 0.04) && near(shares.waiting_to_spin, 0.76), "{shares:?}");
        assert!(near(shares.busy_waiting(), 0.8) && near(shares.neighbours_without_busy_waiting(), 0.24));
    }

    #[test]
    fn a_neighbour_that_spins_is_no_neighbour_of_a_program_that_spins() {
        let mut evidence = evidence(&[(0.5, 0.5); 2], 2.0);
        evidence.machine.others_spinning = Some(0.5);
        let shares = Shares::of(&evidence);
        assert!(near(shares.busy_waiting(), 0.0) && near(shares.neighbours_without_busy_waiting(), 1.0));
        for thread in &mut evidence.threads {
            (thread.samples, thread.waiting_samples) = (100, 20);
        }
        let shares = Shares::of(&evidence);
        assert!(near(shares.busy_waiting(), 0.8) && near(shares.neighbours_without_busy_waiting(), 0.4));
    }

    #[test]
    fn a_holder_behind_a_hog_is_no_crowd() {
        let mut evidence = evidence(&[(1.0, 0.0), (1.0, 0.0), (0.05, 0.95)], 2.0);
        evidence.locks =
            vec![LockEvidence { waiters: 1.0, inverted: 0.9, holder_kept: 90, ..LockEvidence::default() }];
        let shares = Shares::of(&evidence);
        assert!(near(shares.behind_holders, 0.9) && shares.crowd < 0.1, "{shares:?}");
    }
}
