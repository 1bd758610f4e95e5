//! Counters over the lives of processes: they never fall, nothing is counted twice, and a flood
//! takes no more memory than its bounds.

mod support;

use exporter::counts::CountedFile;
use exporter::metric::Histogram;
use exporter::registry::{Counter, IDLE_S, Limits, NAME_BYTES, OTHER, Registry, Slot, Totals};
use host::image::Image;
use host::live_file::LiveFile;
use preload_abi::live::FILE_BYTES;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use support::Fake;

const SMALL: Limits = Limits { programs: 4, locks: 2 };

fn open(path: &Path) -> Option<CountedFile> {
    Some(CountedFile::new(LiveFile::open(path.to_owned())?.file))
}

/// All lock waits of an entry.
fn waits(registry: &Registry, slot: Slot) -> u64 {
    registry.program(slot).locks().map(|(_, histogram)| histogram.counts.count()).sum()
}

#[test]
fn what_a_file_counts_is_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = Fake::new(folder.path(), "1.live", 1);
    let (mut image, mut registry) = (Image::default(), Registry::new(SMALL));
    let slot = registry.enter("server", true, 0);
    let mut file = open(&fake.path).expect("a live file");
    fake.site(0, 7, 500);
    fake.lock(3, "put+0x1", 4, 1_000_000);
    fake.lock(900, "get+0x2", 1, 3_000_000);
    for _ in 0..3 {
        file.read(&mut image, &mut registry, slot, false).expect("counts");
    }
    let totals = &registry.program(slot).totals;
    assert_eq!((totals.get(Counter::LoopWaits), totals.get(Counter::LoopWaited)), (7, 500));
    assert_eq!(file.sites.iter().sum::<u64>(), 1);
    let locks: HashMap<&str, (u64, u64)> = registry
        .program(slot)
        .locks()
        .map(|(name, histogram)| (name, (histogram.counts.count(), histogram.sum_ns)))
        .collect();
    assert_eq!(
        locks,
        HashMap::from([("libengine.so:put+0x1", (4, 4_000_000)), ("libengine.so:get+0x2", (1, 3_000_000))])
    );
    // Locks of one place are one series.
    fake.lock(4, "put+0x1", 2, 1_000_000);
    file.read(&mut image, &mut registry, slot, false).expect("counts");
    assert_eq!((waits(&registry, slot), registry.program(slot).locks().count()), (7, 2));
}

#[test]
fn another_program_in_the_same_file_counts_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = Fake::new(folder.path(), "1.live", 1);
    let (mut image, mut registry) = (Image::default(), Registry::new(SMALL));
    let slot = registry.enter("server", true, 0);
    let mut file = open(&fake.path).expect("a live file");
    fake.lock(3, "put", 10, 1_000_000);
    file.read(&mut image, &mut registry, slot, false).expect("counts");
    fake.restart(2);
    fake.lock(3, "get", 4, 1_000_000);
    file.read(&mut image, &mut registry, slot, false).expect("counts");
    assert_eq!((waits(&registry, slot), registry.program(slot).locks().count()), (14, 2));
}

#[test]
fn what_is_no_live_file_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut image, mut registry) = (Image::default(), Registry::new(SMALL));
    let slot = registry.enter("server", true, 0);
    for (name, bytes) in [("short", 100), ("zeroes", FILE_BYTES)] {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![0; bytes]).expect("written");
        let read = open(&path).and_then(|mut it| it.read(&mut image, &mut registry, slot, false));
        assert_eq!(read, None, "{name}");
    }
    assert!(open(folder.path()).is_none());
    let link = folder.path().join("link");
    let fake = Fake::new(folder.path(), "1.live", 1);
    std::os::unix::fs::symlink(&fake.path, &link).expect("a link");
    assert!(open(&link).is_none(), "a link is not followed");
    // A file that is cut short while it is read is no reason to die.
    let mut file = open(&fake.path).expect("a live file");
    std::fs::File::options().write(true).open(&fake.path).unwrap().set_len(5000).expect("cut");
    fake.put(0, &[]);
    fake.site(3, 1, 1);
    assert_eq!(file.read(&mut image, &mut registry, slot, false), None);
    assert_eq!(registry.program(slot).totals, Totals::default());
}

/// What may happen in a test of random lives.
#[derive(Clone, Debug)]
enum Event {
    Begin(u8),
    End(u8),
    Count(u8, u64),
    Wait(u8, u8, u8),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<u8>().prop_map(Event::Begin),
        any::<u8>().prop_map(Event::End),
        (any::<u8>(), 0..1000_u64).prop_map(|(of, more)| Event::Count(of, more)),
        (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(of, lock, bucket)| Event::Wait(of, lock, bucket)),
        (0..2 * IDLE_S).prop_map(Event::Pass),
    ]
}

proptest! {
    #[test]
    fn counters_never_fall_and_bounds_hold(events in proptest::collection::vec(event(), 0..400)) {
        let mut registry = Registry::new(SMALL);
        let mut processes: Vec<Slot> = Vec::new();
        let (mut now_s, mut counted, mut waited) = (0, 0_u64, 0_u64);
        let mut before: HashMap<String, (u64, u64, u64)> = HashMap::new();
        let mut ended: HashMap<String, (u64, u64)> = HashMap::new();
        for event in events {
            match event {
                Event::Begin(name) => {
                    processes.push(registry.enter(&format!("program-{}", name % 16), name > 127, now_s));
                }
                Event::End(at) if !processes.is_empty() => {
                    let slot = processes.swap_remove(usize::from(at) % processes.len());
                    registry.leave(slot, now_s);
                }
                Event::Count(of, more) if !processes.is_empty() => {
                    let mut totals = Totals::default();
                    totals.add(Counter::Cpu, more);
                    registry.add(processes[usize::from(of) % processes.len()], &totals);
                    counted += more;
                }
                Event::Wait(of, lock, bucket) if !processes.is_empty() => {
                    let slot = processes[usize::from(of) % processes.len()];
                    let lock = registry.lock(slot, &format!("lock-{}", lock % 8));
                    let mut histogram = Histogram { sum_ns: 1, ..Histogram::default() };
                    histogram.counts.0[usize::from(bucket) % 210] = 1;
                    registry.add_waits(slot, lock, &histogram);
                    waited += 1;
                }
                Event::Pass(seconds) => now_s += seconds,
                _ => {}
            }
            let mut now = HashMap::new();
            for (slot, program) in registry.programs() {
                let locks = program.locks().map(|(_, histogram)| histogram.counts.count()).sum::<u64>();
                let sums = program.locks().map(|(_, histogram)| histogram.sum_ns).sum::<u64>();
                prop_assert!(program.locks().count() <= SMALL.locks + 1);
                now.insert(program.name.clone(), (program.totals.get(Counter::Cpu), locks, sums));
                prop_assert_eq!(registry.program(slot).name.as_str(), program.name.as_str());
            }
            prop_assert!(now.len() <= SMALL.programs + 1);
            for (name, old) in &before {
                match now.get(name) {
                    Some(new) => prop_assert!(new.0 >= old.0 && new.1 >= old.1 && new.2 >= old.2, "{}", name),
                    // The series has ended: it did not go on from less.
                    None => {
                        let all = ended.entry(name.clone()).or_default();
                        *all = (all.0 + old.0, all.1 + old.1);
                    }
                }
            }
            before = now;
        }
        // Nothing is lost, but for programs whose series have ended.
        let of_ended = ended.values().fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
        let cpu = before.values().map(|it| it.0).sum::<u64>() + of_ended.0;
        prop_assert_eq!(cpu, counted);
        prop_assert_eq!(before.values().map(|it| it.1).sum::<u64>() + of_ended.1, waited);
    }
}

#[test]
fn a_flood_of_names_takes_no_more_than_its_bounds() {
    let limits = Limits::default();
    let mut registry = Registry::new(limits);
    let long = "n".repeat(10_000);
    for at in 0..50_000_u32 {
        let slot = registry.enter(&format!("{at}-{long}"), at % 2 == 0, 0);
        let lock = registry.lock(slot, &format!("{at}-{long}"));
        registry.add_waits(slot, lock, &Histogram::default());
        let mut totals = Totals::default();
        totals.add(Counter::Cpu, 1);
        registry.add(slot, &totals);
        registry.leave(slot, 0);
    }
    let programs: Vec<_> = registry.programs().map(|(_, program)| program).collect();
    assert_eq!(programs.len(), limits.programs + 1);
    assert!(programs.iter().all(|it| it.name.len() <= NAME_BYTES && it.locks().count() <= limits.locks + 1));
    let all: u64 = programs.iter().map(|program| program.totals.get(Counter::Cpu)).sum();
    assert_eq!(all, 50_000, "the rest counts as `{OTHER}`");
    assert!(registry.merged() > 40_000);
}

#[test]
fn programs_without_manx_do_not_crowd_out_those_with_it() {
    let mut registry = Registry::new(SMALL);
    for name in ["a", "b", "c", "d", "e"] {
        registry.enter(name, false, 0);
    }
    assert_eq!(registry.programs().count(), 1 + SMALL.programs / 2);
    let server = registry.enter("server", true, 0);
    assert_eq!(registry.program(server).name, "server");
}

#[test]
fn an_entry_without_a_process_is_given_away_when_it_is_old() {
    let mut registry = Registry::new(Limits { programs: 2, locks: 1 });
    let (one, _) = (registry.enter("one", true, 0), registry.enter("two", true, 0));
    registry.leave(one, 10);
    let early = registry.enter("three", true, 10 + IDLE_S - 1);
    assert_eq!(registry.program(early).name, OTHER);
    registry.leave(early, 10 + IDLE_S);
    let late = registry.enter("three", true, 10 + IDLE_S);
    assert_eq!((registry.program(late).name.as_str(), late), ("three", one));
    assert!(registry.programs().all(|(_, program)| program.name != "one"));
}
