//! The decisions on a model of the kernel's quotas, in steps of a millisecond.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// A group under a quota, and its helper.
struct Model {
    quota: Quota,
    cpus: usize,
    pacer: Pacer,
    /// How many threads of the program wish to run.
    threads: usize,
    /// How many CPUs they use at most, as it is and while it is paced: they wait for each other.
    used: [f64; 2],
    /// The part of the CPUs to which the program is kept that others take.
    taken: f64,
    now_ms: u64,
    /// What is left of this period's quota, in CPU milliseconds.
    left: f64,
    seen_ms: u64,
    stopped: f64,
    got: f64,
    slices: f64,
    /// How long a thread runs at a time, in milliseconds: as it is, and while it is paced.
    slice_ms: [f64; 2],
    idle: f64,
    code: u64,
    /// For how long the group was stopped, in milliseconds of time.
    stood_still_ms: u64,
    paced_ms: u64,
    begins: u32,
}

fn quota(thousandths: u64) -> Quota {
    Quota::new(Duration::from_micros(thousandths * 100), Duration::from_millis(100))
}

impl Model {
    fn new(thousandths: u64, cpus: usize, threads: usize) -> Model {
        Model {
            quota: quota(thousandths),
            cpus,
            pacer: Pacer::new(cpus),
            threads,
            used: [f64::INFINITY; 2],
            taken: 0.0,
            now_ms: 0,
            left: thousandths as f64 / 10.0,
            seen_ms: 0,
            stopped: 0.0,
            got: 0.0,
            slices: 0.0,
            slice_ms: [3.0, 3.0],
            idle: 0.0,
            code: 0,
            stood_still_ms: 0,
            paced_ms: 0,
            begins: 0,
        }
    }

    fn run(&mut self, ms: u64) -> &mut Model {
        for _ in 0..ms {
            self.step();
        }
        self
    }

    fn step(&mut self) {
        let period_ms = self.quota.period.as_millis() as u64;
        // The kernel's periods begin at another time than the helper's.
        if (self.now_ms + 37).is_multiple_of(period_ms) {
            self.left = self.quota.time.as_micros() as f64 / 1000.0;
        }
        let pace = self.pacer.pace();
        let has = pace.map_or(self.cpus, |(pace, since_ns)| pace.at(self.now_ms * MS - since_ns).0);
        let wished = (self.threads.min(has) as f64).min(self.used[usize::from(pace.is_some())])
            * if pace.is_some() { 1.0 - self.taken } else { 1.0 };
        if wished > 0.0 && self.left <= 0.0 {
            self.stopped += self.threads.min(has) as f64;
            self.stood_still_ms += 1;
        } else {
            self.got += wished.min(self.left);
            self.slices += wished.min(self.left) / self.slice_ms[usize::from(pace.is_some())];
            self.left -= wished.min(self.left);
            // The helper is in the group, and stands still with it.
            self.helper(period_ms);
        }
        if let Some((pace, _)) = pace {
            self.paced_ms += 1;
            self.idle += (pace.narrow as f64 * (1.0 - self.taken) - wished).max(0.0);
        }
        self.now_ms += 1;
    }

    fn helper(&mut self, period_ms: u64) {
        let wait_ms = self.pacer.pace().map_or(self.pacer.next_ns(Some(self.quota)) / MS, |_| period_ms);
        if self.now_ms < self.seen_ms + wait_ms {
            return;
        }
        self.seen_ms = self.now_ms;
        let was_paced = self.pacer.pace().is_some();
        self.pacer.see(Seen {
            now_ns: self.now_ms * MS,
            quota: Some(self.quota),
            stopped_ns: (self.stopped * MS as f64) as u64,
            got_ns: (self.got * MS as f64) as u64,
            slices: self.slices as u64,
            code: self.code,
            idle_ns: (self.idle * MS as f64) as u64,
        });
        self.begins += u32::from(!was_paced && self.pacer.pace().is_some());
    }
}

#[test]
fn a_program_that_uses_up_its_quota_is_stopped_no_more() {
    for (thousandths, cpus, threads) in
        [(1000, 2, 2), (1000, 64, 64), (1500, 2, 4), (2000, 16, 64), (2300, 16, 16), (8000, 64, 64)]
    {
        let mut model = Model::new(thousandths, cpus, threads);
        model.run(300);
        let (got, stood_still_ms) = (model.got, model.stood_still_ms);
        let (periods, begins) = (model.stood_still_ms as f64 / 100.0, model.begins);
        // 64 threads use up what one CPU pays for before the helper has looked twice.
        assert!((0.1..2.9).contains(&periods), "{thousandths}: stopped for {periods} periods");
        assert_eq!(begins, 1, "{thousandths}: paced since the first stop");
        model.run(60_000);
        let share = (model.stood_still_ms - stood_still_ms) as f64 / 60_000.0;
        let used = (model.got - got) / 60_000.0 / model.quota.cpus();
        assert!(share <= 0.01, "{thousandths}: stopped for {share} of the time");
        assert!(used >= 0.96, "{thousandths}: got {used} of the quota");
        assert_eq!(model.begins, 1);
    }
}

#[test]
fn a_fraction_that_the_program_cannot_use_whole_is_no_crowd() {
    let mut model = Model::new(1500, 4, 2);
    model.used = [1.7; 2];
    model.run(60_000);
    assert_eq!(model.begins, 1);
    let share = model.stood_still_ms as f64 / 60_000.0;
    assert!(share <= 0.01, "{share}");
}

#[test]
fn threads_that_need_more_cpus_than_they_use_are_let_go() {
    // Sixteen threads that meet use little more than half of sixteen CPUs, and less of eight.
    let mut model = Model::new(8000, 16, 16);
    model.used = [8.6, 5.5];
    model.run(600_000);
    assert!((5..=15).contains(&model.begins), "{}", model.begins);
    assert!(model.paced_ms < 20_000, "{}", model.paced_ms);
}

#[test]
fn a_program_below_its_quota_is_left_alone() {
    for (thousandths, threads) in [(1000, 1), (2000, 2), (3990, 3)] {
        let mut model = Model::new(thousandths, 16, threads);
        model.run(10_000);
        assert_eq!((model.begins, model.stood_still_ms), (0, 0), "{thousandths}");
    }
}

#[test]
fn less_than_a_cpu_is_stopped_for_a_shorter_time() {
    let mut model = Model::new(500, 2, 2);
    model.run(1_000).run(60_000);
    assert_eq!(model.begins, 1);
    let share = model.stood_still_ms as f64 / 61_000.0;
    assert!((0.49..0.52).contains(&share), "as with one thread: {share}");
    let mut model = Model::new(500, 2, 1);
    model.run(600_000);
    let paced = model.paced_ms as f64 / 600_000.0;
    assert!(paced < 0.05, "one thread is stopped as before, paced for {paced} of the time");
}

#[test]
fn cpus_that_others_use_are_given_up_and_asked_about_seldom() {
    let mut model = Model::new(1000, 4, 4);
    model.taken = 0.5;
    model.run(600_000);
    assert!((5..=15).contains(&model.begins), "{}", model.begins);
    assert!(model.paced_ms < 20_000, "{}", model.paced_ms);
    model.taken = 0.0;
    model.run(200_000);
    let paced_ms = model.paced_ms;
    model.run(10_000);
    assert_eq!(model.paced_ms - paced_ms, 10_000, "paced again once the CPUs are free");
}

#[test]
fn a_program_that_loads_code_is_not_paced_yet() {
    let mut model = Model::new(1000, 2, 2);
    for code in 0..2_000 {
        model.code = code;
        model.run(4);
    }
    assert_eq!(model.begins, 0);
    model.run(100);
    assert_eq!(model.begins, 1);
}

#[test]
fn threads_that_would_only_switch_are_let_go_at_once() {
    let mut model = Model::new(1000, 2, 2);
    model.slice_ms = [10.0, 0.0035];
    model.run(600_000);
    assert!((3..=14).contains(&model.begins), "{}", model.begins);
    assert!(model.paced_ms < 600_000 / 100, "{}", model.paced_ms);
    // As often as before, or longer: that is how this program works.
    for slice_ms in [[0.008, 0.005], [10.0, 0.018]] {
        let mut model = Model::new(1000, 2, 2);
        model.slice_ms = slice_ms;
        model.run(60_000);
        assert!(model.begins == 1 && model.paced_ms > 58_000, "{slice_ms:?}");
    }
}

#[test]
fn work_that_comes_in_bursts_does_not_make_it_flap() {
    let mut model = Model::new(1000, 2, 0);
    // Two threads work for 300 ms in each 2 s.
    for _ in 0..300 {
        model.threads = 2;
        model.run(300);
        model.threads = 0;
        model.run(1_700);
    }
    assert!(model.begins <= 20, "{}", model.begins);
    assert!(model.stood_still_ms < 600_000 / 100, "{}", model.stood_still_ms);
}

#[test]
fn another_quota_begins_anew() {
    let mut model = Model::new(1000, 8, 8);
    model.run(5_000);
    assert_eq!(model.pacer.pace().map(|(pace, _)| pace.narrow), Some(1));
    model.quota = quota(3000);
    model.run(5_000);
    assert_eq!(model.pacer.pace().map(|(pace, _)| pace.narrow), Some(3));
    model.quota = quota(8000);
    model.run(1_000);
    assert_eq!(model.pacer.pace(), None, "the quota pays for every CPU");
}

proptest! {
    #[test]
    fn each_stretch_as_long_as_a_period_has_the_same_cpu_time(
        thousandths in 1_u64..20_000, cpus in 2_usize..24, from_ns in 0_u64..1_000_000_000,
    ) {
        let Some(pace) = Pace::of(quota(thousandths), cpus) else {
            prop_assert!(thousandths >= cpus as u64 * 1000);
            return Ok(());
        };
        let (mut at_ns, mut cpu_ns) = (from_ns, 0);
        while at_ns < from_ns + pace.period_ns {
            let (has, for_ns) = pace.at(at_ns);
            prop_assert!((1..=cpus).contains(&has) && has >= thousandths as usize / 1000);
            let for_ns = for_ns.min(from_ns + pace.period_ns - at_ns);
            cpu_ns += has as u64 * for_ns;
            at_ns += for_ns;
        }
        prop_assert_eq!(cpu_ns, pace.narrow as u64 * pace.period_ns + pace.wide_ns);
        let paid_ns = (thousandths as f64 / 1000.0 * pace.period_ns as f64) as u64;
        prop_assert!(cpu_ns <= paid_ns.max(pace.period_ns) + 1);
    }
}
