//! The package on a machine of its age: installed in a fresh Debian 11, used, and removed.
//!
//! 1. Every file in the package belongs to root, and only root may write it.
//! 2. The installed `manx` runs the demo's engine and a program with a contended mutex, and the
//!    statistics show a mutex with waits and a redirected loop. A program that is linked with the
//!    installed libmanx finds it.
//! 3. After the removal the root has the files that it had before, and no others.
//!
//! The root has its own mounts and processes, so nothing stays mounted whatever happens. Only root
//! can make that.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::debian;
use super::place::{Dist, make_folder};
use crate::outcome::Result;
use crate::process::{capture, root as workspace, run as run_command};
use crate::steps::Verdict;

const LIMIT: Duration = Duration::from_secs(120);
/// Each program, its source, and what it is linked with. All are compiled with the C library of the
/// root; the last one against the package.
const PROGRAMS: [(&str, &str, &[&str]); 3] = [
    ("plain", "bench/engines/plain.c", &["-lm"]),
    ("wiredtiger", "bench/engines/wiredtiger.c", &["-lwiredtiger", "-lm"]),
    ("queue", "crates/capi/examples/queue.c", &["-lmanx"]),
];
/// What is done in the root. What programs write lies in `/trial`, which is left out of the lists.
const SCRIPT: &str = r#"
set -eu
export HOME=/trial
present() {
    find / -xdev \( -path /proc -o -path /trial -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) \
        -prune -o -print | sort
}
present > /trial/before
dpkg --install /trial/manx.deb
manx --version
manx run -- true
manx run --slo 1ms -- true
cd /trial
manx run --stats=plain.json -- ./plain --threads 8 --seconds 1 --warm-up 0 --work 20
mkdir home
manx run --stats=wiredtiger.json -- ./wiredtiger --home home --threads 8 --seconds 1 --warm-up 0
./queue
test -e /usr/share/man/man1/manx-run.1.gz
bash -n /usr/share/bash-completion/completions/manx.bash
dpkg --purge manx
present > /trial/after
diff /trial/before /trial/after
"#;

/// Tries the package.
pub fn run(dist: &Dist, sysroot: &Path) -> Verdict {
    if let Err(why) = owners(&dist.package) {
        return Verdict::Failed(why);
    }
    // SAFETY: it reads a number of this process and touches no memory.
    if unsafe { libc::geteuid() } != 0 {
        return Verdict::Skipped("the package is made, but only root can try it in a root of its own".into());
    }
    tried(dist, sysroot).into()
}

fn tried(dist: &Dist, sysroot: &Path) -> Result {
    let root = debian::root(&dist.parts)?;
    let folder = root.join("trial");
    make_folder(&folder)?;
    fs::copy(&dist.package, folder.join("manx.deb"))
        .and_then(|_| fs::write(folder.join("script"), SCRIPT))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let usr = dist.parts.join("deb/usr");
    for (program, source, libraries) in PROGRAMS {
        let mut compiler = Command::new("cc");
        compiler.args(debian::linking(sysroot)).args(["-O2", "-pthread", "-o"]);
        compiler.arg(folder.join(program)).arg(workspace().join(source));
        compiler.arg("-I").arg(usr.join("include")).arg("-L").arg(usr.join("lib")).args(libraries);
        run_command(&mut compiler, LIMIT)?;
    }
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    shell.arg(format!("--root={}", root.display())).args(["sh", "/trial/script"]);
    shell.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    run_command(&mut shell, LIMIT)?;
    // A mutex with waits, and a loop that was redirected.
    for (name, sign) in [("plain", "\"address\""), ("wiredtiger", "\"how\": \"jump\"")] {
        let text = fs::read_to_string(folder.join(name).with_extension("json")).unwrap_or_default();
        if !text.contains(sign) {
            return Err(format!("the statistics of {name} have no {sign}: {text}"));
        }
    }
    fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))
}

/// Looks at the owners and modes of all files in the package (1).
fn owners(package: &Path) -> Result {
    let listed = capture(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    let wrong: Vec<&str> = listed.lines().filter(|line| !is_safe(line)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong owners or modes:\n{}", wrong.join("\n"))) }
}

/// Whether a line of the list is about a file that is root's, that all may read, and that no other
/// user may write.
fn is_safe(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (mode, owner) = (words.next().unwrap_or_default(), words.next());
    let safe = ["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"].contains(&mode);
    safe && owner == Some("root/root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_others_own_or_write_are_found() {
        for (line, safe) in [
            ("drwxr-xr-x root/root         0 2026-11-23 22:00 ./usr/", true),
            ("-rwxr-xr-x root/root   2693496 2026-11-23 22:00 ./usr/bin/manx", true),
            ("-rwxrwxr-x root/root   2693496 2026-11-23 22:00 ./usr/bin/manx", false),
            ("-rwsr-xr-x root/root   2693496 2026-11-23 22:00 ./usr/bin/manx", false),
            ("-rw-r--r-- me/me             1 2026-11-23 22:00 ./usr/include/manx.h", false),
            ("-rw------- root/root         1 2026-11-23 22:00 ./usr/include/manx.h", false),
        ] {
            assert_eq!(is_safe(line), safe, "{line}");
        }
    }
}
