//! Slow cores on a machine that has none.

mod common;

use common::{finish, modes, preloaded, program};

/// Two CPUs that this process may use, unless it has one only.
fn two_cpus() -> Option<(usize, usize)> {
    let allowed = manx::cpu::CpuSet::of_this_thread();
    let mut cpus = allowed.iter();
    let two = cpus.next().zip(cpus.next());
    if two.is_none() {
        testing::skip("big and little threads need a CPU each, and there is one only");
    }
    two
}

/// Runs the program with these arguments after its two CPUs, the second of which is said to be
/// little.
fn run(options: &str, arguments: &[&str]) {
    let Some((big, little)) = two_cpus() else { return };
    let mut command = preloaded(program("dilated"), options);
    command.args([big.to_string(), little.to_string()]).args(arguments);
    command.env("MANX_CORES", format!("big:{big},little:{little}"));
    finish(&mut command).succeeded();
}

#[test]
fn a_thread_on_a_little_cpu_takes_longer_whatever_the_locks() {
    for lock in modes() {
        // Four times as long, give or take what a shared machine does to the work itself.
        run(&format!("guard=off,lock={lock},dilate=4000"), &["2", "100"]);
    }
}

#[test]
fn nothing_is_dilated_unasked() {
    run("guard=off,lock=asl", &["0", "3"]);
}

#[test]
fn time_asleep_or_waiting_is_not_stretched() {
    for lock in ["manx", "asl", "glibc"] {
        run(&format!("guard=off,lock={lock},dilate=100000"), &["sleeps"]);
    }
}
