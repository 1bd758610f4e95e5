//! The registry of CPUs, between real processes.
//!
//! A child is this program again. Its environment names the registry's file and its demand. It
//! prints its share for each line of its standard input, and lives until that ends or it is killed.

use manx::pool::registry::{Member, MembershipError, PLACES, Registry, RegistryError};
use std::path::{Path, PathBuf};
use std::time::Instant;
use testing::eventually;
use testing::process::Running;

const FILE: &str = "MANX_TEST_REGISTRY";
const DEMAND: &str = "MANX_TEST_DEMAND";
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cpus");
    (folder, path)
}

/// What a child does; nothing if this is no child.
#[test]
fn child() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let demand: f64 = std::env::var(DEMAND).expect("set by the test").parse().expect("a number");
    let registry = Registry::at(Path::new(&path)).expect("opened");
    let member = registry.join(1, 64.0).expect("joined");
    member.set_demand(demand).expect("a member");
    for line in std::io::stdin().lines() {
        line.expect("a line");
        member.sweep().expect("a member");
        let share = member.share().expect("a member");
        println!("share {} {}", share.cpus(), share.whole());
    }
}

struct Process(Running);

impl Process {
    fn start(path: &Path, demand: f64) -> Process {
        let demand = demand.to_string();
        let variables = [(FILE, path.as_os_str()), (DEMAND, demand.as_ref())];
        let mut process = Process(Running::again("child", &variables));
        // It has joined when it answers.
        process.share();
        process
    }

    fn share(&mut self) -> (f64, u32) {
        let share = self.0.ask("", "share ");
        let (cpus, whole) = share.trim().split_once(' ').expect("two numbers");
        (cpus.parse().expect("a number"), whole.parse().expect("a number"))
    }
}

/// Sweeps until something is taken back.
fn swept(member: &Member) -> usize {
    eventually("a place of a dead process", || {
        Some(member.sweep().expect("a member")).filter(|&count| count > 0)
    })
}

#[test]
fn four_processes_divide_the_cpus_and_three_after_one_is_killed() {
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    registry.set_cpus(4.0);
    let mut processes: Vec<Process> =
        [8.0, 8.0, 8.0, 0.5].map(|demand| Process::start(&path, demand)).into_iter().collect();
    let shares: Vec<_> = processes.iter_mut().map(Process::share).collect();
    let equal = 3.5 / 3.0;
    assert!(
        shares
            .iter()
            .zip([equal, equal, equal, 0.5])
            .all(|((cpus, _), expected)| (cpus - expected).abs() < 1e-9)
    );
    assert_eq!(shares.iter().map(|(_, whole)| whole).sum::<u32>(), 4, "{shares:?}");

    let mut killed = processes.remove(0);
    killed.0.child.kill().expect("killed");
    killed.0.child.wait().expect("gone");
    let observer = registry.join(1, 4.0).expect("there is room");
    assert_eq!(swept(&observer), 1);
    let shares: Vec<_> = processes.iter_mut().map(Process::share).collect();
    assert_eq!(shares.iter().map(|(cpus, _)| *cpus).collect::<Vec<_>>(), [1.75, 1.75, 0.5]);
    assert_eq!(shares.iter().map(|(_, whole)| whole).sum::<u32>(), 4, "{shares:?}");
    // The place is free, once.
    drop(observer);
    let entries = registry.entries();
    assert_eq!(entries.len(), 3);
    assert!(
        entries.iter().all(|entry| processes.iter().any(|process| process.0.child.id() == entry.process))
    );
}

#[test]
fn the_share_of_a_member_that_leaves_goes_to_the_others() {
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    registry.set_cpus(3.0);
    let (one, other) = (registry.join(2, 8.0).expect("room"), registry.join(1, 8.0).expect("room"));
    assert_eq!(one.share().expect("a member").cpus(), 0.0, "it wants nothing yet");
    one.set_demand(8.0).expect("a member");
    other.set_demand(8.0).expect("a member");
    assert_eq!((one.share().unwrap().cpus(), other.share().unwrap().cpus()), (2.0, 1.0));
    one.set_cap(0.5).expect("a member");
    assert_eq!((one.share().unwrap().cpus(), other.share().unwrap().cpus()), (0.5, 2.5));
    drop(one);
    assert_eq!(other.share().unwrap().cpus(), 3.0);
    assert_eq!(registry.entries().len(), 1);
}

#[test]
fn a_full_registry_returns_an_error_until_a_member_leaves() {
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    let mut members: Vec<_> = (0..PLACES).map(|_| registry.join(1, 1.0).expect("room")).collect();
    let full = registry.join(1, 1.0).map(drop).expect_err("no room");
    assert_eq!(full, RegistryError::Full { path: path.clone() });
    assert!(full.to_string().ends_with("cpus has no place left: 256 members are in it"));
    registry.set_cpus(2.0);
    for member in &members {
        member.set_demand(1.0).expect("a member");
    }
    let whole: u32 = members.iter().map(|member| member.share().expect("a member").whole()).sum();
    assert_eq!(whole, 2);
    drop(members.swap_remove(100));
    registry.join(1, 1.0).expect("the place that was left");
}

#[test]
fn a_forked_child_is_no_member_and_does_not_end_its_parents_membership() {
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    registry.set_cpus(2.0);
    let member = registry.join(1, 2.0).expect("room");
    member.set_demand(2.0).expect("a member");
    // SAFETY: the child allocates, which the C library allows after a fork, and ends without
    // running anything of the harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let forked = Err(MembershipError::Forked);
        let refused = member.share().map(drop) == forked && member.set_demand(1.0) == forked;
        drop(member);
        let own = std::mem::ManuallyDrop::new(registry.join(1, 2.0));
        let share = own.as_ref().ok().and_then(|own| own.set_demand(2.0).and_then(|()| own.share()).ok());
        let shared = share.is_some_and(|share| share.cpus() == 1.0);
        // SAFETY: ends the process.
        unsafe { libc::_exit(if refused && shared { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: waits for the child of a moment ago.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    member.set_demand(1.5).expect("still a member");
    assert_eq!(swept(&member), 1, "the child ended without leaving");
    assert_eq!(member.share().expect("a member").cpus(), 1.5);
}

#[test]
fn a_file_that_is_no_registry_is_refused_and_not_changed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (folder, path) = folder();
    let why = |path: &Path| match Registry::at(path).expect_err("refused") {
        RegistryError::Foreign { why, .. } => why,
        other => panic!("{other:?}"),
    };
    let refused = |bytes: &[u8], said: &str| {
        std::fs::write(&path, bytes).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("own");
        assert_eq!(why(&path), said);
        assert_eq!(std::fs::read(&path).expect("still there"), bytes);
    };
    refused(b"my shopping list", "its length is not a registry's");
    let mut foreign = vec![b'x'; 5184];
    refused(&foreign, "it begins as no registry of this version does");
    foreign[..8].copy_from_slice(b"manxcpu\x02");
    refused(&foreign, "it begins as no registry of this version does");

    std::fs::remove_file(&path).expect("removed");
    drop(Registry::at(&path).expect("made"));
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    std::fs::hard_link(&path, folder.path().join("again")).expect("linked");
    assert_eq!(why(&path), "it has a second name");
    std::fs::remove_file(folder.path().join("again")).expect("removed");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("changed");
    assert_eq!(why(&path), "others may read or write it");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("changed");
    Registry::at(&path).expect("a registry again");

    let link = folder.path().join("link");
    symlink(&path, &link).expect("linked");
    let error = Registry::at(&link).expect_err("a link");
    assert_eq!(error, RegistryError::Io { path: link, number: libc::ELOOP });
    assert_eq!(why(Path::new("/dev/null")), "it is no ordinary file");
    assert!(matches!(
        Registry::at(Path::new("/nowhere/cpus")),
        Err(RegistryError::Io { number: libc::ENOENT, .. })
    ));
}

#[test]
fn random_bytes_in_the_file_only_change_the_division() {
    use std::os::unix::fs::FileExt;
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    let member = registry.join(1, 2.0).expect("room");
    member.set_demand(2.0).expect("a member");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    for byte in [0xff, 0x55, 0x80, 0x01] {
        file.write_all_at(&vec![byte; 5184 - 8], 8).expect("written");
        // Whatever they answer, they do.
        let _ = (registry.cpus(), registry.entries(), member.share(), member.sweep(), member.set_demand(1.0));
    }
    file.write_all_at(&[0; 5184 - 8], 8).expect("written");
    registry.set_cpus(2.0);
    assert_eq!(member.share(), Err(MembershipError::Evicted));
    drop(member);
    let again = registry.join(1, 2.0).expect("room");
    again.set_demand(2.0).expect("a member");
    assert_eq!(again.share().expect("a member").cpus(), 2.0);
}

#[test]
fn a_removed_file_is_detected() {
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    let member = registry.join(1, 2.0).expect("room");
    std::fs::remove_file(&path).expect("removed");
    let anew = Registry::at(&path).expect("made anew");
    assert_eq!(registry.join(1, 1.0).map(drop), Err(RegistryError::Replaced { path }));
    assert_eq!(member.sweep(), Err(MembershipError::Removed));
    anew.join(1, 1.0).expect("room");
}

#[test]
fn a_stopped_member_has_no_demand_until_it_continues() {
    use std::os::unix::fs::FileExt;
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    registry.set_cpus(2.0);
    let member = registry.join(1, 2.0).expect("room");
    member.set_demand(2.0).expect("a member");
    let mut stopped = Process::start(&path, 2.0);
    assert_eq!(member.share().expect("a member").cpus(), 1.0);
    // It has been silent for long: since 1970. (A test does not wait for so long.)
    let place =
        registry.entries().iter().find(|entry| entry.process == stopped.0.child.id()).expect("there").place;
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.write_all_at(&1u64.to_ne_bytes(), 2112 + 8 * place as u64).expect("written");
    assert!(registry.entries()[place].silent);
    assert_eq!(member.share().expect("a member").cpus(), 2.0);
    assert_eq!(stopped.share().0, 1.0, "it asked, so it is there");
    assert_eq!(member.share().expect("a member").cpus(), 1.0);
}

/// A look at the share is to be cheap: this prints how cheap, and only looks that it works for
/// eight.
#[test]
fn eight_members_read_their_shares() {
    let (_folder, path) = folder();
    let registry = Registry::at(&path).expect("made");
    registry.set_cpus(2.0);
    let members: Vec<_> = (0..8).map(|_| registry.join(1, 2.0).expect("room")).collect();
    for member in &members {
        member.set_demand(2.0).expect("a member");
    }
    let began = Instant::now();
    for _ in 0..10_000 {
        assert_eq!(std::hint::black_box(&members[3]).share().expect("a member").cpus(), 0.25);
    }
    println!("{:?} a look", began.elapsed() / 10_000);
}
