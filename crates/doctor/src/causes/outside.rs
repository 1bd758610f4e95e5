//! What is not Manx's business: neighbours, the host, memory and disks.
//!
//! An operator wants to know that the program is not to blame, and who to ask. So each of these has
//! its verdict and figures, and its remedy names the culprit as far as it can be seen.

use crate::evidence::Evidence;
use crate::evidence::machine::Neighbour;
use crate::evidence::others::WORTH_A_WORD;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict};

/// A thread that has this many page faults from a disk per second waits for memory when it waits
/// for a disk.
const MAJOR_FAULTS_MIN: f64 = 5.0;

pub(super) fn neighbours(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let waits = shares.neighbours_without_busy_waiting();
    let beside = if shares.waiting > 2.0 * waits { "; most of its waits are its own fault" } else { "" };
    let headline = format!("{waits:.1} threads waited for a CPU while other processes ran{beside}");
    let mut verdict = Verdict::new(Cause::Neighbours, waits, headline);
    let machine = &evidence.machine;
    verdict.evidence.push(format!(
        "other processes used {:.1} CPUs, this one {:.1}; {:.1} were idle",
        (machine.busy_cpus - shares.running).max(0.0),
        shares.running,
        machine.idle_cpus
    ));
    let one = |it: &Neighbour| {
        let name = match &it.pids[..] {
            [pid] => format!("{} ({pid})", it.name),
            pids => format!("{} ({} processes)", it.name, pids.len()),
        };
        let waits = it.spinning.filter(|part| *part >= WORTH_A_WORD);
        let waits = waits
            .map_or_else(String::new, |part| format!(", {:.0} % of it in loops that wait", 100.0 * part));
        format!("{name}: {:.1} CPUs{waits}", it.cpus)
    };
    let named: Vec<String> = machine.neighbours.iter().map(one).collect();
    if !named.is_empty() {
        verdict.evidence.push(format!("most by {}", named.join(", ")));
    }
    verdict.remedies.push(Remedy::advice(
        "not Manx's business: move these processes, or give this one CPUs of its own or a larger weight",
    ));
    if machine.others_spinning.is_some_and(|part| part >= WORTH_A_WORD) {
        verdict.remedies.push(Remedy::advice("start those that wait in loops under `manx run`, too"));
    }
    Some(verdict)
}

pub(super) fn steal(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let machine = &evidence.machine;
    let part = shares.running / machine.busy_cpus.max(shares.running).max(f64::MIN_POSITIVE);
    let headline = format!("the host ran something else on {:.1} CPUs of this machine", machine.stolen_cpus);
    let mut verdict = Verdict::new(Cause::Steal, machine.stolen_cpus * part, headline);
    verdict.evidence.push(format!("this process had {:.0} % of the CPU time that was left", 100.0 * part));
    verdict
        .remedies
        .push(Remedy::advice("not Manx's business: ask the operator of the host, or take a larger machine"));
    Some(verdict)
}

/// Threads that wait for a disk, with the major faults per second of all threads: those of threads
/// with major faults, or of the others.
fn blocked(evidence: &Evidence, of_memory: bool) -> (f64, f64) {
    let looks = f64::from(evidence.looks.max(1));
    let per_second = |faults: u64| evidence.per_time(faults) * 1e9;
    let threads = evidence.threads.iter().filter(|thread| {
        thread.blocked > 0 && (per_second(thread.major_faults) >= MAJOR_FAULTS_MIN) == of_memory
    });
    let blocked = threads.map(|thread| f64::from(thread.blocked)).sum::<f64>() / looks;
    let faults = per_second(evidence.threads.iter().map(|thread| thread.major_faults).sum());
    (blocked, faults)
}

pub(super) fn memory(evidence: &Evidence, _: &Shares) -> Option<Verdict> {
    let (severity, faults) = blocked(evidence, true);
    let headline = format!(
        "{severity:.1} threads waited for pages from a disk on average, {faults:.0} major page faults per second"
    );
    let mut verdict = Verdict::new(Cause::Memory, severity, headline);
    if let Some(part) = evidence.machine.memory_stalled {
        let percent = 100.0 * part;
        verdict
            .evidence
            .push(format!("some thread of the machine waited for memory for {percent:.0} % of the time"));
    }
    verdict.remedies.push(Remedy::advice(
        "not Manx's business: raise the memory limit of the program's control group, or give it less to do",
    ));
    Some(verdict)
}

pub(super) fn disk(evidence: &Evidence, _: &Shares) -> Option<Verdict> {
    let (severity, _) = blocked(evidence, false);
    let headline = format!("{severity:.1} threads waited for a disk on average");
    let mut verdict = Verdict::new(Cause::Disk, severity, headline);
    if let Some(part) = evidence.machine.io_stalled {
        let percent = 100.0 * part;
        verdict
            .evidence
            .push(format!("some thread of the machine waited for a disk for {percent:.0} % of the time"));
    }
    verdict.remedies.push(Remedy::advice("not Manx's business: see which files it reads and writes"));
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::machine::MachineEvidence;
    use crate::evidence::thread::ThreadEvidence;

    #[test]
    fn a_neighbour_is_named() {
        let neighbour = Neighbour { pids: vec![9], name: "cc1plus".into(), cpus: 1.23, spinning: Some(0.2) };
        let machine = MachineEvidence {
            busy_cpus: 2.0,
            neighbours: vec![neighbour],
            others_spinning: Some(0.2),
            ..MachineEvidence::default()
        };
        let evidence = Evidence { machine, ..Evidence::default() };
        let shares = Shares { running: 0.8, neighbours: 1.2, ..Shares::default() };
        let verdict = neighbours(&evidence, &shares).unwrap();
        assert_eq!(verdict.evidence[1], "most by cc1plus (9): 1.2 CPUs, 20 % of it in loops that wait");
        assert!(verdict.remedies[1].what.contains("`manx run`"));
        assert!(verdict.remedies[0].what.starts_with("not Manx's business"));
    }

    #[test]
    fn stolen_cpus_are_divided_among_the_processes_that_ran() {
        let machine = MachineEvidence { busy_cpus: 2.0, stolen_cpus: 1.0, ..MachineEvidence::default() };
        let evidence = Evidence { machine, ..Evidence::default() };
        let verdict = steal(&evidence, &Shares { running: 0.5, ..Shares::default() }).unwrap();
        assert_eq!(verdict.severity, 0.25);
    }

    #[test]
    fn a_thread_with_major_faults_waits_for_memory_and_another_for_a_disk() {
        let thread =
            |blocked, major_faults| ThreadEvidence { blocked, major_faults, ..ThreadEvidence::default() };
        let threads = vec![thread(50, 1_000), thread(30, 0), thread(0, 1_000)];
        let evidence = Evidence { looks: 100, span_ns: 10_000_000_000, threads, ..Evidence::default() };
        let severity = |verdict: Option<Verdict>| verdict.unwrap().severity;
        assert_eq!(severity(memory(&evidence, &Shares::default())), 0.5);
        assert_eq!(severity(disk(&evidence, &Shares::default())), 0.3);
    }
}
