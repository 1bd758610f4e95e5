//! More runnable threads than CPUs.
//!
//! Each thread is correct, and together they are too many: the kernel lets them run in turns, and
//! each waits while the others run. The cure is fewer threads, and mostly the program starts as
//! many as it believes there are CPUs.

use super::pools;
use crate::evidence::Evidence;
use crate::evidence::code::Place;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict};

/// Words in the names of functions that threads call again and again until something has happened.
/// Nothing in their code says so: to name such a function is advice, and no verdict.
const OF_POLLING: [&str; 7] = ["poll", "progress", "test", "check", "try", "wait", "spin"];

/// A function of a library in which threads were seen more often than anywhere else, and by which
/// they may poll, as `--poll` takes it.
fn polled(places: &[Place]) -> Option<String> {
    let all: u32 = places.iter().map(|place| place.samples).sum();
    let place = places.first().filter(|place| place.waits.is_none() && 2 * place.samples >= all)?;
    let (library, _) = place.module.split_once(".so")?;
    let name = place.function.to_ascii_lowercase();
    let may_poll = name.split('_').any(|word| OF_POLLING.contains(&word));
    may_poll.then(|| format!("--poll '{library}.so*:{}'", place.function))
}

pub(super) fn judge(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let severity = shares.crowd_without_busy_waiting();
    let runnable = shares.running + shares.waiting - shares.throttled - shares.behind_holders;
    let headline = format!(
        "{runnable:.1} threads wished to run at the same time on {} {}, about {:.0} too many",
        shares.cpus,
        if shares.cpus == 1.0 { "CPU" } else { "CPUs" },
        (runnable - shares.cpus).max(1.0)
    );
    let mut verdict = Verdict::new(Cause::TooManyThreads, severity, headline);
    let wished = shares.running + shares.waiting;
    let slices: u64 = evidence.threads.iter().map(|thread| thread.slices).sum();
    let waited_ns: u64 = evidence.threads.iter().map(|thread| thread.wait_ns).sum();
    verdict.evidence.push(format!(
        "{:.1} ran, {:.1} waited: a thread waits for {:.0} % of the time in which it could work, \
         {:.1} ms each time",
        shares.running,
        shares.waiting,
        100.0 * shares.waiting / wished.max(f64::MIN_POSITIVE),
        waited_ns as f64 / slices.max(1) as f64 / 1e6,
    ));
    let involuntary: u64 = evidence.threads.iter().map(|thread| thread.involuntary).sum();
    let stalled = evidence.machine.cpu_stalled.map_or(String::new(), |part| {
        format!("; some thread of the machine waited for a CPU for {:.0} % of the time", 100.0 * part)
    });
    verdict.evidence.push(format!(
        "threads lost their CPU {:.0} times per second{stalled}",
        evidence.per_time(involuntary) * 1e9
    ));
    let what = "tells the program how many CPUs it really has";
    verdict.remedies.push(Remedy::manx_run(evidence, "--cpus=auto", what));
    let threads = (evidence.budget.floor() as usize).max(1);
    let pools = pools::of(evidence);
    verdict.evidence.extend(pools::words(&pools));
    verdict.remedies.push(Remedy::advice(pools::advice(&pools, threads)));
    if let Some(option) = polled(&evidence.places) {
        let what = "lets threads sleep between two calls of that function, if it looks for something and \
                    returns when it finds nothing";
        verdict.remedies.push(Remedy::manx_run(evidence, &option, what));
    }
    if evidence.unseen.iter().any(|unseen| unseen.what.contains("busy waiting")) {
        verdict.doubts.push("where threads run could not be seen: some of them may be busy waiting".into());
    }
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::unseen::Unseen;

    #[test]
    fn a_function_by_which_threads_may_poll_is_named_with_the_option() {
        let place = |module: &str, function: &str, samples| Place {
            module: module.into(),
            function: function.into(),
            samples,
            ..Place::default()
        };
        let option = |place| {
            let places = vec![place, Place { samples: 10, ..Place::default() }];
            let evidence = Evidence { places, ..Evidence::default() };
            judge(&evidence, &Shares::default()).unwrap().remedies.into_iter().nth(2)
        };
        let remedy = option(place("libbus.so.1.2", "bus_try_poll", 30)).expect("a remedy");
        assert!(remedy.command.unwrap().contains("manx run --poll 'libbus.so*:bus_try_poll' --"));
        assert_eq!(option(place("libblas.so.3", "dgemm_kernel", 30)), None, "it works");
        assert_eq!(option(place("libbus.so.1.2", "bus_try_poll", 5)), None, "it is seldom there");
        assert_eq!(option(place("server", "bus_try_poll", 30)), None, "a program exports nothing");
        let waits = Place { waits: Some("by a loop"), ..place("libbus.so.1.2", "bus_try_poll", 30) };
        assert_eq!(option(waits), None, "the guard knows it");
    }

    #[test]
    fn the_runtimes_own_variable_is_named() {
        let shares = Shares { cpus: 2.0, running: 2.0, waiting: 6.0, crowd: 6.0, ..Shares::default() };
        let evidence = Evidence {
            budget: 2.0,
            modules: vec!["libgomp.so.1".into()],
            unseen: vec![Unseen::samples(1)],
            ..Evidence::default()
        };
        let verdict = judge(&evidence, &shares).unwrap();
        assert_eq!(verdict.severity, 6.0);
        assert!(verdict.headline.contains("8.0 threads") && verdict.headline.contains("about 6 too many"));
        assert!(verdict.remedies[1].what.ends_with("OMP_NUM_THREADS=2"), "{verdict:?}");
        assert_eq!(verdict.doubts.len(), 1);
    }
}
