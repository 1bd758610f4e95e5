//! What the scheduler does to threads, each time as Linux does it: by nice values, real-time
//! priorities, quotas, siblings, neighbours and what a host steals.
//!
//! A thread is a function here that is called for each of its steps, and that tells the kernel what
//! the step is. So a second of a machine takes a few milliseconds.

use platform_sim::kernel::{Kernel, Next};
use platform_sim::lines::Access;
use platform_sim::machine::{Machine, Neighbour, Noise, Policy, Quota};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// What a thread does at its next step.
type Script = Box<dyn FnMut(&mut Kernel)>;

/// A thread on these CPUs; on all if there are none.
fn script(cpus: &[usize], step: impl FnMut(&mut Kernel) + 'static) -> (Vec<usize>, Script) {
    (cpus.to_vec(), Box::new(step))
}

/// Calculates until a time, 20 µs a step.
fn worker(cpus: &[usize], until_ns: u64) -> (Vec<usize>, Script) {
    script(cpus, move |kernel| if kernel.now_ns() < until_ns { kernel.work(20_000.0) } else { kernel.end() })
}

/// Calls `step` for each step, its number first, until it returns false.
fn steps(cpus: &[usize], mut step: impl FnMut(&mut Kernel, u64) -> bool + 'static) -> (Vec<usize>, Script) {
    let mut number = 0;
    script(cpus, move |kernel| {
        let goes_on = step(kernel, number);
        number += 1;
        if !goes_on {
            kernel.end();
        }
    })
}

/// Runs threads on a machine, all from the beginning on; `prepare` is called before they begin.
fn play_with(
    machine: &Machine,
    seed: u64,
    threads: Vec<(Vec<usize>, Script)>,
    prepare: impl FnOnce(&mut Kernel),
) -> (Kernel, Next) {
    let mut kernel = Kernel::new(machine, seed);
    let mut scripts = Vec::new();
    for (cpus, step) in threads {
        kernel.start(&cpus);
        scripts.push(step);
    }
    prepare(&mut kernel);
    loop {
        match kernel.advance() {
            Next::Step(id) => {
                while kernel.may_step() {
                    scripts[id](&mut kernel);
                }
            }
            end => return (kernel, end),
        }
    }
}

fn play(machine: &Machine, threads: Vec<(Vec<usize>, Script)>) -> Kernel {
    let (kernel, end) = play_with(machine, 1, threads, |_| ());
    assert_eq!(end, Next::Ended);
    kernel
}

fn known(name: &str) -> Machine {
    Machine::known(name).expect("a machine")
}

fn with_policy(policy: Policy) -> Machine {
    let mut machine = known("here");
    machine.scheduler.policy = policy;
    machine
}

fn run_ns(kernel: &Kernel) -> Vec<u64> {
    (0..kernel.threads()).map(|id| kernel.times(id).run_ns).collect()
}

/// The part of the first thread.
fn share(kernel: &Kernel) -> f64 {
    let all = run_ns(kernel);
    all[0] as f64 / all.iter().sum::<u64>() as f64
}

fn assert_near(is: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((is - expected).abs() <= tolerance * expected, "{what}: {is}, not {expected}");
}

#[test]
fn two_nice_values_share_a_cpu_by_weight() {
    for policy in [Policy::Eevdf, Policy::Cfs] {
        let machine = with_policy(policy);
        for (nice, weight) in [(0, 1024.0), (5, 335.0), (-5, 3121.0)] {
            let threads = vec![worker(&[0], 4 * SECOND), worker(&[0], 4 * SECOND)];
            let (kernel, _) = play_with(&machine, 1, threads, |kernel| kernel.set_nice(0, nice));
            assert_near(share(&kernel), weight / (weight + 1024.0), 0.04, &format!("{policy:?}, {nice}"));
        }
    }
}

#[test]
fn a_thread_changes_its_own_nice_value_and_that_of_others() {
    let at_half = Rc::new(Cell::new(0));
    let seen = Rc::clone(&at_half);
    let mut worker = worker(&[0], 4 * SECOND);
    let changes = steps(&[0], move |kernel, number| {
        if kernel.now_ns() > 2 * SECOND && seen.get() == 0 {
            seen.set(kernel.times(0).run_ns);
            kernel.set_nice(0, 10);
            assert_eq!((kernel.class(0).nice, number > 0), (10, true));
        }
        (worker.1)(kernel);
        true
    });
    let kernel = play(&known("here"), vec![changes, self::worker(&[0], 4 * SECOND)]);
    assert_near(at_half.get() as f64, SECOND as f64, 0.02, "before");
    let after = (kernel.times(0).run_ns - at_half.get()) as f64 / (2 * SECOND) as f64;
    assert_near(after, 110.0 / (110.0 + 1024.0), 0.1, "after");
}

/// How late a thread runs that works for 5 ms after sleeps of 20 ms, at most and on average, while
/// two others calculate on its CPU.
fn lateness_ns(machine: &Machine, priority: u8) -> (u64, u64) {
    const SLEEPS: u64 = 200;
    let (late, is_over) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
    let (seen, over) = (Rc::clone(&late), Rc::clone(&is_over));
    let mut wakes_at = 0;
    let sleeper = steps(&[0], move |kernel, number| {
        let now = kernel.now_ns();
        if number % 2 == 1 {
            wakes_at = now + 20_500_000 + kernel.slack_ns();
            kernel.sleep(now + 20_500_000);
        } else {
            seen.borrow_mut().extend((number > 0).then(|| now - wakes_at));
            kernel.work(5.0 * MS as f64);
        }
        over.set(number == 2 * SLEEPS);
        !over.get()
    });
    let works = || {
        let is_over = Rc::clone(&is_over);
        script(&[0], move |kernel| if is_over.get() { kernel.end() } else { kernel.work(2.0 * MS as f64) })
    };
    play_with(machine, 1, vec![sleeper, works(), works()], |kernel| kernel.set_fifo(0, priority));
    let late = late.borrow();
    (*late.iter().max().unwrap(), late.iter().sum::<u64>() / SLEEPS)
}

#[test]
fn a_fifo_thread_preempts_at_once() {
    let machine = known("here");
    let (longest, _) = lateness_ns(&machine, 1);
    assert!(longest <= machine.cost.switch_ns + 10, "{longest}");
    let (longest, _) = lateness_ns(&machine, 0);
    assert!(longest > 100_000, "an ordinary one waits for its turn: {longest}");
}

#[test]
fn cfs_favours_a_thread_that_has_slept_and_eevdf_lets_the_other_one_end_its_slice() {
    let (longest, _) = lateness_ns(&with_policy(Policy::Cfs), 0);
    assert!(longest < 50_000, "it is half a round behind: {longest}");
    let (_, mean) = lateness_ns(&with_policy(Policy::Eevdf), 0);
    assert!(mean > 200_000, "{mean}");
}

#[test]
fn a_thread_that_wakes_up_on_another_cpu_waits_no_longer_there_for_what_it_has_run() {
    // Virtual time runs nine times as fast for nice 10, so it is far later on the first CPU.
    let mut sleeps = true;
    let sleeper = script(&[0], move |kernel| match kernel.now_ns() {
        0..SECOND => kernel.work(20_000.0),
        _ if sleeps => {
            kernel.allow(&[0, 1]);
            kernel.wait(8, 0, 1, u64::MAX);
            sleeps = false;
        }
        now if now < 2 * SECOND => kernel.work(20_000.0),
        _ => kernel.end(),
    });
    let mut worker = worker(&[1], 2 * SECOND);
    let waker = script(&[1], move |kernel| {
        if kernel.now_ns() > SECOND + 100 * MS {
            kernel.wake_waiters(8, 1, |_| true);
        }
        (worker.1)(kernel);
    });
    let threads = vec![sleeper, self::worker(&[0], 2 * SECOND), self::worker(&[0], 2 * SECOND), waker];
    let (kernel, end) = play_with(&with_policy(Policy::Cfs), 1, threads, |kernel| {
        (0..3).for_each(|id| kernel.set_nice(id, 10));
    });
    assert_eq!((end, kernel.times(0).migrations), (Next::Ended, 1));
    let after = kernel.times(0).run_ns as f64 / MS as f64 - 1000.0 / 3.0;
    assert_near(after, 900.0 * 110.0 / (110.0 + 1024.0), 0.2, "ms");
}

#[test]
fn fifo_threads_run_by_priority_and_one_after_the_other() {
    // Each works for 50 ms, on one CPU; the ends are in the order of the priorities.
    let ends = |priorities: [u8; 4], yields: bool| {
        let ends = Rc::new(RefCell::new(Vec::new()));
        let thread = |id: usize| {
            let ends = Rc::clone(&ends);
            steps(&[0], move |kernel, number| {
                if number == 1000 {
                    ends.borrow_mut().push((id, kernel.now_ns() / MS));
                } else if yields && number % 100 == 99 {
                    kernel.yield_now();
                } else {
                    kernel.work(50_000.0);
                }
                number < 1000
            })
        };
        let (kernel, _) = play_with(&known("here"), 1, (0..4).map(thread).collect(), |kernel| {
            (0..4).for_each(|id| kernel.set_fifo(id, priorities[id]));
        });
        assert!(kernel.times(3).involuntary <= 12);
        ends.take()
    };
    let in_turn = ends([1, 50, 99, 50], false);
    assert_eq!(in_turn.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 1, 3, 0]);
    assert!(in_turn.iter().zip(1..).all(|((_, ms), turn)| ms.abs_diff(50 * turn) <= 1), "{in_turn:?}");
    let in_turn = ends([0, 0, 0, 1], false);
    assert!(in_turn[0].0 == 3 && in_turn[0].1 <= 50, "it runs before all ordinary ones: {in_turn:?}");
    let by_yields = ends([7, 7, 7, 7], true);
    assert!(by_yields.iter().all(|(_, ms)| *ms >= 179), "they end at nearly the same time: {by_yields:?}");
}

#[test]
fn threads_inherit_the_class_of_the_thread_that_starts_them() {
    let starts = steps(&[0], |kernel, number| {
        if number == 0 {
            kernel.set_nice(0, 7);
            kernel.set_fifo(0, 9);
            let child = kernel.start(&[0]);
            assert_eq!(kernel.class(child), kernel.class(0));
        }
        number < 1
    });
    let ends = script(&[], Kernel::end);
    let mut kernel = Kernel::new(&known("here"), 1);
    kernel.start(&[]);
    let mut scripts = [starts.1, ends.1];
    while let Next::Step(id) = kernel.advance() {
        while kernel.may_step() {
            scripts[id](&mut kernel);
        }
    }
    assert_eq!((kernel.class(1).nice, kernel.class(1).priority), (7, 9));
}

/// The container without its neighbours, so that only the quota limits the program.
fn container() -> Machine {
    Machine { neighbour: vec![], ..known("container") }
}

#[test]
fn a_quota_of_one_and_a_half_cpus_is_kept_and_stalls_end_with_the_period() {
    let stalls = Rc::new(RefCell::new(Vec::new()));
    let watched = |cpu: usize| {
        let (seen, mut last, mut inner) = (Rc::clone(&stalls), 0, worker(&[cpu], 4 * SECOND));
        script(&[cpu], move |kernel| {
            let now = kernel.now_ns();
            if now - last > 10 * MS {
                seen.borrow_mut().push((last, now));
            }
            last = now;
            (inner.1)(kernel);
        })
    };
    let kernel = play(&container(), (0..4).map(watched).collect());
    let used = run_ns(&kernel).iter().sum::<u64>() as f64;
    assert_near(used / (4 * SECOND) as f64, 1.5, 0.02, "CPUs");
    // Four threads use 150 ms in 37.5 ms, and then wait for the rest of the period: one more, one
    // less by a slice and a tick.
    let stalls = stalls.borrow();
    assert!((156..=160).contains(&stalls.len()), "{}", stalls.len());
    let mean = stalls.iter().map(|(from, to)| to - from).sum::<u64>() as f64 / stalls.len() as f64;
    assert_near(mean / MS as f64, 62.5, 0.03, "stalls in ms");
    for (from, to) in stalls.iter() {
        assert!((48 * MS..78 * MS).contains(&(to - from)), "{from} to {to}");
        assert!(to % (100 * MS) < MS, "a stall ends as a period begins: {to}");
    }
}

#[test]
fn a_program_that_uses_less_than_its_quota_is_never_stalled() {
    let longest = Rc::new(Cell::new(0));
    let seen = Rc::clone(&longest);
    let (mut last, mut inner) = (0, worker(&[0], SECOND));
    let watched = script(&[0], move |kernel| {
        seen.set(seen.get().max(kernel.now_ns() - last));
        last = kernel.now_ns();
        (inner.1)(kernel);
    });
    let kernel = play(&container(), vec![watched]);
    assert!(longest.get() < MS && kernel.times(0).run_ns > SECOND - MS, "{}", longest.get());
    // Neighbours have no quota, and a real-time thread has none.
    let threads = (0..4).map(|cpu| worker(&[cpu], SECOND)).collect();
    let (kernel, _) = play_with(&container(), 1, threads, |kernel| kernel.set_fifo(2, 1));
    assert!(kernel.times(2).run_ns > SECOND - MS, "{:?}", run_ns(&kernel));
}

#[test]
fn a_stalled_thread_that_becomes_a_real_time_one_goes_on_at_once() {
    let ran = Rc::new(Cell::new(0));
    let seen = Rc::clone(&ran);
    let mut inner = worker(&[0], 300 * MS);
    let helper = script(&[0], move |kernel| {
        // All have used up the first period's time by then, and this one is not limited.
        if kernel.now_ns() < 60 * MS {
            kernel.sleep(60 * MS);
        } else {
            let before = kernel.times(1).run_ns;
            kernel.set_fifo(1, 5);
            seen.set(before);
            kernel.end();
        }
    });
    let raised = script(&[1], move |kernel| (inner.1)(kernel));
    let others = [2, 3].map(|cpu| worker(&[cpu], 300 * MS));
    let threads = [helper, raised, worker(&[0], 300 * MS)].into_iter().chain(others).collect();
    let (kernel, end) = play_with(&container(), 1, threads, |kernel| kernel.set_fifo(0, 9));
    assert_eq!(end, Next::Ended);
    let after = kernel.times(1).run_ns - ran.get();
    assert!(ran.get() < 60 * MS && after.abs_diff(240 * MS) < 2 * MS, "{} and {after}", ran.get());
}

/// When two threads on these CPUs have made 1000 steps each.
fn both_take_ns(cpus: [usize; 2], step: fn(&mut Kernel)) -> f64 {
    let thread = |cpu: usize| {
        steps(&[cpu], move |kernel, number| {
            step(kernel);
            number < 1000
        })
    };
    play(&known("xeon-40"), cpus.map(thread).into()).now_ns() as f64
}

#[test]
fn siblings_share_their_core_but_a_pause_takes_no_longer() {
    let work: fn(&mut Kernel) = |kernel| kernel.work(10_000.0);
    let ratio = both_take_ns([0, 1], work) / both_take_ns([0, 2], work);
    assert_near(ratio, 1.0 / 0.6, 0.01, "work");
    let nops: fn(&mut Kernel) = |kernel| kernel.work_nops(10_000.0);
    assert_near(both_take_ns([0, 1], nops) / both_take_ns([0, 2], nops), 1.0 / 0.6, 0.01, "NOPs");
    let pause: fn(&mut Kernel) = |kernel| (0..1000).for_each(|_| kernel.pause());
    assert_near(both_take_ns([0, 1], pause) / both_take_ns([0, 2], pause), 1.0, 0.01, "PAUSE");
    // A sibling in PAUSE leaves the core to the other one.
    let beside = |cpus: [usize; 2]| {
        let worker = steps(&[cpus[0]], |kernel, number| {
            kernel.work(1_000.0);
            number < 1_000
        });
        let pauser = steps(&[cpus[1]], |kernel, number| {
            (0..100).for_each(|_| kernel.pause());
            number < 20_000
        });
        let kernel = play(&known("xeon-40"), vec![worker, pauser]);
        kernel.times(0).run_ns as f64
    };
    assert_near(beside([0, 1]) / beside([0, 2]), 1.0, 0.02, "work beside PAUSE");
    // What is in the middle when the sibling becomes idle is faster from then on.
    let long = steps(&[0], |kernel, number| {
        kernel.work(if number == 0 { 1e9 } else { 0.0 });
        number == 0
    });
    let kernel = play(&known("xeon-40"), vec![long, worker(&[1], 500 * MS)]);
    assert_near(kernel.now_ns() as f64, 1.2e9, 0.05, "half a second with a sibling");
}

#[test]
fn threads_begin_on_idle_cores() {
    let threads = (0..20).map(|_| worker(&[], 20 * MS)).collect();
    let kernel = play(&known("xeon-40"), threads);
    assert!(run_ns(&kernel).iter().all(|ns| *ns > 19 * MS), "each one has a CPU");
    let cores = Rc::new(RefCell::new(Vec::new()));
    let thread = |_| {
        let cores = Rc::clone(&cores);
        script(&[], move |kernel| {
            cores.borrow_mut().push(kernel.current_cpu() / 2);
            kernel.work(20.0 * MS as f64);
            kernel.sleep(u64::MAX);
        })
    };
    let (_, end) = play_with(&known("xeon-40"), 1, (0..20).map(thread).collect(), |_| ());
    assert_eq!(end, Next::Deadlock, "all sleep");
    let mut used = cores.borrow().clone();
    used.sort_unstable();
    assert_eq!(used, (0..20).collect::<Vec<_>>());
}

#[test]
fn little_cores_are_less_slow_at_nops() {
    let take_ns = |cpu: usize, step: fn(&mut Kernel)| {
        let thread = steps(&[cpu], move |kernel, number| {
            step(kernel);
            number < 1000
        });
        play(&known("m1"), vec![thread]).now_ns() as f64
    };
    let work: fn(&mut Kernel) = |kernel| kernel.work(10_000.0);
    let nops: fn(&mut Kernel) = |kernel| kernel.work_nops(10_000.0);
    assert_near(take_ns(4, work) / take_ns(0, work), 3.75, 0.01, "Sysbench");
    assert_near(take_ns(4, nops) / take_ns(0, nops), 1.8, 0.01, "NOPs");
}

/// A second of work on CPU 0: when it is done, what is its run time, and the hash.
fn with_noise(noise: Noise, seed: u64) -> (f64, f64, u64) {
    let thread = steps(&[0], |kernel, number| {
        kernel.work(10_000.0);
        number < 100_000
    });
    let machine = Machine { noise, ..known("here") };
    let (kernel, _) = play_with(&machine, seed, vec![thread], |_| ());
    let second = SECOND as f64;
    (kernel.now_ns() as f64 / second, kernel.times(0).run_ns as f64 / second, kernel.hash())
}

#[test]
fn noise_takes_its_part_and_is_the_same_each_time() {
    let steal = Noise { steal_period_ns: MS, steal_ns: 100_000, ..Noise::default() };
    let (took, ran, hash) = with_noise(steal, 1);
    // While a tenth of a CPU is away, new periods begin, too: 1 / (1 - 0.1).
    assert_near(took, 1.0 / 0.9, 0.03, "with steal");
    assert_near(ran, 1.0, 0.005, "stolen time is no run time");
    assert_eq!(with_noise(steal, 1).2, hash);
    assert_ne!(with_noise(steal, 2).2, hash);
    let interrupts = Noise { interrupt_period_ns: MS, interrupt_ns: 50_000, ..Noise::default() };
    let (took, ran, _) = with_noise(interrupts, 1);
    assert_near(took, 1.0 / 0.95, 0.02, "with interrupts");
    assert_near(ran, took, 0.005, "their time is run time of the thread");
    let (took, ran, _) = with_noise(Noise::default(), 1);
    assert_near(took, 1.0, 0.005, "without");
    assert_near(ran, 1.0, 0.005, "without");
}

fn neighbours(count: u32, nice: i32, cpus: &[usize]) -> Neighbour {
    Neighbour { count, nice, cpus: cpus.to_vec(), busy_ns: 0, idle_ns: 0 }
}

#[test]
fn neighbours_take_their_share_and_are_no_threads_of_the_program() {
    let machine = |neighbour| Machine { neighbour: vec![neighbour], ..known("here") };
    let part = |machine: &Machine| {
        let kernel = play(machine, vec![worker(&[0], SECOND)]);
        assert_eq!(kernel.threads(), 1);
        kernel.times(0).run_ns as f64 / SECOND as f64
    };
    assert_near(part(&machine(neighbours(3, 0, &[0]))), 0.25, 0.04, "three beside it");
    assert_near(part(&machine(neighbours(3, 0, &[1]))), 1.0, 0.01, "three elsewhere");
    assert_near(part(&machine(neighbours(1, 5, &[0]))), 1024.0 / (1024.0 + 335.0), 0.04, "a nice one");
    let now_and_then = Neighbour { busy_ns: 5 * MS, idle_ns: 15 * MS, ..neighbours(1, 0, &[0]) };
    let with_one = part(&machine(now_and_then));
    assert!((0.65..0.9).contains(&with_one), "a quarter of the CPU at most: {with_one}");
    let cfs = Machine { neighbour: vec![neighbours(1, 0, &[0])], ..with_policy(Policy::Cfs) };
    assert_near(part(&cfs), 0.5, 0.04, "one, with CFS");
}

#[test]
fn a_deadlock_is_seen_while_neighbours_work_and_a_sleep_is_none() {
    let machine = Machine { neighbour: vec![neighbours(3, 0, &[])], ..known("here") };
    let sleeps = |until_ns: u64| {
        steps(&[], move |kernel, number| {
            if number == 0 {
                kernel.sleep(until_ns);
            }
            number == 0
        })
    };
    let (kernel, end) = play_with(&machine, 1, vec![sleeps(5 * MS), sleeps(u64::MAX)], |_| ());
    assert_eq!((end, kernel.now_ns() < 30 * MS), (Next::Deadlock, true));
    let (kernel, end) = play_with(&machine, 1, vec![sleeps(5 * MS), sleeps(20 * MS)], |_| ());
    assert_eq!(end, Next::Ended);
    assert!((20 * MS..50 * MS).contains(&kernel.now_ns()), "{}", kernel.now_ns());
}

#[test]
fn the_container_has_its_quota_beside_neighbours() {
    let threads = (0..4).map(|_| worker(&[], 2 * SECOND)).collect();
    let kernel = play(&known("container"), threads);
    let used = run_ns(&kernel).iter().sum::<u64>() as f64;
    assert_near(used / (2 * SECOND) as f64, 1.5, 0.03, "CPUs");
}

/// The part of a CPU that a thread gets that only yields, beside one that calculates.
fn part_of_yielder(machine: &Machine) -> f64 {
    let yielder = script(&[0], |kernel| {
        if kernel.now_ns() > SECOND {
            kernel.end();
            return;
        }
        kernel.call();
        kernel.yield_now();
    });
    share(&play(machine, vec![yielder, worker(&[0], SECOND)]))
}

#[test]
fn a_yield_forfeits_a_slice_in_new_kernels_only() {
    // In 6.18 a thread that yields pays for the slice that it has not used.
    let part = part_of_yielder(&with_policy(Policy::Eevdf));
    assert!(part < 0.05, "{part}");
    // Before, it may ask again at once when the other one has had more than its share.
    let mut older = with_policy(Policy::Eevdf);
    older.scheduler.yield_forfeits = false;
    let part = part_of_yielder(&older);
    assert!((0.3..0.6).contains(&part), "{part}");
    // In CFS a thread that yields is skipped until the other one is a wake-up granularity ahead.
    let part = part_of_yielder(&with_policy(Policy::Cfs));
    assert!((0.3..0.6).contains(&part), "{part}");
}

/// Twice as many threads as CPUs that count in two words, sleep now and then, and yield.
fn busy(machine: &Machine) -> u64 {
    let thread = |id: u64| {
        steps(&[], move |kernel, number| {
            match (number + id) % 11 {
                _ if number == 300 => return false,
                0 => kernel.sleep(kernel.now_ns() + 100 * id),
                1 => kernel.yield_now(),
                2 => kernel.work(30_000.0),
                3 => kernel.work_nops(3_000.0),
                4 => (0..20).for_each(|_| kernel.pause()),
                _ => kernel.access(640 * (id as usize % 2), Access::Change),
            }
            true
        })
    };
    let threads = 2 * machine.cpus().len() as u64;
    let (kernel, end) = play_with(machine, 3, (0..threads).map(thread).collect(), |kernel| {
        kernel.set_fifo(0, 1);
        kernel.set_nice(1, 19);
    });
    assert_eq!(end, Next::Ended);
    kernel.hash()
}

#[test]
fn every_machine_does_the_same_twice() {
    for name in Machine::names() {
        let noise = Noise {
            steal_period_ns: 300_000,
            steal_ns: 20_000,
            interrupt_period_ns: 90_000,
            interrupt_ns: 2_000,
        };
        let quota = Some(Quota { quota_ns: 3 * MS, period_ns: 2 * MS, slice_ns: 200_000 });
        let known = known(name);
        for machine in [Machine { noise, quota, ..known.clone() }, known] {
            assert_eq!(busy(&machine), busy(&machine), "{name}");
        }
    }
}

#[test]
fn threads_that_another_one_binds_run_there_from_then_on() {
    // At 30 ms they run, wait and sleep; at 90 ms the quota has stopped them.
    let bound: Rc<Cell<&[usize]>> = Rc::new(Cell::new(&[0, 1, 2, 3]));
    let watched = |id: u64| {
        let (bound, mut inner, mut number) = (Rc::clone(&bound), worker(&[], 400 * MS), 0);
        script(&[], move |kernel| {
            assert!(bound.get().contains(&kernel.current_cpu()), "{id} at {}", kernel.now_ns());
            number += 1;
            if id > 4 && number % 20 == 0 {
                kernel.sleep(kernel.now_ns() + MS);
            } else {
                (inner.1)(kernel);
            }
        })
    };
    let set = Rc::clone(&bound);
    let binder = steps(&[0], move |kernel, number| {
        let (cpus, next_ns): (&[usize], _) =
            [(&[0, 1, 2, 3][..], 30 * MS), (&[2, 3], 90 * MS), (&[1], 0)][number as usize];
        set.set(cpus);
        (1..=8).for_each(|id| kernel.allow_other(id, cpus));
        if next_ns > 0 {
            kernel.sleep(next_ns);
        }
        next_ns > 0
    });
    let threads = [binder].into_iter().chain((1..=8).map(watched)).collect();
    let (kernel, end) = play_with(&container(), 1, threads, |kernel| kernel.set_fifo(0, 9));
    assert_eq!(end, Next::Ended);
    let used: u64 = run_ns(&kernel).iter().sum();
    assert_near(used as f64 / MS as f64, 150.0 + 300.0, 0.05, "CPU time in ms, then of one CPU");
    assert!(kernel.throttled_ns() > 2 * 40 * MS, "{}", kernel.throttled_ns());
}
