//! Locks: threads sleep for a lock, and, worse, for a holder that cannot run because its priority
//! is worse than theirs.
//!
//! If the holder has a worse priority than the waiter and is kept from running, the waiter counts
//! as *inverted*, for the priority inversion. All other waiters count for the contention. So no
//! waiter counts twice.

use crate::evidence::Evidence;
use crate::evidence::locks::{LockEvidence, OFTEN};
use crate::evidence::waits::CallerWaits;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict, duration, grouped};

/// How many locks the verdict names, and how many functions of each.
const NAMED: usize = 3;

/// The verdict on contended locks, for the waiters that are not inverted.
pub(super) fn contention(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let worst = evidence.locks.iter().find(|lock| lock.waiters > lock.inverted)?;
    let severity = shares.locked - shares.inverted;
    let headline = format!(
        "{severity:.1} threads slept for {} on average",
        if evidence.locks.len() == 1 { "one lock".into() } else { format!("{} locks", evidence.locks.len()) }
    );
    let mut verdict = Verdict::new(Cause::ContendedLock, severity, headline);
    for lock in evidence.locks.iter().take(NAMED) {
        verdict.evidence.push(waiters(lock, evidence));
        verdict.evidence.extend(holders(lock, evidence));
        verdict.evidence.extend(lock.waits.iter().take(NAMED).map(lengths));
    }
    // Only the C library's mutexes name their holder, and `manx run` replaces only these.
    let what = if worst.held > 0 {
        "lets running threads take the lock first, so that fewer of them sleep"
    } else {
        "helps if it is a mutex of the C library; locks that are built into a program, as those of Rust's \
         library, stay as they are (in Rust, use manx::lock)"
    };
    verdict.remedies.push(if worst.holder_sleeps() {
        Remedy::advice(
            "another lock, as that of `manx run`, does not help: the holder sleeps while it has it",
        )
    } else {
        Remedy::manx_run(evidence, "--lock=manx", what)
    });
    let function = worst.callers.first().map_or_else(String::new, |(name, _)| format!(" in {name}"));
    verdict.remedies.push(Remedy::advice(format!("or do less while the lock is held{function}")));
    Some(verdict)
}

/// The verdict on priority inversion, with the lock that has the most inverted waiters.
pub(super) fn inversion(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let worst = evidence.locks.iter().max_by(|one, other| one.inverted.total_cmp(&other.inverted))?;
    let (waiter, holder) = worst.inversion?;
    let severity = shares.inverted + shares.behind_holders;
    let headline = format!(
        "threads with {waiter} waited for a lock whose holder has {holder} and was kept from running"
    );
    let mut verdict = Verdict::new(Cause::PriorityInversion, severity, headline);
    verdict.evidence.push(format!(
        "the holder wished to run and could not in {} of the {} looks in which it was known",
        worst.holder_kept, worst.held
    ));
    verdict.evidence.push(waiters(worst, evidence));
    verdict.evidence.extend(holders(worst, evidence));
    verdict.evidence.extend(worst.waits.iter().take(NAMED).map(lengths));
    verdict.remedies.push(Remedy::advice(
        "give the threads that share this lock one priority, or make it a mutex with PTHREAD_PRIO_INHERIT",
    ));
    let what = "overtakes a holder's other waiters for a limited time only; it does not lend priorities";
    verdict.remedies.push(Remedy::manx_run(evidence, "--lock=manx", what));
    Some(verdict)
}

/// How many threads waited for the lock, and from where they came, in words.
fn waiters(lock: &LockEvidence, evidence: &Evidence) -> String {
    let from = match &lock.callers[..] {
        [] => String::new(),
        callers => {
            let names: Vec<&str> = callers.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
            format!("; they came from {}", names.join(", "))
        }
    };
    format!(
        "lock {:#x} in {}: {:.1} waiters on average, {} at most, in {} of {} looks{from}",
        lock.address, lock.place, lock.waiters, lock.waiters_max, lock.looks, evidence.looks
    )
}

/// How long the waits in one function lasted.
fn lengths(waits: &CallerWaits) -> String {
    let p99 = waits.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", duration(ns)));
    format!(
        "waits from {}: {} seen, p50 {}{p99}, max {}",
        waits.function,
        grouped(waits.count),
        duration(waits.p50_ns),
        duration(waits.max_ns)
    )
}

/// What the holders did, in words; `None` if that is not known.
fn holders(lock: &LockEvidence, evidence: &Evidence) -> Option<String> {
    let part = |count: u32| lock.part(count);
    let mut parts = Vec::new();
    if let Some((tid, count)) = lock.holders.first() {
        let name =
            evidence.threads.iter().find(|thread| thread.tid == *tid).map_or("?", |it| it.name.as_str());
        let others = match lock.holders.len() {
            1 => "alone".to_owned(),
            threads => format!("most often, of {threads} threads"),
        };
        parts.push(format!("held by {name} ({tid}) {others}, in {count} of {} looks", lock.held));
    }
    if lock.holder_sleeps() {
        parts.push("the holder mostly sleeps: it waits for something else while it holds the lock".into());
    }
    if part(lock.holder_kept) > OFTEN {
        parts.push("the holder mostly wishes to run and has no CPU".into());
    }
    if part(lock.free) > OFTEN {
        parts.push("often nobody held it: the time goes into waking up (a convoy)".into());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::thread::{Priority, ThreadEvidence};

    fn lock() -> LockEvidence {
        LockEvidence {
            address: 0x4040,
            place: "the data of app".into(),
            looks: 100,
            waiters: 6.5,
            waiters_max: 7,
            held: 90,
            holder_slept: 60,
            holders: vec![(11, 50), (12, 40)],
            callers: vec![("work (app)".into(), 8)],
            ..LockEvidence::default()
        }
    }

    fn evidence(lock: LockEvidence) -> Evidence {
        let thread = ThreadEvidence { tid: 11, name: "worker".into(), ..ThreadEvidence::default() };
        Evidence { looks: 100, locks: vec![lock], threads: vec![thread], ..Evidence::default() }
    }

    #[test]
    fn waiters_callers_and_holders_are_named() {
        let shares = Shares { locked: 6.5, ..Shares::default() };
        let verdict = contention(&evidence(lock()), &shares).unwrap();
        assert_eq!(verdict.headline, "6.5 threads slept for one lock on average");
        assert_eq!(
            verdict.evidence[0],
            "lock 0x4040 in the data of app: 6.5 waiters on average, 7 at most, in 100 of 100 looks; \
             they came from work (app)"
        );
        assert!(
            verdict.evidence[1].starts_with("held by worker (11) most often, of 2 threads"),
            "{verdict:?}"
        );
        assert!(verdict.evidence[1].contains("mostly sleeps") && !verdict.evidence[1].contains("convoy"));
        assert!(verdict.remedies[1].what.ends_with("in work (app)"));
        assert_eq!(inversion(&evidence(lock()), &shares), None);
    }

    #[test]
    fn the_first_functions_have_the_lengths_of_their_waits() {
        let waits = |function: &str, count, p99_ns| CallerWaits {
            function: function.into(),
            count,
            p50_ns: 80_000,
            p99_ns,
            max_ns: 12_000_000,
            ..CallerWaits::default()
        };
        let all = [("take_order (app)", 1_234, Some(3_100_000)), ("pay (app)", 7, None)];
        let all = all.into_iter().chain([("b", 1, None), ("c", 1, None)]);
        let lock = LockEvidence { waits: all.map(|(it, n, p99)| waits(it, n, p99)).collect(), ..lock() };
        let verdict = contention(&evidence(lock), &Shares { locked: 6.5, ..Shares::default() }).unwrap();
        assert_eq!(verdict.evidence.len(), 2 + NAMED);
        assert_eq!(
            verdict.evidence[2..4],
            [
                "waits from take_order (app): 1,234 seen, p50 80 µs, p99 3.1 ms, max 12 ms",
                "waits from pay (app): 7 seen, p50 80 µs, max 12 ms"
            ]
        );
    }

    #[test]
    fn an_inversion_takes_its_waiters_from_the_contention() {
        let (waiter, holder) = (Priority::new(0, 0, 0), Priority::new(0, 0, 19));
        let lock =
            LockEvidence { inverted: 6.0, holder_kept: 85, inversion: Some((waiter, holder)), ..lock() };
        let evidence = evidence(lock);
        let shares = Shares { locked: 6.5, inverted: 6.0, behind_holders: 0.8, ..Shares::default() };
        let verdict = inversion(&evidence, &shares).unwrap();
        assert_eq!(verdict.severity, 6.8);
        assert!(verdict.headline.starts_with("threads with nice 0 waited"), "{verdict:?}");
        assert_eq!(contention(&evidence, &shares).unwrap().severity, 0.5);
    }
}
