//! Budgets under the kernel's own groups, of processes that are moved in.
//!
//! Each test starts this program again as a child, which does what it is told to on its standard
//! input and answers on its standard output. Where this process may not make groups, a test says so
//! and is over.

#[path = "common/groups.rs"]
mod groups;

use groups::Group;
use manx::cpu::{BudgetWatch, CpuBudget, CpuSet};
use testing::process::Running;
use testing::until;

const ROLE: &str = "MANX_BUDGET_CHILD";
const ANSWER: &str = "answer: ";

/// What a child does: nothing unless it was started as one.
#[test]
fn child() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut watch = BudgetWatch::new();
    for line in std::io::stdin().lines() {
        let answer = match line.expect("a line").as_str() {
            "now" => CpuBudget::now().why(),
            "watch" => watch.cpus().to_string(),
            "why" => watch.budget().why(),
            "throttled" => format!("{:?}", watch.throttled()),
            "one CPU" => platform::cpu::restrict(1).to_string(),
            "burn" => {
                let until_ns = platform::clock::process_cpu_ns() + 50_000_000;
                while platform::clock::process_cpu_ns() < until_ns {}
                String::new()
            }
            "namespace" => {
                // SAFETY: only the calling thread's namespace is another one.
                let result = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
                watch = BudgetWatch::new();
                result.to_string()
            }
            other => panic!("unknown: {other}"),
        };
        println!("\n{ANSWER}{answer}");
    }
}

/// A child, which ends with its parent's interest in it.
struct Asked(Running);

impl Asked {
    fn new() -> Asked {
        Asked(Running::again("child", &[(ROLE, "1".as_ref())]))
    }

    fn process(&self) -> u32 {
        self.0.child.id()
    }

    fn ask(&mut self, question: &str) -> String {
        self.0.ask(question, ANSWER).trim_end().into()
    }

    /// Asks the watch until it says so, for as long as a test may take.
    fn until(&mut self, cpus: &str) {
        until(cpus, || self.ask("watch") == cpus);
    }
}

fn cpus() -> usize {
    CpuSet::of_this_thread().len()
}

#[test]
fn a_groups_quota_is_the_budget() {
    let Some(group) = Group::or_skip("cpu") else { return };
    let mut child = Asked::new();
    child.ask("now");
    group.take(child.process());
    for (quota_us, text) in [(50_000, "0.5 CPUs"), (100_000, "1 CPU"), (150_000, "1.5 CPUs")] {
        if cpus() < 2 {
            testing::skip(format_args!("in part: {text} on one CPU"));
            continue;
        }
        group.set_quota(Some(quota_us / 100));
        let expected = format!("{text}: quota {quota_us}/100000 of the group {}", group.path());
        assert_eq!(child.ask("now"), expected);
    }
    group.set_quota(None);
    assert!(!child.ask("now").contains("quota"));
    drop(child);
}

#[test]
fn a_parents_quota_is_the_budget_of_a_group_without_one() {
    let Some(parent) = Group::or_skip("cpu") else { return };
    let inner = parent.child("inner");
    parent.set_quota(Some(1000));
    let mut child = Asked::new();
    child.ask("now");
    inner.take(child.process());
    if cpus() > 1 {
        let expected =
            format!("1 CPU: quota 100000/100000 of the parent group {} of {}", parent.path(), inner.path());
        assert_eq!(child.ask("now"), expected);
    }
    parent.set_quota(Some(250));
    assert!(child.ask("now").starts_with("0.25 CPUs: quota 25000/100000 of the parent group"));
    drop(child);
    inner.remove();
}

#[test]
fn a_watch_sees_quotas_moves_and_groups_that_are_removed() {
    let Some(parent) = Group::or_skip("cpu") else { return };
    let inner = parent.child("inner");
    let other = parent.child("other");
    let mut child = Asked::new();
    let unlimited = child.ask("watch");
    inner.take(child.process());
    parent.set_quota(Some(800));
    child.until("0.8");
    // Quotas of groups that it knows are seen at the next reading.
    inner.set_quota(Some(500));
    assert_eq!(child.ask("watch"), "0.5");
    parent.set_quota(Some(600));
    inner.set_quota(None);
    assert_eq!(child.ask("watch"), "0.6");
    // A group that was removed is no file's any more.
    other.set_quota(Some(300));
    other.take(child.process());
    inner.remove();
    assert_eq!(child.ask("watch"), "0.3");
    // Moved, and nothing was removed.
    other.expel(child.process());
    child.until(&unlimited);
    drop(child);
    other.remove();
}

#[test]
fn throttling_of_a_group_is_counted() {
    let Some(group) = Group::or_skip("cpu") else { return };
    let mut child = Asked::new();
    child.ask("now");
    group.set_quota(Some(100));
    group.take(child.process());
    child.until("0.1");
    // It burns, and has a tenth of a CPU.
    until("throttling", || {
        let throttled = child.ask("throttled");
        assert!(throttled.starts_with("Some(Throttled { periods: "), "{throttled}");
        let is_throttled = !throttled.contains(" throttled: 0,");
        if !is_throttled {
            child.ask("burn");
        }
        is_throttled
    });
    drop(child);
}

#[test]
fn above_a_namespace_the_parents_quota_is_found() {
    let Some(parent) = Group::or_skip("cpu") else { return };
    let inner = parent.child("inner");
    let _beside = parent.child("beside");
    parent.set_quota(Some(700));
    let mut child = Asked::new();
    child.ask("now");
    inner.take(child.process());
    if child.ask("namespace") != "0" {
        testing::skip("no cgroup namespace for this process");
        return;
    }
    assert_eq!(child.ask("why"), "0.7 CPUs: quota 70000/100000 of the parent group /.. of /");
    drop(child);
    inner.remove();
}

#[test]
fn a_cpuset_is_named_where_it_decides() {
    let Some(group) = Group::or_skip("cpuset") else { return };
    if cpus() < 2 {
        testing::skip("one CPU is not enough");
        return;
    }
    let first = CpuSet::of_this_thread().iter().next().expect("a CPU");
    group.set_cpus(&first.to_string());
    let mut child = Asked::new();
    child.until(&cpus().to_string());
    group.take(child.process());
    let expected = format!("1 CPU: cpuset {first} of the group {}", group.path());
    assert_eq!(child.ask("now"), expected);
    assert_eq!(child.ask("watch"), "1");
    drop(child);
}

#[test]
fn an_affinity_is_seen_at_once() {
    let mut child = Asked::new();
    assert_eq!(child.ask("watch"), CpuBudget::now().cpus().to_string());
    assert_eq!(child.ask("one CPU"), "1");
    assert!(child.ask("watch").parse::<f64>().expect("a number") <= 1.0);
    if cpus() > 1 {
        assert!(child.ask("now").starts_with("1 CPU: affinity ") || CpuBudget::now().cpus() < 1.0);
    }
}
