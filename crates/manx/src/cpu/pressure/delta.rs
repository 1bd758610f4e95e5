//! What two readings say together: rates, in numbers of threads and CPUs.

use super::Pressure;
use platform::clock::{SECOND_NS, duration_ns};
use std::fmt;
use std::time::Duration;

/// What happened between two readings of [`Pressure`]; what either of them lacks is absent.
///
/// ```
/// use manx::cpu::{MachineTicks, Pressure};
/// use std::time::Duration;
///
/// let (mut before, mut now) = (Pressure::default(), Pressure::default());
/// before.machine = Some(MachineTicks::default());
/// let mut ticks = MachineTicks::default();
/// (ticks.busy, ticks.idle) = (250, 150);
/// (now.machine, now.tick) = (Some(ticks), Duration::from_millis(10));
/// (now.read_at, now.preempted) = (Duration::from_secs(1), 30);
/// let between = now.since(&before);
/// assert_eq!(between.idle_cpus, Some(1.5));
/// assert_eq!(between.preempted_per_s, 30.0);
/// assert_eq!(between.to_string(), "1.50 CPUs idle, 0.00 stolen; 30 preemptions/s");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PressureDelta {
    /// The time between the two readings.
    pub span: Duration,
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
        let span = self.read_at.saturating_sub(earlier.read_at);
        let span_ns = duration_ns(span);
        let of_span = |ns: u64| if span_ns == 0 { 0.0 } else { ns as f64 / span_ns as f64 };
        let stalled = |before: Option<Duration>, now: Option<Duration>| {
            Some(of_span(duration_ns(now?.saturating_sub(before?))).min(1.0))
        };
        let threads =
            self.threads.as_ref().zip(earlier.threads.as_ref()).map(|(now, before)| now.since(before));
        let machine = self.machine.zip(earlier.machine);
        let tick_ns = duration_ns(self.tick);
        let cpus = |ticks: u64| of_span(ticks.saturating_mul(tick_ns));
        let throttled = self.throttled.zip(earlier.throttled);
        PressureDelta {
            span,
            waiting: threads.map(|times| of_span(duration_ns(times.wait_time))),
            running: threads.map(|times| of_span(duration_ns(times.run_time))),
            preempted_per_s: of_span(
                self.preempted.saturating_sub(earlier.preempted).saturating_mul(SECOND_NS),
            ),
            throttled: throttled.map(|(now, before)| {
                let periods = now.periods.saturating_sub(before.periods);
                let throttled = now.throttled.saturating_sub(before.throttled);
                if periods == 0 { 0.0 } else { (throttled as f64 / periods as f64).min(1.0) }
            }),
            throttled_cpus: throttled.map(|(now, before)| {
                of_span(duration_ns(now.throttled_time.saturating_sub(before.throttled_time)))
            }),
            idle_cpus: machine.map(|(now, before)| cpus(now.idle.saturating_sub(before.idle))),
            stolen_cpus: machine.map(|(now, before)| cpus(now.steal.saturating_sub(before.steal))),
            stalled: stalled(earlier.stalled, self.stalled),
            group_stalled: stalled(earlier.group_stalled, self.group_stalled),
            idle_cpus_now: self.idle_cpus(),
        }
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
        let times = ThreadTimes {
            run_time: Duration::from_millis(200 * factor),
            wait_time: Duration::from_millis(50 * factor),
            slices: factor,
        };
        Pressure {
            read_at: Duration::from_nanos(read_ns),
            threads: Some([(1, times), (2, times)].into_iter().collect::<ThreadsTimes>()),
            preempted: 40 * factor,
            throttled: Some(Throttled {
                periods: 10 * factor,
                throttled: 4 * factor,
                throttled_time: Duration::from_millis(25 * factor),
            }),
            machine: Some(MachineTicks { busy: 60 * factor, idle: 30 * factor, steal: 10 * factor }),
            tick: Duration::from_millis(10),
            stalled: Some(Duration::from_millis(125 * factor)),
            group_stalled: Some(Duration::from_millis(250 * factor)),
            runnable: Some(3),
            online: Some(4),
        }
    }

    #[test]
    fn each_rate_is_per_second_of_the_span() {
        let between = reading(1_500_000_000, 2).since(&reading(1_000_000_000, 1));
        let expected = PressureDelta {
            span: Duration::from_millis(500),
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
    fn a_value_that_one_reading_lacks_is_absent() {
        let between = reading(1, 1).since(&Pressure::default());
        let PressureDelta { span, preempted_per_s, .. } = between;
        let idle_cpus_now = Some(1);
        assert_eq!(
            between,
            PressureDelta { span, preempted_per_s, idle_cpus_now, ..PressureDelta::default() }
        );
    }

    #[test]
    fn no_time_and_counters_that_went_back_are_nothing() {
        // A thread whose times went back is another one of that number, which is a test of its own.
        let back = Pressure { threads: reading(7, 2).threads, ..reading(8, 1) };
        for between in [reading(7, 1).since(&reading(7, 1)), back.since(&reading(7, 2))] {
            let expected = PressureDelta {
                span: between.span,
                waiting: Some(0.0),
                running: Some(0.0),
                preempted_per_s: 0.0,
                throttled: Some(0.0),
                throttled_cpus: Some(0.0),
                idle_cpus: Some(0.0),
                stolen_cpus: Some(0.0),
                stalled: Some(0.0),
                group_stalled: Some(0.0),
                idle_cpus_now: Some(1),
            };
            assert_eq!(between, expected);
        }
    }
}
