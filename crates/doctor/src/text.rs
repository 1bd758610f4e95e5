//! A report as text: one screen for a person on call.

use crate::evidence::Evidence;
use crate::verdict::{Verdict, command_line, threads};
use preload_abi::live::{Answer, Asked, NO_HELP};
use std::fmt::{self, Write as _};

/// The widest line.
const WIDTH: usize = 100;

/// The report on one process.
pub fn report(evidence: &Evidence, verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    write(&mut out, evidence, verdicts).expect("writing to a String");
    out
}

fn write(out: &mut String, evidence: &Evidence, verdicts: &[Verdict]) -> fmt::Result {
    let looks = evidence.looks;
    writeln!(
        out,
        "{} (process {}), {}, watched for {:.1} s in {looks} {}{}",
        evidence.name,
        evidence.pid,
        threads(evidence.threads.len()),
        evidence.span_ns as f64 / 1e9,
        if looks == 1 { "look" } else { "looks" },
        if evidence.ended { "; it has ended" } else { "" },
    )?;
    wrapped(out, "", &evidence.budget_why)?;
    if let Some(manx) = &evidence.manx {
        let yielders = evidence.threads.iter().filter(|thread| thread.yields()).count();
        let also = match yielders {
            0 => String::new(),
            _ if !manx.guard => String::new(),
            count => format!("; {} by yielding, as the guard makes them", waits(count)),
        };
        wrapped(out, "", &format!("{manx}{also}"))?;
        let asked = manx.counts.as_ref().map_or(&[][..], |counts| &counts.trials);
        for line in trials(asked).as_deref().into_iter().chain(no_help(asked)) {
            wrapped(out, "", line)?;
        }
    }
    for (at, verdict) in verdicts.iter().enumerate() {
        writeln!(out)?;
        writeln!(out, "{}. {}, severity {:.1}", at + 1, verdict.cause.title(), verdict.severity)?;
        wrapped(out, "   ", &verdict.headline)?;
        for line in &verdict.evidence {
            wrapped(out, "   - ", line)?;
        }
        for doubt in &verdict.doubts {
            wrapped(out, "   ? ", doubt)?;
        }
        for remedy in &verdict.remedies {
            match &remedy.command {
                Some(command) => {
                    // A command is to be copied: it is not wrapped.
                    writeln!(out, "   > {command}")?;
                    wrapped(out, "     ", &remedy.what)?;
                }
                None => wrapped(out, "   > ", &remedy.what)?,
            }
        }
    }
    if verdicts.is_empty() {
        writeln!(out)?;
        wrapped(out, "", &healthy(evidence))?;
    } else {
        writeln!(out)?;
        wrapped(out, "", "Severity: how many threads this keeps from their work on average.")?;
    }
    writeln!(out, "Looking took {:.1} % of one CPU.", 100.0 * evidence.own_cpus)?;
    if !evidence.unseen.is_empty() {
        writeln!(out, "\nCould not see:")?;
        for unseen in &evidence.unseen {
            wrapped(out, "   - ", &unseen.to_string())?;
        }
    }
    Ok(())
}

/// The answers of the trial in a sentence; `None` if it has not asked.
pub fn trials(asked: &[Asked]) -> Option<String> {
    let answers: Vec<String> = asked.iter().map(ToString::to_string).collect();
    let answers = answers.join(", ");
    (!asked.is_empty())
        .then(|| format!("Its work as written and with Manx while CPUs were short: {answers}."))
}

/// The sentence that Manx does not help, if the trial has asked and no cure was kept.
pub fn no_help(asked: &[Asked]) -> Option<&'static str> {
    (!asked.is_empty() && asked.iter().all(|it| it.answer != Answer::Kept)).then_some(NO_HELP)
}

fn waits(count: usize) -> String {
    format!("{} {}", threads(count), if count == 1 { "waits" } else { "wait" })
}

/// Why there is no verdict.
fn healthy(evidence: &Evidence) -> String {
    if evidence.is_too_short() {
        return "Nothing can be said: the process ended too soon. Give the program more to do.".into();
    }
    // A sum of nothing is a negated zero.
    let locks = evidence.locks.iter().map(|lock| lock.waiters).sum::<f64>() + 0.0;
    let spinning =
        match (evidence.samples(), evidence.threads.iter().map(|it| it.waiting_samples).sum::<u32>()) {
            (0, _) => "where they ran was not seen".to_owned(),
            (all, waiting) => {
                format!(
                    "{:.0} % of {all} samples lay in loops that wait",
                    100.0 * f64::from(waiting) / f64::from(all)
                )
            }
        };
    format!(
        "Nothing found: {:.2} threads ran and {:.2} waited for a CPU on average, {locks:.2} waited for \
         locks, {spinning}.",
        evidence.running(),
        evidence.waiting()
    )
}

/// One line on a process, for lists.
pub fn line(evidence: &Evidence, verdicts: &[Verdict]) -> String {
    let what = match verdicts.first() {
        Some(verdict) => format!("{:.1}  {}: {}", verdict.severity, verdict.cause.title(), verdict.headline),
        None if evidence.is_too_short() => "ended too soon".into(),
        None => "nothing found".into(),
    };
    let name = if evidence.name.is_empty() { command_line(&evidence.command) } else { evidence.name.clone() };
    format!("{:>8}  {name:<15}  {what}", evidence.pid)
}

/// Writes words behind `head`, and further lines as far to the right.
fn wrapped(out: &mut String, head: &str, words: &str) -> fmt::Result {
    let indent = " ".repeat(head.chars().count());
    let mut line = head.to_owned();
    let mut is_fresh = true;
    for word in words.split(' ') {
        if !is_fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            line.clone_from(&indent);
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
        }
        line.push_str(word);
        is_fresh = false;
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::unseen::Unseen;
    use crate::verdict::{Cause, Remedy};
    use preload_abi::live::Cure;

    fn evidence() -> Evidence {
        Evidence {
            pid: 7,
            name: "app".into(),
            span_ns: 10_000_000_000,
            looks: 200,
            budget_why: "2 CPUs: all that are online (0-1)".into(),
            ..Evidence::default()
        }
    }

    #[test]
    fn a_healthy_process_has_its_figures() {
        let text = report(&evidence(), &[]);
        assert!(
            text.starts_with("app (process 7), 0 threads, watched for 10.0 s in 200 looks\n2 CPUs"),
            "{text}"
        );
        assert!(text.contains("Nothing found: 0.00 threads ran"), "{text}");
    }

    #[test]
    fn a_trial_without_a_cure_that_was_kept_says_that_manx_does_not_help() {
        let asked = |cure, answer| Asked {
            cure,
            answer,
            kept: 1,
            dropped: 1,
            as_written_ns: 500_000_000,
            cured_ns: 600_000_000,
        };
        let tie = [asked(Cure::Spin, Answer::Tie), asked(Cure::Yield, Answer::Dropped)];
        let said = "Its work as written and with Manx while CPUs were short: spin tie (0.50 to 0.60 CPUs), \
                    yield dropped (0.50 to 0.60 CPUs).";
        assert_eq!((trials(&tie).as_deref(), no_help(&tie)), (Some(said), Some(NO_HELP)));
        let kept = [asked(Cure::Spin, Answer::Kept), asked(Cure::Yield, Answer::Dropped)];
        assert!(trials(&kept).is_some() && no_help(&kept).is_none());
        assert_eq!((trials(&[]), no_help(&[])), (None, None));
    }

    #[test]
    fn of_a_process_that_ended_at_once_nothing_is_said() {
        let text = report(&Evidence { span_ns: 1, looks: 1, ended: true, ..evidence() }, &[]);
        assert!(text.contains("Nothing can be said") && !text.contains("Nothing found"), "{text}");
    }

    #[test]
    fn a_verdict_has_evidence_remedies_and_what_was_not_seen() {
        let mut verdict = Verdict::new(Cause::ContendedLock, 6.5, "6.5 threads slept for one lock");
        verdict.evidence.push("word ".repeat(40).trim_end().to_owned());
        verdict
            .remedies
            .push(Remedy { what: "does less".into(), command: Some("manx run --lock=manx -- app".into()) });
        let mut evidence = evidence();
        evidence.unseen.push(Unseen::new("samples", "refused", "be root"));
        let text = report(&evidence, &[verdict]);
        assert!(text.contains("1. a contended lock, severity 6.5\n   6.5 threads slept"), "{text}");
        assert!(text.contains("\n   > manx run --lock=manx -- app\n     does less\n"), "{text}");
        assert!(text.contains("\nCould not see:\n   - samples: refused; be root\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_line_names_the_worst() {
        let verdict = Verdict::new(Cause::Quota, 3.0, "the quota stopped it");
        let line = line(&evidence(), &[verdict]);
        assert_eq!(line, "       7  app              3.0  throttled by a quota: the quota stopped it");
    }
}
