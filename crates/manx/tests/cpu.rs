//! What is found out about machines, made up as folders that look like `/sys`; and where a thread
//! runs on this one.

use manx::cpu::{Class, Classes, CpuSet, Source, Step, class, class_of_this_cpu, set_class_of_this_thread};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder that looks like `/sys`.
struct Machine(TempDir);

impl Machine {
    /// One with these CPUs, all of them online.
    fn new(cpus: &str) -> Machine {
        let machine = Machine(tempfile::tempdir().expect("a folder"));
        machine.cpu("online", cpus).cpu("present", cpus).cpu("possible", cpus)
    }

    fn file(self, path: &str, text: impl AsRef<[u8]>) -> Machine {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
        self
    }

    /// A file below the folder of CPUs, with the kernel's line end.
    fn cpu(self, path: &str, text: impl std::fmt::Display) -> Machine {
        self.file(&format!("devices/system/cpu/{path}"), format!("{text}\n"))
    }

    /// The same file for each of these CPUs, with a number.
    fn each(self, name: &str, numbers: &[(usize, u64)]) -> Machine {
        numbers.iter().fold(self, |machine, (cpu, number)| machine.cpu(&format!("cpu{cpu}/{name}"), number))
    }

    fn lists(self, core: &str, atom: &str) -> Machine {
        self.file("devices/cpu_core/cpus", format!("{core}\n"))
            .file("devices/cpu_atom/cpus", format!("{atom}\n"))
    }

    fn classes(&self) -> (String, Source) {
        let classes = Classes::detect(self.0.path());
        (classes.to_string(), classes.source())
    }
}

const CAPACITY: &str = "cpu_capacity";
const FREQUENCY: &str = "cpufreq/cpuinfo_max_freq";
const PERFORMANCE: &str = "acpi_cppc/highest_perf";

fn found(text: &str, source: Source) -> (String, Source) {
    (text.into(), source)
}

const fn step(big_min: u64, little_max: u64) -> Step {
    Step { big_min, little_max }
}

#[test]
fn capacities_tell_first() {
    let machine = Machine::new("0-7")
        .each(CAPACITY, &[(0, 446), (1, 446), (2, 446), (3, 446), (4, 1024), (5, 1024), (6, 1024), (7, 1024)])
        // What contradicts them is not asked for.
        .lists("0-3", "4-7")
        .each(FREQUENCY, &[(0, 3_000_000), (7, 1_000_000)]);
    assert_eq!(machine.classes(), found("big:4-7,little:0-3", Source::Capacity(step(1024, 446))));
    let why = Classes::detect(machine.0.path()).why();
    assert_eq!(why, "by cpu_capacity: the slowest big core has 1024, the fastest little one 446");
}

#[test]
fn of_three_capacities_the_two_highest_are_big() {
    let machine = Machine::new("0-3").each(CAPACITY, &[(0, 325), (1, 325), (2, 780), (3, 1024)]);
    assert_eq!(machine.classes(), found("big:2-3,little:0-1", Source::Capacity(step(780, 325))));
}

#[test]
fn a_hybrids_lists_tell_next() {
    let frequencies = [(0, 5_200_000), (1, 5_200_000), (2, 3_900_000), (3, 3_900_000)];
    let machine = Machine::new("0-3").lists("0-1", "2-3").each(FREQUENCY, &frequencies);
    assert_eq!(machine.classes(), found("big:0-1,little:2-3", Source::Lists));
    // Capacities that are flat know nothing.
    let flat = [(0, 1024), (1, 1024), (2, 1024), (3, 1024)];
    assert_eq!(machine.each(CAPACITY, &flat).classes(), found("big:0-1,little:2-3", Source::Lists));
}

#[test]
fn cores_of_low_power_are_little() {
    let machine = Machine::new("0-5").lists("0-1", "2-3").file("devices/cpu_lowpower/cpus", "4-5\n");
    assert_eq!(machine.classes(), found("big:0-1,little:2-5", Source::Lists));
}

#[test]
fn lists_that_tell_no_difference_are_passed_over() {
    for (core, atom) in [("0-3", ""), ("", "0-3"), ("0-3", "2-3"), ("zero", "2-3"), ("0-1", "8-9")] {
        let machine = Machine::new("0-3").lists(core, atom);
        assert_eq!(machine.classes(), found("big:0-3", Source::Alike), "{core} {atom}");
    }
}

#[test]
fn frequencies_tell_if_they_differ_by_more_than_bins_do() {
    let bins = [(0, 5_300_000), (1, 5_000_000), (2, 5_200_000), (3, 4_800_000)];
    assert_eq!(Machine::new("0-3").each(FREQUENCY, &bins).classes(), found("big:0-3", Source::Alike));
    let hybrid = [(0, 5_700_000), (1, 5_500_000), (2, 4_600_000), (3, 4_600_000)];
    assert_eq!(
        Machine::new("0-3").each(FREQUENCY, &hybrid).classes(),
        found("big:0-1,little:2-3", Source::Frequency(step(5_500_000, 4_600_000)))
    );
}

#[test]
fn performance_levels_tell_last_and_may_be_flat() {
    let flat = [(0, 255), (1, 255), (2, 255), (3, 255)];
    assert_eq!(Machine::new("0-3").each(PERFORMANCE, &flat).classes(), found("big:0-3", Source::Alike));
    let ranking = [(0, 231), (1, 211), (2, 191), (3, 171)];
    assert_eq!(Machine::new("0-3").each(PERFORMANCE, &ranking).classes(), found("big:0-3", Source::Alike));
    let hybrid = [(0, 68), (1, 68), (2, 41), (3, 41)];
    assert_eq!(
        Machine::new("0-3").each(PERFORMANCE, &hybrid).classes(),
        found("big:0-1,little:2-3", Source::Performance(step(68, 41)))
    );
}

#[test]
fn a_machine_that_tells_nothing_is_big() {
    assert_eq!(Machine::new("0-1").classes(), found("big:0-1", Source::Alike));
    assert_eq!(Classes::detect(Path::new("/nowhere/at/all")).big(), &CpuSet::EMPTY);
    assert_eq!(Classes::detect(Path::new("/nowhere/at/all")).of(3), Class::Big);
    let why = Classes::detect(Machine::new("0-1").0.path()).why();
    assert_eq!(why, "the machine tells no difference");
}

#[test]
fn cpus_that_are_offline_are_left_out_and_numbers_may_be_sparse() {
    let machine = Machine::new("0,2,40-41,900")
        .cpu("online", "0,40-41,900")
        .each(CAPACITY, &[(0, 1024), (2, 446), (40, 446), (41, 446), (900, 1024)]);
    assert_eq!(machine.classes(), found("big:0,900,little:40-41", Source::Capacity(step(1024, 446))));
}

#[test]
fn a_list_that_is_missing_or_no_list_is_replaced_by_the_next() {
    for online in ["", "all", "3-0", "99999"] {
        let machine = Machine::new("0-2").cpu("online", online).each(CAPACITY, &[(0, 1024), (2, 446)]);
        assert_eq!(
            machine.classes(),
            found("big:0-1,little:2", Source::Capacity(step(1024, 446))),
            "{online}"
        );
    }
}

#[test]
fn files_that_are_not_what_they_should_be_say_nothing() {
    for bad in ["", "fast", "-5", "0", "1024 1024", "99999999999999999999999", "1024\0"] {
        let machine = Machine::new("0-1").cpu("cpu0/cpu_capacity", 1024).cpu("cpu1/cpu_capacity", bad);
        assert_eq!(machine.classes(), found("big:0-1", Source::Alike), "{bad:?}");
        // The next source is asked.
        let machine = machine.each(FREQUENCY, &[(0, 3_000_000), (1, 1_000_000)]);
        assert_eq!(machine.classes().0, "big:0,little:1", "{bad:?}");
    }
    let machine = Machine::new("0-1").cpu("cpu0/cpu_capacity", 1024);
    let long = machine.file("devices/system/cpu/cpu1/cpu_capacity", " ".repeat(100) + "446");
    assert_eq!(long.classes().0, "big:0-1");
    let bytes = long.file("devices/system/cpu/cpu1/cpu_capacity", [0xff, 0xfe]);
    assert_eq!(bytes.classes().0, "big:0-1");
    let folder = Machine::new("0-1").file("devices/system/cpu/cpu0/cpu_capacity/folder", "");
    assert_eq!(folder.classes().0, "big:0-1");
}

#[test]
fn this_machine_lists_the_cpus_that_this_thread_may_use() {
    let classes = Classes::of_this_machine();
    let listed = classes.big().union(classes.little());
    assert!(listed.contains(platform::cpu::current()), "{classes}");
    assert!(classes.big().intersection(classes.little()).is_empty());
    assert!(!classes.big().is_empty(), "the fastest there are are big");
}

/// On a machine of any kind: what is measured names each CPU once, and the thread stays where it
/// may be.
#[test]
fn to_measure_leaves_the_thread_where_it_was_and_judges_every_cpu() {
    std::thread::spawn(|| {
        let before = platform::cpu::allowed();
        let measured = Classes::measure();
        assert_eq!(platform::cpu::allowed(), before);
        let (big, little) = (measured.big(), measured.little());
        assert!(big.intersection(little).is_empty() && !big.is_empty(), "{measured}");
        let unnamed = CpuSet::of_this_thread().difference(&big.union(little));
        assert!(unnamed.is_empty(), "{unnamed} of {measured}");
        // Passed on as text, it means the same.
        assert_eq!(Classes::parse_or_measure(&measured.to_string()).unwrap().little(), little);

        // A thread that may run on one CPU only measures nothing to compare it with.
        platform::cpu::restrict(1);
        let before = platform::cpu::allowed();
        let alone = Classes::measure();
        assert_eq!((alone.source(), platform::cpu::allowed()), (Source::Alike, before));
        assert!(alone.big().contains(platform::cpu::current()));
    })
    .join()
    .expect("measured");
}

#[test]
fn a_threads_own_word_comes_first_and_is_its_own() {
    set_class_of_this_thread(Some(Class::Little));
    assert_eq!(class(), Class::Little);
    std::thread::spawn(|| {
        platform::cpu::restrict(1);
        assert_eq!(class(), class_of_this_cpu());
        for said in [Class::Big, Class::Little] {
            set_class_of_this_thread(Some(said));
            assert_eq!(class(), said);
        }
    })
    .join()
    .expect("as it said");
    assert_eq!(class(), Class::Little);
}
