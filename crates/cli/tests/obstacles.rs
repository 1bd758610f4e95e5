//! Programs that nothing can be preloaded into: they run unchanged, after a warning of one line.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use support::{Sandbox, chmod, fails, output, root, stderr, stdout};
use testing::process::copy_program;

/// A program that says what it was given and ends with 5.
const TELL: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    const char *preload = getenv("LD_PRELOAD");
    printf("%s\n", preload ? preload : "nothing");
    return 5;
}"#;

/// Without a C library: ends with 7, whoever starts it.
const BARE: &str = r#"
void _start(void) {
#if defined(__x86_64__)
    __asm__ volatile("mov $231, %eax; mov $7, %edi; syscall");
#else
    __asm__ volatile("mov x8, #94; mov x0, #7; svc #0");
#endif
}"#;

/// Runs `program` and asserts that it ran unchanged, with a warning that names `why`.
#[track_caller]
fn warned(sandbox: &Sandbox, program: &Path, code: i32, why: &str) {
    let run = output(sandbox.manx().arg("run").arg(program));
    let expected = format!("manx: warning: {} {why}", program.display());
    assert_eq!(run.status.code(), Some(code), "{}", stderr(&run));
    assert!(stderr(&run).starts_with(&expected) && stderr(&run).lines().count() == 1, "{}", stderr(&run));
    assert!(["", "nothing\n"].contains(&stdout(&run).as_str()), "{}", stdout(&run));

    let quiet = output(sandbox.manx().args(["run", "--quiet"]).arg(program));
    assert_eq!((quiet.status.code(), stderr(&quiet).as_str()), (Some(code), ""));
    let plan = output(sandbox.manx().args(["run", "--dry-run"]).arg(program));
    assert!(plan.status.success() && stdout(&plan).contains(&format!("runs unchanged: it {why}")));
}

#[test]
fn a_static_program() {
    let sandbox = Sandbox::new();
    match sandbox.compile("static", TELL, &["-static"]) {
        Ok(program) => {
            warned(&sandbox, &program, 5, "is linked statically");
            // The interpreter is what counts in a script.
            let script = sandbox.executable("script", format!("#!{}\n", program.display()));
            let run = output(sandbox.manx().arg("run").arg(script));
            assert_eq!(run.status.code(), Some(5));
            assert!(stderr(&run).contains("static is linked statically"), "{}", stderr(&run));
        }
        Err(error) => testing::skip(format_args!("in part: no static C library: {error}")),
    }
    // Without its library Manx cannot fail here: it is not needed.
    let bare = sandbox.compile("bare", BARE, &["-static", "-nostdlib"]).expect("a C compiler");
    warned(&sandbox, &bare, 7, "is linked statically");
    assert_eq!(
        output(sandbox.manx().env("MANX_PRELOAD", "/none").arg("run").arg(bare)).status.code(),
        Some(7)
    );
}

#[test]
fn a_program_for_another_c_library() {
    let sandbox = Sandbox::new();
    let loader = sandbox
        .compile("ld-musl-x.so.1", BARE, &["-shared", "-fPIC", "-nostdlib", "-Wl,-e,_start"])
        .expect("a C compiler");
    let option = format!("-Wl,--dynamic-linker={}", loader.display());
    let program = sandbox.compile("musl", TELL, &[&option]).expect("a C compiler");
    warned(&sandbox, &program, 7, "is made for another C library than GNU's (its loader is ld-musl-x.so.1)");
    fs::remove_file(&loader).expect("removed");
    let missing = format!("musl: its loader {} is not installed", loader.display());
    fails(sandbox.manx().arg("run").arg(program), 127, &[&missing, "another distribution"]);
}

#[test]
fn a_program_for_another_machine() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("tell", TELL, &[]).expect("a C compiler");
    let whole = fs::read(program).expect("readable");
    // 4 is the class, 18 the machine. The kernel cannot run these, so only the plan is asked for.
    for (name, offset, value, why) in
        [("small", 4, 1, "is a 32-bit program"), ("foreign", 18, 243, "is made for another kind of machine")]
    {
        let mut bytes = whole.clone();
        bytes[offset] = value;
        let program = sandbox.executable(name, bytes);
        let plan = output(sandbox.manx().args(["run", "--dry-run"]).arg(program));
        assert!(stdout(&plan).contains(&format!("runs unchanged: it {why}")), "{}", stdout(&plan));
    }
}

#[test]
fn a_program_that_gets_more_rights() {
    if !root() {
        return testing::skip("giving a program to another user takes root");
    }
    let sandbox = Sandbox::new();
    let copy = |name: &str, user: Option<u32>, group: Option<u32>, mode: u32| {
        let program = sandbox.path(name);
        copy_program(sandbox.compile("tell", TELL, &[]).expect("a C compiler"), &program);
        chown(&program, user, group).expect("root may");
        chmod(&program, mode);
        program
    };
    const NOBODY: u32 = 65534;
    warned(&sandbox, &copy("setuid", Some(NOBODY), None, 0o4755), 5, "is set-user-id");
    warned(&sandbox, &copy("setgid", None, Some(NOBODY), 0o2755), 5, "is set-group-id");

    // Nothing is gained from a file of one's own, nor where only locking is meant, nor where the
    // kernel was told that nothing shall be gained.
    let library = sandbox.stand_in();
    for program in [copy("own", None, None, 0o4755), copy("locking", None, Some(NOBODY), 0o2745)] {
        let run = output(sandbox.manx().arg("run").arg(program));
        assert_eq!((stdout(&run), stderr(&run)), (format!("{}\n", library.display()), String::new()));
    }
    let mut command = sandbox.manx();
    command.arg("run").arg(copy("setuid", Some(NOBODY), None, 0o4755));
    // SAFETY: prctl is a system call and nothing else.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            Ok(())
        })
    };
    assert_eq!(stdout(&output(&mut command)), format!("{}\n", library.display()));
}

#[test]
fn a_program_with_file_capabilities() {
    if !root() {
        return testing::skip("giving a program capabilities takes root");
    }
    let sandbox = Sandbox::new();
    let program = sandbox.compile("tell", TELL, &[]).expect("a C compiler");
    // struct vfs_cap_data, revision 2, effective: permitted CAP_NET_BIND_SERVICE (bit 10).
    let mut capability = [0_u8; 20];
    capability[..4].copy_from_slice(&0x0200_0001_u32.to_le_bytes());
    capability[4..8].copy_from_slice(&(1_u32 << 10).to_le_bytes());
    let path = std::ffi::CString::new(program.to_str().expect("text")).expect("no NUL");
    // SAFETY: both names are NUL-terminated, and the value has the size that is given.
    let set = unsafe {
        let value = capability.as_ptr().cast();
        libc::setxattr(path.as_ptr(), c"security.capability".as_ptr(), value, capability.len(), 0)
    };
    if set != 0 {
        return testing::skip("the file system keeps no capabilities");
    }
    // For root they add nothing; for anybody else the loader ignores LD_PRELOAD.
    let library = sandbox.stand_in();
    let run = output(sandbox.manx().arg("run").arg(&program));
    assert_eq!((stdout(&run), stderr(&run)), (format!("{}\n", library.display()), String::new()));

    let folder = program.parent().expect("a folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("set");
    let manx = sandbox.path("manx");
    copy_program(support::MANX, &manx);
    let mut command = support::bare(&manx);
    command.env("MANX_PRELOAD", &library).arg("run").arg(&program).uid(65534).gid(65534).current_dir("/");
    let run = output(&mut command);
    assert!(stderr(&run).contains("tell has file capabilities"), "{}", stderr(&run));
    assert_eq!(run.status.code(), Some(5));
}

#[test]
fn a_sanitizer_stays_first() {
    let sandbox = Sandbox::new();
    let program = match sandbox.compile("checked", TELL, &["-fsanitize=address"]) {
        Ok(program) => program,
        Err(error) => return testing::skip(format_args!("no AddressSanitizer: {error}")),
    };
    let run = output(sandbox.manx().env("ASAN_OPTIONS", "detect_leaks=0").arg("run").arg(program));
    let (out, library) = (stdout(&run), sandbox.stand_in());
    assert_eq!(run.status.code(), Some(5), "{}", stderr(&run));
    assert!(out.starts_with("libasan.so") && out.ends_with(&format!(":{}\n", library.display())), "{out}");
}

#[test]
fn the_loader_itself_is_no_static_program() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("tell", TELL, &[]).expect("a C compiler");
    let elf = cli::run::libraries::Elf::read(&program).expect("readable").expect("an ELF file");
    let loader = elf.loader.expect("a dynamic program");
    let run = output(sandbox.manx().arg("run").arg(loader).arg(program));
    assert_eq!((stdout(&run), stderr(&run)), (format!("{}\n", sandbox.stand_in().display()), String::new()));
}
