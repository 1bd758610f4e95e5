//! The examples: compiled as strictly as compilers can be, against either library, and run with and
//! without the preload library.

mod common;

use common::{Link, Program, compile, run};

const C: [&str; 3] = ["c99", "c11", "c17"];
const CPP: [&str; 3] = ["c++11", "c++17", "c++20"];
const LINKS: [Link; 3] = [Link::Shared, Link::Static, Link::StaticExported];

fn each(source: &str, standards: &[&str], links: &[Link], check: impl Fn(&str, bool)) {
    for &standard in standards {
        for &link in links {
            let program = compile(Program { source, standard, link }, &[]);
            for preloaded in [false, true] {
                check(&run(&program, &[], preloaded), preloaded);
            }
        }
    }
}

#[test]
fn three_lines_do_nothing_without_manx_and_work_with_it() {
    each("examples/requests.c", &C, &[Link::Nothing], |said, preloaded| {
        let begins = if preloaded {
            "2000 requests, the last one with a window of "
        } else {
            "2000 requests, without Manx\n"
        };
        assert!(said.starts_with(begins), "{said}");
    });
}

#[test]
fn three_lines_work_with_libmanx_too() {
    let requests = Program { source: "examples/requests.c", standard: "c99", link: Link::Shared };
    // Weak symbols alone do not make a library needed.
    let program = compile(requests, &["-Wl,--no-as-needed"]);
    for preloaded in [false, true] {
        let said = run(&program, &[], preloaded);
        assert!(said.starts_with("2000 requests, the last one with a window of "), "{said}");
    }
}

#[test]
fn the_queue_loses_nothing() {
    each("examples/queue.c", &C, &LINKS, |said, _| {
        assert_eq!(said, format!("libmanx {}: the sum is 25005000\n", env!("CARGO_PKG_VERSION")));
    });
}

#[test]
fn the_standard_librarys_guards_take_ours() {
    each("examples/accounts.cpp", &CPP, &LINKS, |said, _| assert_eq!(said, "the sum is 2000\n"));
}

#[test]
fn parts_of_one_file_are_written_at_once() {
    let check = |said: &str, _| assert_eq!(said, "1200 records\n");
    each("examples/ranges.c", &C, &LINKS[..1], check);
    each("examples/ranges.c", &C[1..2], &LINKS[1..], check);
}

#[test]
fn records_are_locked_one_by_one_in_sets_and_all_together() {
    let check = |said: &str, _| assert_eq!(said, "the sum is 100000\n");
    each("examples/records.cpp", &CPP, &LINKS[..1], check);
    each("examples/records.cpp", &CPP[1..2], &LINKS[1..], check);
}
