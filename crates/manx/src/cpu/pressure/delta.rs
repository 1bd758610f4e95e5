//! What two readings say together: rates, in numbers of threads and CPUs.

use super::Pressure;
use platform::clock::SECOND_NS;
use std::fmt;

/// What happened between two readings of [`Pressure`]; what either of them lacks is absent.
///
/// ```
/// use manx::cpu::{MachineTicks, Pressure};
///
/// let machine = |busy, idle| Some(MachineTicks { busy, idle, steal: 0 });
/// let tick_ns = 10_000_000;
/// let before = Pressure { read_ns: 0, machine: machine(0, 0), tick_ns, ..Pressure::default() };
/// let now = Pressure { read_ns: 1_000_000_000, machine: machine(250, 150), preempted: 30, tick_ns, ..Pressure::default() };
/// let between = now.since(&before);
/// assert_eq!(between.idle_cpus, Some(1.5));
/// assert_eq!(between.preempted_per_s, 30.0);
/// assert_eq!(between.to_string(), "1.50 CPUs idle, 0.00 stolen; 30 preemptions/s");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureDelta {
    /// How long it was, in ns.
    pub span_ns: u64,
    /// How many threads of the process waited for a CPU, on average.
    pub waiting: Option<f64>,
    /// How many ran. It lags by a tick of the scheduler.
    pub running: Option<f64>,
    /// How often a thread of the process lost its CPU although it wished to go on, per second.
    pub preempted_per_s: f64,
    /// Which part of its periods the group had used up its quota in, from 0 to 1.
    pub throttled: Option<f64>,
    /// How many CPUs' time the group was kept from using by that, on average.
    pub throttled_cpus: Option<f64>,
    /// How many CPUs of the machine had nothing to do, on average.
    pub idle_cpus: Option<f64>,
    /// How many the host gave to others.
    pub stolen_cpus: Option<f64>,
    /// Which part of the time some thread of the machine waited for a CPU, from 0 to 1.
    pub stalled: Option<f64>,
    /// Which part of the time some thread of the process' group did.
    pub group_stalled: Option<f64>,
    /// How many CPUs had nothing to do at the end.
    pub idle_cpus_now: Option<u32>,
}

impl Pressure {
    /// What has happened since an earlier reading.
    pub fn since(&self, earlier: &Pressure) -> PressureDelta {
        let span_ns = self.read_ns.saturating_sub(earlier.read_ns);
        let of_span = |ns: u64| if span_ns == 0 { 0.0 } else { ns as f64 / span_ns as f64 };
        // What two readings have, in which the counter never goes back.
        let grown = |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?));
        let stalled = |before, now| grown(before, now).map(|us| of_span(us.saturating_mul(1000)).min(1.0));
        let threads = self.threads.as_ref().zip(earlier.threads.as_ref()).map(|(now, before)| now.since(before));
        let machine = self.machine.zip(earlier.machine);
        let cpus = |ticks: u64| of_span(ticks.saturating_mul(self.tick_ns));
        let throttled = self.throttled.zip(earlier.throttled);
        PressureDelta {
            span_ns,
            waiting: threads.map(|times| of_span(times.wait_ns)),
            running: threads.map(|times| of_span(times.run_ns)),
            preempted_per_s: of_span(self.preempted.saturating_sub(earlier.preempted).saturating_mul(SECOND_NS)),
            throttled: throttled.map(|(now, before)| {
                let periods = now.periods.saturating_sub(before.periods);
                let throttled = now.throttled.saturating_sub(before.throttled);
                if periods == 0 { 0.0 } else { (throttled as f64 / periods as f64).min(1.0) }
            }),
            throttled_cpus: throttled
                .map(|(now, before)| of_span(now.throttled_ns.saturating_sub(before.throttled_ns))),
            idle_cpus: machine.map(|(now, before)| cpus(now.idle.saturating_sub(before.idle))),
            stolen_cpus: machine.map(|(now, before)| cpus(now.steal.saturating_sub(before.steal))),
            stalled: stalled(earlier.stalled_us, self.stalled_us),
            group_stalled: stalled(earlier.group_stalled_us, self.group_stalled_us),
            idle_cpus_now: self.idle_cpus(),
        }
    }
}

impl PressureDelta {
    /// Each number with its name, for programs: names end with their unit unless they count threads
    /// or CPUs, or are parts of 1.
    ///
    /// ```
    /// let parts = manx::cpu::PressureDelta::default().parts();
    /// assert!(parts.contains(&("waiting", None)) && parts.contains(&("preempted_per_s", Some(0.0))));
    /// ```
    pub fn parts(&self) -> [(&'static str, Option<f64>); 11] {
        [
            ("span_ns", Some(self.span_ns as f64)),
            ("waiting", self.waiting),
            ("running", self.running),
            ("preempted_per_s", Some(self.preempted_per_s)),
            ("throttled", self.throttled),
            ("throttled_cpus", self.throttled_cpus),
            ("idle_cpus", self.idle_cpus),
            ("stolen_cpus", self.stolen_cpus),
            ("stalled", self.stalled),
            ("group_stalled", self.group_stalled),
            ("idle_cpus_now", self.idle_cpus_now.map(f64::from)),
        ]
    }
}

impl fmt::Display for PressureDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(waiting), Some(running)) = (self.waiting, self.running) {
            write!(f, "{waiting:.2} threads waited for a CPU, {running:.2} ran; ")?;
        }
        if let (Some(idle), Some(stolen)) = (self.idle_cpus, self.stolen_cpus) {
            write!(f, "{idle:.2} CPUs idle, {stolen:.2} stolen; ")?;
        }
        if let (Some(part), Some(cpus)) = (self.throttled, self.throttled_cpus) {
            write!(f, "throttled in {:.0} % of periods, for {cpus:.2} CPUs; ", part * 100.0)?;
        }
        for (who, part) in [("the machine", self.stalled), ("the group", self.group_stalled)] {
            if let Some(part) = part {
                write!(f, "{who} stalled for {:.0} % of the time; ", part * 100.0)?;
            }
        }
        write!(f, "{:.0} preemptions/s", self.preempted_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MachineTicks, ThreadsTimes};
    use super::*;
    use crate::cpu::{ThreadTimes, Throttled};

    fn reading(read_ns: u64, factor: u64) -> Pressure {
        let times =
            ThreadTimes { run_ns: 200_000_000 * factor, wait_ns: 50_000_000 * factor, slices: factor };
        Pressure {
            read_ns,
            threads: Some([(1, times), (2, times)].into_iter().collect::<ThreadsTimes>()),
            preempted: 40 * factor,
            throttled: Some(Throttled {
                periods: 10 * factor,
                throttled: 4 * factor,
                throttled_ns: 25_000_000 * factor,
            }),
            machine: Some(MachineTicks { busy: 60 * factor, idle: 30 * factor, steal: 10 * factor }),
            tick_ns: 10_000_000,
            stalled_us: Some(125_000 * factor),
            group_stalled_us: Some(250_000 * factor),
            runnable: Some(3),
            online: Some(4),
        }
    }

    #[test]
    fn each_rate_is_per_second_of_the_span() {
        let between = reading(1_500_000_000, 2).since(&reading(1_000_000_000, 1));
        let expected = PressureDelta {
            span_ns: 500_000_000,
            waiting: Some(0.2),
            running: Some(0.8),
            preempted_per_s: 80.0,
            throttled: Some(0.4),
            throttled_cpus: Some(0.05),
            idle_cpus: Some(0.6),
            stolen_cpus: Some(0.2),
            stalled: Some(0.25),
            group_stalled: Some(0.5),
            idle_cpus_now: Some(1),
        };
        assert_eq!(between, expected);
        assert_eq!(
            between.to_string(),
            "0.20 threads waited for a CPU, 0.80 ran; 0.60 CPUs idle, 0.20 stolen; throttled in 40 % of periods, for 0.05 CPUs; \
             the machine stalled for 25 % of the time; the group stalled for 50 % of the time; 80 preemptions/s"
        );
    }

    #[test]
    fn what_one_reading_lacks_is_absent() {
        let between = reading(1, 1).since(&Pressure::default());
        let known = ["span_ns", "preempted_per_s", "idle_cpus_now"];
        for (name, value) in between.parts() {
            assert_eq!(value.is_some(), known.contains(&name), "{name}");
        }
    }

    #[test]
    fn no_time_and_counters_that_went_back_are_nothing() {
        // A thread whose times went back is another one of that number, which is a test of its own.
        let back = Pressure { threads: reading(7, 2).threads, ..reading(8, 1) };
        for between in [reading(7, 1).since(&reading(7, 1)), back.since(&reading(7, 2))] {
            for (name, value) in between.parts() {
                let value = value.expect(name);
                assert!(
                    value.is_finite() && (value == 0.0 || ["span_ns", "idle_cpus_now"].contains(&name)),
                    "{name}"
                );
            }
        }
    }
}
