//! Budgets of machines that are made up as folders that look like `/`: every layout of groups, and
//! what hides them.

#[path = "cpu_budget/guest.rs"]
mod guest;
#[path = "common/tree.rs"]
mod tree;

use manx::cpu::{CpuBudget, CpuSet, LimitKind, Rounding, Weight};
use std::os::unix::fs::PermissionsExt;
use tree::Tree;

/// The quota of a group, and how it is set in each version.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    /// Of the process' own group and its parent: `max`, or µs in a period of 100 ms.
    own: Option<u64>,
    parent: Option<u64>,
    affinity: &'static str,
    cpuset: &'static str,
    cpus: f64,
    floor: usize,
    ceil: usize,
}

const PLAIN: Column = Column {
    name: "none",
    own: None,
    parent: None,
    affinity: "0-7",
    cpuset: "0-7",
    cpus: 8.0,
    floor: 8,
    ceil: 8,
};

const fn quota(name: &'static str, own: u64, cpus: f64, floor: usize, ceil: usize) -> Column {
    Column { name, own: Some(own), cpus, floor, ceil, ..PLAIN }
}

/// What runtimes get wrong, each its own: 8 CPUs, and these limits.
const COLUMNS: [Column; 9] = [
    PLAIN,
    quota("0.5", 50_000, 0.5, 1, 1),
    quota("1", 100_000, 1.0, 1, 1),
    quota("1.5", 150_000, 1.5, 1, 2),
    quota("2.5", 250_000, 2.5, 2, 3),
    quota("3.99", 399_000, 3.99, 3, 4),
    Column { name: "affinity 0-2", affinity: "0-2", cpus: 3.0, floor: 3, ceil: 3, ..PLAIN },
    Column { name: "parent=2, child=max", parent: Some(200_000), cpus: 2.0, floor: 2, ceil: 2, ..PLAIN },
    Column { affinity: "0-3", cpuset: "0-3", ..quota("cpuset 0-3 + 2.5", 250_000, 2.5, 2, 3) },
];

/// How groups are mounted and named.
#[derive(Clone, Copy, Debug)]
enum Groups {
    /// Version 1, each controller alone.
    Alone,
    /// Version 1, `cpu` and `cpuacct` together.
    Together,
    /// Version 1 for controllers, the unified hierarchy beside it.
    Hybrid,
    Unified,
    /// Version 2 in a namespace whose root is the group.
    Namespace,
    /// Version 1: a container sees its own group only, and knows its name on the host.
    Bound,
}

fn machine(groups: Groups, column: &Column) -> Tree {
    let tree = Tree::new().online("0-7");
    let max = |quota: Option<u64>| quota.map_or("max".into(), |quota| quota.to_string());
    let v1 = |quota: Option<u64>| quota.map_or("-1".into(), |quota| quota.to_string());
    let version_1 = |tree: Tree, cpu: &str, cpuset: &str| {
        let tree = tree
            .file(&format!("{cpu}/cpu.cfs_quota_us"), "-1")
            .file(&format!("{cpu}/cpu.cfs_period_us"), "100000")
            .file(&format!("{cpu}/a/cpu.cfs_quota_us"), v1(column.parent))
            .file(&format!("{cpu}/a/cpu.cfs_period_us"), "100000")
            .file(&format!("{cpu}/a/b/cpu.cfs_quota_us"), v1(column.own))
            .file(&format!("{cpu}/a/b/cpu.cfs_period_us"), "100000")
            .file(&format!("{cpu}/a/b/cpu.shares"), "512");
        tree.file(&format!("{cpuset}/cpuset.cpus"), "0-7")
            .file(&format!("{cpuset}/a/cpuset.cpus"), column.cpuset)
    };
    let unified = |tree: Tree, at: &str| {
        tree.file(&format!("{at}/a/cpu.max"), format!("{} 100000", max(column.parent)))
            .file(&format!("{at}/a/b/cpu.max"), format!("{} 100000", max(column.own)))
            .file(&format!("{at}/a/b/cpu.weight"), "50")
            .file(&format!("{at}/a/b/cpuset.cpus"), "")
            .file(&format!("{at}/a/b/cpuset.cpus.effective"), column.cpuset)
    };
    match groups {
        Groups::Alone | Groups::Hybrid => {
            let tree = version_1(tree, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset")
                .lines("/proc/self/cgroup", &["3:cpuset:/a", "2:cpuacct:/elsewhere", "1:cpu:/a/b"])
                .mount("/", "/sys/fs/cgroup/cpuacct", "cgroup", "rw,cpuacct")
                .mount("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu")
                .mount("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset");
            if matches!(groups, Groups::Alone) {
                return tree;
            }
            tree.lines("/proc/self/cgroup", &["0::/init"])
                .mount("/", "/sys/fs/cgroup/unified", "cgroup2", "rw")
                .group("/sys/fs/cgroup/unified/init")
        }
        Groups::Together => version_1(tree, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset")
            .lines("/proc/self/cgroup", &["4:cpu,cpuacct:/a/b", "3:cpuset:/a"])
            .mount("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
            .mount("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset"),
        Groups::Unified => unified(tree, "/sys/fs/cgroup").lines("/proc/self/cgroup", &["0::/a/b"]).mount(
            "/",
            "/sys/fs/cgroup",
            "cgroup2",
            "rw,nsdelegate",
        ),
        // The namespace's root is `a/b`, which the mount from outside shows two levels below its
        // root.
        Groups::Namespace => unified(tree, "/sys/fs/cgroup")
            .file("/sys/fs/cgroup/a/b/cgroup.procs", format!("1\n{}\n", std::process::id()))
            .group("/sys/fs/cgroup/a/c")
            .group("/sys/fs/cgroup/d/e")
            .lines("/proc/self/cgroup", &["0::/"])
            .mount("/../..", "/sys/fs/cgroup", "cgroup2", "rw,nsdelegate"),
        // The mount's root is `/docker`, so `a` is `/docker/a`.
        Groups::Bound => version_1(tree, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset")
            .lines("/proc/self/cgroup", &["2:cpuset:/docker/a", "1:cpu:/docker/a/b"])
            .mount("/docker", "/sys/fs/cgroup/cpu", "cgroup", "ro,cpu")
            .mount("/docker", "/sys/fs/cgroup/cpuset", "cgroup", "ro,cpuset"),
    }
}

fn set(text: &str) -> CpuSet {
    text.parse().expect(text)
}

#[test]
fn every_layout_gives_the_same_budget() {
    use Groups::{Alone, Bound, Hybrid, Namespace, Together, Unified};
    for groups in [Alone, Together, Hybrid, Unified, Namespace, Bound] {
        for column in &COLUMNS {
            let tree = machine(groups, column);
            let budget = CpuBudget::detect(tree.root(), Some(&set(column.affinity)));
            let counts = [Rounding::Floor, Rounding::Ceil].map(|rounding| budget.count(rounding));
            let found = (budget.cpus(), counts);
            assert_eq!(
                found,
                (column.cpus, [column.floor, column.ceil]),
                "{groups:?}, {}: {budget}",
                column.name
            );
            assert_eq!(budget.warnings(), [""; 0], "{groups:?}, {}", column.name);
        }
    }
}

#[test]
fn the_reason_names_the_group_as_the_process_would() {
    let parent = COLUMNS[7];
    for (groups, column, why) in [
        (Groups::Unified, PLAIN, "8 CPUs: all that are online (0-7)"),
        (Groups::Unified, COLUMNS[3], "1.5 CPUs: quota 150000/100000 of the group /a/b"),
        (Groups::Unified, parent, "2 CPUs: quota 200000/100000 of the parent group /a of /a/b"),
        (Groups::Unified, COLUMNS[6], "3 CPUs: affinity 0-2"),
        (Groups::Alone, parent, "2 CPUs: quota 200000/100000 of the parent group /a of /a/b"),
        (Groups::Namespace, parent, "2 CPUs: quota 200000/100000 of the parent group /.. of /"),
        (Groups::Bound, parent, "2 CPUs: quota 200000/100000 of the parent group /docker/a of /docker/a/b"),
        (
            Groups::Unified,
            Column { affinity: "0-1", cpuset: "0-1", ..PLAIN },
            "2 CPUs: cpuset 0-1 of the group /a/b",
        ),
    ] {
        let tree = machine(groups, &column);
        let budget = CpuBudget::detect(tree.root(), Some(&set(column.affinity)));
        assert_eq!(budget.why(), why, "{groups:?}");
    }
}

#[test]
fn every_limit_is_listed_and_one_binds() {
    let tree = machine(Groups::Unified, &Column { parent: Some(300_000), ..COLUMNS[8] });
    let budget = CpuBudget::detect(tree.root(), Some(&set("0-3")));
    let listed: Vec<String> =
        budget.limits().iter().map(|it| format!("{}{it}", if it.binds { "* " } else { "" })).collect();
    assert_eq!(
        listed,
        [
            "8 CPUs: all that are online (0-7)",
            "4 CPUs: cpuset 0-3 of the group /a/b",
            "4 CPUs: affinity 0-3",
            "* 2.5 CPUs: quota 250000/100000 of the group /a/b",
            "3 CPUs: quota 300000/100000 of the parent group /a of /a/b",
        ]
    );
    assert_eq!(budget.source().quota().map(|it| it.cpus()), Some(2.5));
    assert_eq!(budget.source().group().map(|it| (it.levels_up, it.unified)), Some((0, true)));
}

#[test]
fn the_groups_are_the_calling_threads() {
    // The first thread of the process has ended.
    let tree = machine(Groups::Together, &COLUMNS[3])
        .lines("/proc/thread-self/cgroup", &["4:cpu,cpuacct:/a/b", "3:cpuset:/a"])
        .file("/proc/self/cgroup", "4:cpu,cpuacct:/\n3:cpuset:/");
    let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
    assert_eq!(budget.why(), "1.5 CPUs: quota 150000/100000 of the group /a/b");
}

#[test]
fn a_quota_far_above_counts_as_much_as_the_own_one() {
    let tree = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["0::/a/b/c/d"])
        .mount("/", "/sys/fs/cgroup", "cgroup2", "rw")
        .file("/sys/fs/cgroup/a/cpu.max", "120000 100000")
        .file("/sys/fs/cgroup/a/b/cpu.max", "max 100000")
        .group("/sys/fs/cgroup/a/b/c")
        .file("/sys/fs/cgroup/a/b/c/d/cpu.max", "400000 100000");
    let budget = CpuBudget::detect(tree.root(), None);
    assert!(
        budget.why().starts_with("1.2 CPUs: quota 120000/100000 of the group /a, 3 levels above /a/b/c/d")
    );

    // So does that of the mount's root, which in a container is no root.
    let tree = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["0::/inner"])
        .mount("/", "/sys/fs/cgroup", "cgroup2", "rw")
        .file("/sys/fs/cgroup/cpu.max", "50000 100000")
        .file("/sys/fs/cgroup/inner/cpu.max", "max 100000");
    assert_eq!(CpuBudget::detect(tree.root(), Some(&set("0-7"))).cpus(), 0.5);
}

#[test]
fn a_weight_is_reported_and_is_no_limit() {
    for (groups, weight) in [(Groups::Alone, Weight::Shares(512)), (Groups::Unified, Weight::Weight(50))] {
        let tree = machine(groups, &PLAIN);
        let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
        assert_eq!((budget.cpus(), budget.weight()), (8.0, Some(weight)));
    }
    let tree = machine(Groups::Unified, &PLAIN).file("/sys/fs/cgroup/a/b/cpu.idle", "1");
    assert_eq!(CpuBudget::detect(tree.root(), Some(&set("0-7"))).weight(), Some(Weight::Idle));
}

#[test]
fn a_burst_is_told_and_does_not_count() {
    for (groups, file) in [
        (Groups::Alone, "/sys/fs/cgroup/cpu/a/b/cpu.cfs_burst_us"),
        (Groups::Unified, "/sys/fs/cgroup/a/b/cpu.max.burst"),
    ] {
        let tree = machine(groups, &COLUMNS[3]).file(file, "50000");
        let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
        assert_eq!(budget.why(), "1.5 CPUs: quota 150000/100000 with bursts of 50000 of the group /a/b");
    }
}

#[test]
fn real_time_bandwidth_is_no_quota() {
    let tree = machine(Groups::Alone, &PLAIN)
        .file("/sys/fs/cgroup/cpu/a/b/cpu.rt_runtime_us", "1000")
        .file("/sys/fs/cgroup/cpu/a/b/cpu.rt_period_us", "1000000");
    assert_eq!(CpuBudget::detect(tree.root(), Some(&set("0-7"))).cpus(), 8.0);
}

#[test]
fn a_quota_counts_also_where_the_affinity_is_not_told() {
    let tree = machine(Groups::Unified, &COLUMNS[3]);
    let budget = CpuBudget::detect(tree.root(), None);
    assert_eq!(budget.cpus(), 1.5);
    assert_eq!(
        budget.why(),
        "1.5 CPUs: quota 150000/100000 of the group /a/b; the kernel does not tell the affinity"
    );
}

#[test]
fn names_may_have_spaces_colons_and_backslashes() {
    let tree = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["1:cpu,cpuacct:/a b/c:d\\e"])
        .lines(
            "/proc/self/mountinfo",
            &["3 2 0:9 /a\\040b /my\\040groups\\134 rw shared:1 - cgroup cgroup rw,cpu,cpuacct"],
        )
        .file("/my groups\\/c:d\\e/cpu.cfs_quota_us", "70000")
        .file("/my groups\\/c:d\\e/cpu.cfs_period_us", "50000");
    let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
    assert_eq!(budget.why(), "1.4 CPUs: quota 70000/50000 of the group /a b/c:d\\e");
}

#[test]
fn of_several_mounts_the_one_that_shows_most_is_taken_unless_it_is_covered() {
    let quotas = |tree: Tree, at: &str| {
        tree.file(&format!("{at}/cpu.max"), "100000 100000").file(&format!("{at}/b/cpu.max"), "200000 100000")
    };
    let tree = |tree: Tree| {
        tree.online("0-7")
            .lines("/proc/self/cgroup", &["0::/a/b"])
            .mount("/a/b", "/leaf", "cgroup2", "rw")
            .mount("/other", "/other", "cgroup2", "rw")
            .mount("/", "/all", "cgroup2", "rw")
            .file("/leaf/cpu.max", "200000 100000")
    };
    let seen = quotas(tree(Tree::new()), "/all/a");
    assert_eq!(CpuBudget::detect(seen.root(), Some(&set("0-7"))).cpus(), 1.0);
    // Something else has been mounted at `/all`.
    let covered = tree(Tree::new()).file("/all/readme", "");
    assert_eq!(CpuBudget::detect(covered.root(), Some(&set("0-7"))).cpus(), 2.0);
}

#[test]
fn a_group_that_is_not_below_any_mount_is_a_doubt() {
    let tree = Tree::new()
        .online("0-3")
        .lines("/proc/self/cgroup", &["0::/a"])
        .mount("/b", "/sys/fs/cgroup", "cgroup2", "rw")
        .file("/sys/fs/cgroup/cpu.max", "100000 100000");
    assert_eq!(
        CpuBudget::detect(tree.root(), Some(&set("0-3"))).why(),
        "4 CPUs: all that are online (0-3); the group /a is not below /b, which is what is mounted at /sys/fs/cgroup"
    );
}

#[test]
fn above_a_namespace_what_is_not_found_is_a_doubt() {
    // No group lists this process.
    let tree = machine(Groups::Namespace, &COLUMNS[3]).file("/sys/fs/cgroup/a/b/cgroup.procs", "1\n");
    let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
    assert_eq!(budget.cpus(), 8.0);
    assert_eq!(
        budget.warnings(),
        ["which groups below /sys/fs/cgroup the process is in is not known, and so their quotas are not"]
    );
}

#[test]
fn without_memberships_the_mounted_group_is_taken() {
    for text in [None, Some(""), Some("nonsense\n")] {
        let tree = Tree::new()
            .online("0-7")
            .mount("/docker/abc", "/sys/fs/cgroup", "cgroup2", "ro")
            .file("/sys/fs/cgroup/cpu.max", "150000 100000");
        let tree = match text {
            Some(text) => tree.file("/proc/self/cgroup", text),
            None => tree,
        };
        let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
        assert_eq!(budget.cpus(), 1.5, "{text:?}: {budget}");
        assert_eq!(budget.warnings().len(), 1, "{:?}", budget.warnings());
        assert!(budget.why().contains("of the group /docker/abc; /proc/self/cgroup"), "{budget}");
    }
}

#[test]
fn without_the_list_of_mounts_the_usual_places_are_looked_at() {
    let unified = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["0::/a/b"])
        .file("/sys/fs/cgroup/a/cpu.max", "150000 100000")
        .group("/sys/fs/cgroup");
    let version_1 = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["4:cpu,cpuacct:/docker/abc"])
        .file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000")
        .file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
    for tree in [unified, version_1] {
        let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
        assert_eq!(budget.cpus(), 1.5, "{budget}");
        let doubt = "/proc/self/mountinfo is not there: groups are looked for where they usually are";
        assert_eq!(budget.warnings(), [doubt]);
    }
}

#[test]
fn files_that_are_no_quota_are_doubts_and_the_others_count() {
    for (own, doubt) in [
        ("", "cpu.max of the group /a/b is not what it should be"),
        ("lots", "cpu.max of the group /a/b is not what it should be"),
        ("0 100000", "cpu.max of the group /a/b is not what it should be"),
        ("100000 0", "cpu.max of the group /a/b is not what it should be"),
    ] {
        let tree = machine(Groups::Unified, &COLUMNS[7]).file("/sys/fs/cgroup/a/b/cpu.max", own);
        let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
        assert_eq!((budget.cpus(), budget.warnings()), (2.0, &[doubt.to_string()][..]), "{own:?}");
    }
    let tree = machine(Groups::Alone, &COLUMNS[7]).file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "50000");
    let tree = tree.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "");
    let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
    let doubt = "cpu.cfs_period_us of the group /a/b is not what it should be".to_string();
    assert_eq!((budget.cpus(), budget.warnings()), (2.0, &[doubt][..]));
    // It can be opened and not be read: something else stands there.
    let tree = machine(Groups::Unified, &COLUMNS[7]).group("/sys/fs/cgroup/a/b/cpu.max");
    let budget = CpuBudget::detect(tree.root(), Some(&set("0-7")));
    let doubt = "cpu.max of the group /a/b cannot be read (error 21)".to_string();
    assert_eq!((budget.cpus(), budget.warnings()), (2.0, &[doubt][..]));
}

#[test]
fn files_that_may_not_be_read_are_doubts_and_the_others_count() {
    let tree = machine(Groups::Unified, &COLUMNS[7]).group("/sys/fs/cgroup");
    let tree = tree.file("/sys/fs/cgroup/a/b/cpu.max", "50000 100000");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(tree.root(), open).expect("others may look into it");
    for hidden in ["sys/fs/cgroup/a/b/cpu.max", "proc/self/mountinfo"] {
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(tree.root().join(hidden), closed).expect("nobody may read it");
    }
    let budget = std::thread::scope(|scope| {
        let look = || {
            // SAFETY: only the calling thread loses a right, and it ends here: root may read what
            // no other user may.
            unsafe { libc::syscall(libc::SYS_setfsuid, 65534) };
            CpuBudget::detect(tree.root(), Some(&set("0-7")))
        };
        scope.spawn(look).join().expect("a budget")
    });
    let doubts = [
        "/proc/self/mountinfo may not be read: groups are looked for where they usually are",
        "cpu.max of the group /a/b may not be read",
    ];
    assert_eq!((budget.cpus(), budget.warnings()), (2.0, &doubts.map(String::from)[..]));
}

#[test]
fn with_everything_masked_there_is_still_an_answer() {
    let tree = Tree::new();
    let budget = CpuBudget::detect(tree.root(), None);
    assert_eq!((budget.cpus(), budget.count(Rounding::Floor)), (1.0, 1));
    assert_eq!((budget.source(), budget.limits().len()), (&LimitKind::Unknown, 1));
    assert!(budget.why().starts_with("1 CPU: nothing says how many there are; "), "{budget}");

    let budget = CpuBudget::detect(tree.root(), Some(&set("2-5")));
    assert!(budget.why().starts_with("4 CPUs: affinity 2-5; "), "{budget}");
}

#[test]
fn a_controller_that_another_ones_name_begins_with_is_not_taken_for_it() {
    // A mount of `cpuset` before that of `cpu`, and `cpuacct` before `cpu` in one list.
    let tree = Tree::new()
        .online("0-7")
        .lines("/proc/self/cgroup", &["5:cpuset:/x", "4:cpuacct,cpu:/a"])
        .mount("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset")
        .mount("/", "/sys/fs/cgroup/both", "cgroup", "rw,cpuacct,cpu")
        .file("/sys/fs/cgroup/cpuset/x/cpuset.cpus", "0-7")
        .file("/sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "1000")
        .file("/sys/fs/cgroup/both/a/cpu.cfs_quota_us", "250000")
        .file("/sys/fs/cgroup/both/a/cpu.cfs_period_us", "100000");
    assert_eq!(CpuBudget::detect(tree.root(), Some(&set("0-7"))).cpus(), 2.5);
}

#[test]
fn sets_are_intersected_and_one_of_another_machine_is_left_out() {
    let tree = Tree::new().online("0-3");
    let budget = CpuBudget::detect(tree.root(), Some(&set("2-9")));
    assert_eq!(budget.cpus(), 2.0);
    let budget = CpuBudget::detect(tree.root(), Some(&set("8-9")));
    assert_eq!(budget.cpus(), 4.0);
    assert!(matches!(budget.source(), LimitKind::Online { .. }));
}
