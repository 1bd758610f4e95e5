//! `cargo xtask guest`: the CPU budget on a kernel that has cgroup v2 alone, in an emulated machine
//! with 8 CPUs.
//!
//! Machines that run tests often have cgroup v1, or few CPUs, or groups that nobody may make. So
//! this boots Debian's kernel for virtual machines under qemu, without KVM, with a first file
//! system of busybox and one probe: the example `budget` of the package `manx`. What the first
//! process does is in `crates/manx/tests/cpu_budget/guest.sh`: each case puts a process into groups
//! and runs the probe. This file boots, reads what came back, and compares.
//!
//! With `--tests` the guest runs other programs instead: the tests of pacing under a quota
//! (`crates/cli/tests/quota.rs`), with the built command and libraries. There the first process is
//! `crates/cli/tests/quota/guest.sh`.
//!
//! It is no part of CI: an emulated machine takes a minute or two, and an emulator hundreds of
//! megabytes. But what it printed once is kept (`--record`), files of the kernel's groups included,
//! and a test of `manx` finds the same budgets in them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outcome::Result;
use crate::process::{capture, run as run_command};
use crate::setup::find;
use crate::workspace::{MANX, Workspace, cargo, release_cargo, root};

const INIT: &str = "crates/manx/tests/cpu_budget/guest.sh";
const RECORD: &str = "crates/manx/tests/cpu_budget/guest.txt";
const TESTS_INIT: &str = "crates/cli/tests/quota/guest.sh";
const EMULATOR: &str = "qemu-system-x86_64";
/// The package that always depends on the newest kernel for virtual machines.
const KERNELS: &str = "linux-image-cloud-amd64";
const CPUS: u32 = 8;
/// The names by which the first process calls busybox.
const APPLETS: [&str; 21] = [
    "sh", "mount", "umount", "mkdir", "echo", "sed", "find", "sort", "grep", "taskset", "uname", "stty",
    "sync", "seq", "sleep", "wc", "tr", "poweroff", "cat", "chmod", "ln",
];
/// Packs the folder in which it runs, as the kernel unpacks it. The first word is busybox, which
/// has `cpio` where the machine has none.
const PACK: &str = r#""$0" find . | "$0" cpio -o -H newc > ../initramfs"#;
/// For building the probe, and for the guest.
const BUILD: Duration = Duration::from_secs(20 * 60);
const FETCH: Duration = Duration::from_secs(5 * 60);

/// Which kernel, and what to do with the output.
#[derive(clap::Args)]
pub struct Options {
    /// The kernel to boot; without it Debian's for virtual machines, which is downloaded by apt-get
    /// and not installed
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// The probe to run there; without it the example `budget` of manx, which is built
    #[arg(long, value_name = "FILE")]
    probe: Option<PathBuf>,
    /// Keep the guest's output for the test that reads it
    #[arg(long)]
    record: bool,
    /// Run the tests of pacing under a quota there, instead of the probe
    #[arg(long, conflicts_with_all = ["probe", "record"])]
    tests: bool,
    /// How long the guest may run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 540)]
    limit: u64,
}

/// Boots the guest, shows a table, and says how many budgets were right.
///
/// # Errors
/// Something that is needed is not there, the guest did not come to its end, or a budget was wrong.
pub fn run(options: &Options) -> Result {
    let emulator = needed(EMULATOR)?;
    let busybox = needed("busybox")?;
    let workspace = Workspace::load()?;
    let folder = workspace.target.join("guest");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let kernel = match &options.kernel {
        Some(kernel) => kernel.clone(),
        None => downloaded(&folder)?,
    };
    let limit = Duration::from_secs(options.limit);
    if options.tests {
        let first = file_system(&tests(&workspace, busybox)?, TESTS_INIT, &folder)?;
        let text = boot(&emulator, &kernel, &first, &folder, limit)?;
        print!("{text}");
        let is_passed = text.lines().any(|line| line == "passed");
        return if is_passed { Ok(()) } else { Err("tests in the guest did not pass".into()) };
    }
    let probe = match &options.probe {
        Some(probe) => probe.clone(),
        None => built(&workspace)?,
    };
    let programs = [("budget", probe), ("busybox", busybox), ("unshare", needed("unshare")?)];
    let programs = programs.map(|(name, path)| (Path::new("bin").join(name), path));
    let first = file_system(&programs, INIT, &folder)?;
    let text = boot(&emulator, &kernel, &first, &folder, limit)?;
    let cases = cases(&text);
    let wrong = cases.iter().filter(|case| !case.is_right()).count();
    print!("{}", table(&cases));
    println!("guest: {} right, {wrong} wrong", cases.len() - wrong);
    if !text.lines().any(|line| line == "end") {
        return Err(format!(
            "the guest did not come to its end; what its kernel said is in {}",
            folder.display()
        ));
    }
    if options.record {
        fs::write(root().join(RECORD), &text).map_err(|error| format!("{RECORD}: {error}"))?;
        println!("recorded in {RECORD}");
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} budgets in the guest were wrong")) }
}

/// The probe, built now.
fn built(workspace: &Workspace) -> Result<PathBuf> {
    run_command(release_cargo("build").args(["-p", "manx", "--example", "budget"]), BUILD)?;
    Ok(workspace.release().join("examples/budget"))
}

/// The tests of pacing and what they need, all built now, and where in the guest each file is: the
/// command where it is here, because the tests know its path.
fn tests(workspace: &Workspace, busybox: PathBuf) -> Result<Vec<(PathBuf, PathBuf)>> {
    let libraries = ["-p", "preload", "-p", "preload-requests"];
    run_command(release_cargo("build").args(libraries), BUILD)?;
    let mut command = cargo();
    command.args(["test", "-p", "cli", "--test", "quota", "--no-run", "--message-format=json"]);
    let said = capture(&mut command)?;
    let built = |name: &str| {
        let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut its = messages.filter(|message| message["target"]["name"] == name);
        let file = its.find_map(|message| message["executable"].as_str().map(PathBuf::from));
        file.ok_or_else(|| format!("cargo has built no `{name}`"))
    };
    let bin = |name: &str| Path::new("bin").join(name);
    let mut files = vec![(bin("quota"), built("quota")?), (bin("busybox"), busybox)];
    // The library is in no program that is linked statically: the guest has these of the machine.
    for name in ["sh", "cat", "env", "taskset"] {
        files.push((bin(name), needed(name)?));
    }
    let manx = built(MANX)?;
    files.push((manx.clone(), manx));
    let of_manx = |path: PathBuf| (Path::new("lib/manx").join(path.file_name().unwrap_or_default()), path);
    files.extend(workspace.libraries().map(of_manx));
    Ok(files)
}

/// A program that the guest needs.
fn needed(name: &str) -> Result<PathBuf> {
    find(name).ok_or_else(|| {
        format!(
            "there is no `{name}` here: apt-get install qemu-system-x86 busybox-static util-linux \
             (with --no-install-recommends: a few hundred megabytes)"
        )
    })
}

/// Debian's kernel, from an earlier time or now.
fn downloaded(folder: &Path) -> Result<PathBuf> {
    let kernel = |folder: &Path| {
        let entries = fs::read_dir(folder.join("kernel/boot")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("/vmlinuz-"))
    };
    if let Some(kernel) = kernel(folder) {
        return Ok(kernel);
    }
    let by_hand =
        |why: String| format!("{why}\nname a kernel with cgroup v2 by --kernel, such as one of {KERNELS}");
    let depends = capture(Command::new("apt-cache").args(["depends", KERNELS])).map_err(by_hand)?;
    let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let package = names.map(str::trim).find(|name| name.starts_with("linux-image-"));
    let package = package.ok_or_else(|| by_hand(format!("apt-cache knows no kernel by {KERNELS}")))?;
    run_command(Command::new("apt-get").current_dir(folder).args(["download", package]), FETCH)
        .map_err(by_hand)?;
    let archives = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten();
    let archive = archives.map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(package))
            && path.extension().is_some_and(|it| it == "deb")
    });
    let archive = archive.ok_or_else(|| by_hand(format!("apt-get has downloaded no {package}")))?;
    run_command(Command::new("dpkg").arg("-x").arg(&archive).arg(folder.join("kernel")), FETCH)
        .map_err(by_hand)?;
    kernel(folder).ok_or_else(|| by_hand(format!("{} has no kernel", archive.display())))
}

/// The guest's first file system, packed: these programs with the libraries that they need,
/// busybox' names where there is no program of the name, and the first process.
fn file_system(programs: &[(PathBuf, PathBuf)], init: &str, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("root");
    // There is none the first time.
    let _ = fs::remove_dir_all(&tree);
    let failed = |error| format!("{}: {error}", tree.display());
    for folder in ["proc", "sys", "dev", "tmp", "mnt", "bin"] {
        fs::create_dir_all(tree.join(folder)).map_err(failed)?;
    }
    let add = |name: &Path, from: &Path| {
        let to = tree.join(name.strip_prefix("/").unwrap_or(name));
        let copied = fs::create_dir_all(to.parent().unwrap_or(&tree)).and_then(|()| fs::copy(from, &to));
        copied
            .and_then(|_| fs::set_permissions(&to, Permissions::from_mode(0o755)))
            .map_err(|error| format!("{}: {error}", from.display()))
    };
    for (name, path) in programs {
        add(name, path)?;
        // A static program has no libraries, and `ldd` says so by failing.
        let said = capture(Command::new("ldd").arg(path)).unwrap_or_default();
        let mut libraries = said.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.try_for_each(|library| add(library.as_ref(), library.as_ref()))?;
    }
    for path in APPLETS.map(|name| tree.join("bin").join(name)).iter().filter(|path| !path.exists()) {
        symlink("busybox", path).map_err(failed)?;
    }
    add("init".as_ref(), &root().join(init))?;
    let mut pack = Command::new("sh");
    run_command(pack.current_dir(&tree).args(["-c", PACK]).arg(tree.join("bin/busybox")), FETCH)?;
    Ok(folder.join("initramfs"))
}

/// Runs the guest to its end; what it printed on its second serial line.
fn boot(emulator: &Path, kernel: &Path, first: &Path, folder: &Path, limit: Duration) -> Result<String> {
    let output = folder.join("output.txt");
    let serial = |name: &str| format!("file:{}", folder.join(name).display());
    let mut command = Command::new(emulator);
    // Not KVM: a virtual machine that runs this may have a `/dev/kvm` with which a guest never
    // comes up.
    command.args(["-accel", "tcg", "-cpu", "qemu64", "-m", "1024"]);
    command.args(["-smp", &CPUS.to_string(), "-nodefaults", "-no-reboot", "-display", "none"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(first);
    command.args(["-append", "console=ttyS0 panic=-1 rdinit=/init mitigations=off"]);
    command.args(["-serial", &serial("kernel.txt"), "-serial", &serial("output.txt")]);
    let begin = Instant::now();
    run_command(&mut command, limit)?;
    println!("the guest ran for {} s", begin.elapsed().as_secs());
    let bytes = fs::read(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

/// What limits a process in the guest, what its budget is, and what the probe found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Case<'a> {
    name: &'a str,
    expected: &'a str,
    found: &'a str,
    threads: &'a str,
    why: &'a str,
}

impl Case<'_> {
    fn is_right(&self) -> bool {
        !self.expected.is_empty() && self.found == self.expected
    }
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            cases.push(Case { name: rest, ..Case::default() });
        }
        let Some(case) = cases.last_mut() else { continue };
        match word {
            "expect" => case.expected = rest,
            "found" => case.found = rest,
            "threads" => case.threads = rest,
            "why" => case.why = rest,
            _ => {}
        }
    }
    cases
}

fn table(cases: &[Case<'_>]) -> String {
    let width = |text: fn(&Case<'_>) -> usize| cases.iter().map(text).max().unwrap_or(0);
    let (names, expected) = (width(|it| it.name.len()), width(|it| it.expected.len()));
    let line = |case: &Case<'_>| {
        let verdict = if case.is_right() { "right" } else { "WRONG" };
        let found = if case.is_right() { String::new() } else { format!(" found `{}`:", case.found) };
        let (name, wanted, why) = (case.name, case.expected, case.why);
        format!("{verdict}  {name:names$}  {wanted:expected$} {found} {why}").trim_end().to_string() + "\n"
    };
    cases.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_guest_is_read() {
        let text = "kernel 6.1\ncase none\nexpect 8\nfile /proc/self/cgroup\n| 0::/p/c\nfound 8\nthreads 8 8\nwhy 8 CPUs: all\n\
                    case 1.5\nexpect 1.5\nfound 2\nwhy 2 CPUs: a mistake\ncase lost\nexpect 1\nend\n";
        let cases = cases(text);
        let verdicts: Vec<_> = cases.iter().map(|case| (case.name, case.is_right())).collect();
        assert_eq!(verdicts, [("none", true), ("1.5", false), ("lost", false)]);
        assert_eq!(
            table(&cases),
            "right  none  8    8 CPUs: all\nWRONG  1.5   1.5  found `2`: 2 CPUs: a mistake\nWRONG  lost  1    found ``:\n"
        );
    }

    #[test]
    fn the_record_is_right_and_complete() {
        let text = fs::read_to_string(root().join(RECORD)).expect("the recorded output");
        let cases = cases(&text);
        assert_eq!(cases.iter().find(|case| !case.is_right()), None);
        let script = fs::read_to_string(root().join(INIT)).expect("the guest's first process");
        // Each line that measures is a case; the one in a loop stands for five.
        let measured = script.lines().filter(|line| line.trim_start().starts_with("measure ")).count();
        assert_eq!(cases.len(), measured + 4 + 1, "recorded with another script: cargo xtask guest --record");
        assert!(text.ends_with("end\n"));
    }

    #[test]
    fn a_missing_program_is_named_with_a_remedy() {
        let error = needed("no-such-program-of-manx").unwrap_err();
        assert!(
            error.starts_with("there is no `no-such-program-of-manx` here: apt-get install qemu-system-x86"),
            "{error}"
        );
    }
}
