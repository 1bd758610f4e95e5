//! A budget that is watched while it changes, on machines that are made up as folders that look
//! like `/`.

#[path = "common/tree.rs"]
mod tree;

use manx::cpu::{BudgetWatch, Quota, Throttled};
use std::time::Duration;
use tree::Tree;

/// A process in `/a/b` of the unified hierarchy, with a quota of 2 CPUs for `/a` and none for
/// `/a/b`.
fn unified() -> Tree {
    Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["0::/a/b"])
        .mount("/", "/sys/fs/cgroup", "cgroup2", "rw")
        .file("/sys/fs/cgroup/a/cpu.max", "200000 100000")
        .file("/sys/fs/cgroup/a/b/cpu.max", "max 100000")
}

/// The same with version 1, where `cpuacct` is mounted elsewhere.
fn version_1() -> Tree {
    let point = "/sys/fs/cgroup/cpu";
    let group = |tree: Tree, group: &str, quota: &str| {
        tree.file(&format!("{point}{group}/cpu.cfs_quota_us"), quota)
            .file(&format!("{point}{group}/cpu.cfs_period_us"), "100000")
    };
    let tree = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["2:cpuacct:/a/b", "1:cpu:/a/b"])
        .mount("/", point, "cgroup", "rw,cpu")
        .mount("/", "/sys/fs/cgroup/cpuacct", "cgroup", "rw,cpuacct");
    group(group(tree, "/a", "200000"), "/a/b", "-1")
}

/// Asks until it is so, for as long as a test may take.
fn until(watch: &mut BudgetWatch, cpus: f64) {
    testing::until("the new budget", || watch.cpus() == cpus);
}

#[test]
fn a_new_quota_of_any_group_is_seen_at_once() {
    let tree = unified();
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!((watch.cpus(), watch.version()), (2.0, 0));
    let tree = tree.file("/sys/fs/cgroup/a/b/cpu.max", "150000 100000");
    assert_eq!((watch.cpus(), watch.version()), (1.5, 1));
    let tree = tree.file("/sys/fs/cgroup/a/cpu.max", "50000 100000");
    assert_eq!((watch.cpus(), watch.version()), (0.5, 2));
    let tree = tree.file("/sys/fs/cgroup/a/cpu.max", "max 100000");
    let _tree = tree.file("/sys/fs/cgroup/a/b/cpu.max", "max 100000");
    assert_eq!((watch.cpus(), watch.version(), watch.quota()), (8.0, 3, None));
    assert_eq!((watch.cpus(), watch.version()), (8.0, 3), "nothing new");
}

#[test]
fn with_version_1_the_quota_is_seen_at_once_and_the_period_later() {
    let tree = version_1();
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.cpus(), 2.0);
    let tree = tree.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "150000");
    assert_eq!(watch.cpus(), 1.5);
    let quota = Quota::new(Duration::from_millis(150), Duration::from_millis(100));
    assert_eq!(watch.quota(), Some(quota));
    let _tree = tree.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "300000");
    until(&mut watch, 0.5);
}

#[test]
fn a_move_to_another_group_is_seen() {
    let tree = unified().file("/sys/fs/cgroup/c/cpu.max", "300000 100000");
    let mut watch = BudgetWatch::detect(tree.root());
    let tree = tree.file("/proc/self/cgroup", "0::/c");
    until(&mut watch, 3.0);
    assert_eq!(watch.budget().why().split(';').next(), Some("3 CPUs: quota 300000/100000 of the group /c"));
    // At once, if a caller knows that it was moved.
    let _tree = tree.file("/proc/self/cgroup", "0::/a");
    watch.rescan();
    assert_eq!((watch.cpus(), watch.version()), (2.0, 2));
}

#[test]
fn a_group_that_is_gone_is_looked_for_again_at_once() {
    let tree = unified().file("/sys/fs/cgroup/c/cpu.max", "300000 100000");
    let mut watch = BudgetWatch::detect(tree.root());
    // The kernel says of a removed group's open file that it cannot be read; here it has no text
    // any more.
    let _tree = tree.file("/proc/self/cgroup", "0::/c").file("/sys/fs/cgroup/a/cpu.max", "");
    assert_eq!(watch.cpus(), 3.0);
}

#[test]
fn a_file_that_makes_no_sense_is_left_out_until_it_does() {
    let tree = unified().file("/sys/fs/cgroup/a/b/cpu.max", "lots");
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.cpus(), 2.0);
    let _tree = tree.file("/sys/fs/cgroup/a/b/cpu.max", "100000 100000");
    until(&mut watch, 1.0);
}

#[test]
fn a_controller_that_comes_later_is_seen() {
    let tree = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["0::/a/b"])
        .mount("/", "/sys/fs/cgroup", "cgroup2", "rw")
        .group("/sys/fs/cgroup/a/b");
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.cpus(), 8.0);
    let _tree = tree.file("/sys/fs/cgroup/a/cpu.max", "400000 100000");
    until(&mut watch, 4.0);
}

/// A number of periods, the number of them in which the group was stopped, and for how long.
fn throttled(periods: u64, throttled: u64, time: Duration) -> Throttled {
    let mut found = Throttled::default();
    (found.periods, found.throttled, found.throttled_time) = (periods, throttled, time);
    found
}

#[test]
fn throttling_of_a_group_is_read_where_the_kernel_writes_it() {
    let throttled_a = throttled(9, 4, Duration::from_millis(5));
    // The group with the least quota is `/a`.
    let tree = unified()
        .file(
            "/sys/fs/cgroup/a/cpu.stat",
            "usage_usec 7000\nnr_periods 9\nnr_throttled 4\nthrottled_usec 5000",
        )
        .file("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 1\nnr_periods 1\nnr_throttled 1\nthrottled_usec 1");
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.throttled(), Some(throttled_a));
    // Now it is `/a/b`.
    let _tree = tree.file("/sys/fs/cgroup/a/b/cpu.max", "100000 100000");
    assert_eq!(watch.cpus(), 1.0);
    assert_eq!(watch.throttled(), Some(throttled(1, 1, Duration::from_micros(1))));

    let tree = version_1()
        .file("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 5000000");
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.throttled(), Some(throttled_a));
}

#[test]
fn without_a_quota_there_is_no_group_to_measure() {
    let tree = Tree::new().online("0-3");
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!((watch.cpus(), watch.quota()), (4.0, None));
    assert_eq!(watch.throttled(), None);
}

#[test]
fn a_change_is_announced_once() {
    let tree = unified();
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.changed(), None);
    let tree = tree.file("/sys/fs/cgroup/a/cpu.max", "100000 100000");
    // A reader in between takes nothing from the caller that is to be told.
    assert_eq!(watch.cpus(), 1.0);
    assert_eq!(watch.changed().map(|budget| budget.cpus()), Some(1.0));
    assert_eq!(watch.changed(), None);
    // What was so again before any caller was told is no news.
    let tree = tree.file("/sys/fs/cgroup/a/cpu.max", "200000 100000");
    assert_eq!(watch.cpus(), 2.0);
    let _tree = tree.file("/sys/fs/cgroup/a/cpu.max", "100000 100000");
    assert_eq!(watch.changed(), None);
    assert_eq!(watch.version(), 3);
}

#[test]
fn descriptors_that_the_program_closed_are_neither_believed_nor_closed() {
    // In a process of its own: it closes descriptors that it knows nothing of.
    let tree = unified();
    // SAFETY: the child uses what it has, and ends without returning.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let fine = std::panic::catch_unwind(|| {
            let highest = |path| std::fs::File::open(path).map(|file| std::os::fd::AsRawFd::as_raw_fd(&file));
            let first = highest("/dev/null").expect("a descriptor");
            let mut watch = BudgetWatch::detect(tree.root());
            let last = highest("/dev/null").expect("a descriptor");
            assert_eq!(watch.cpus(), 2.0);
            // Every file of the watch becomes a file that reads as a quota of half a CPU.
            std::fs::write(tree.root().join("trap"), "50000 100000\n").expect("written");
            let trap = std::fs::File::open(tree.root().join("trap")).expect("opened");
            for descriptor in first..last {
                // SAFETY: the watch expects this.
                unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&trap), descriptor) };
            }
            assert_eq!(watch.cpus(), 2.0);
            drop(watch);
            for descriptor in first..last {
                // SAFETY: only looks.
                let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
                assert_ne!(flags, -1, "{descriptor} is not ours to close");
            }
        });
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(fine.is_err())) };
    }
    let mut status = -1;
    // SAFETY: waits for the child of a moment ago.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_forks_child_looks_for_its_own_groups() {
    let tree = unified().file("/sys/fs/cgroup/c/cpu.max", "300000 100000");
    let mut watch = BudgetWatch::detect(tree.root());
    assert_eq!(watch.cpus(), 2.0);
    // SAFETY: the child uses what it has, and ends without returning.
    let child = unsafe { libc::fork() };
    if child == 0 {
        std::fs::write(tree.root().join("proc/self/cgroup"), "0::/c\n").expect("written");
        let found = watch.cpus();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(found != 3.0)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child of a moment ago.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}
