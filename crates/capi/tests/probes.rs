//! Probes of all functions, against either library, alone and together with the preload library.

mod common;

use common::{Link, Program, compile, preload, run};

const LINKS: [Link; 3] = [Link::Shared, Link::Static, Link::StaticExported];

#[test]
fn results_are_those_that_the_header_promises() {
    for standard in ["c99", "c11"] {
        for link in LINKS {
            let program = compile(Program { source: "tests/programs/codes.c", standard, link }, &[]);
            for preloaded in [false, true] {
                run(&program, &[], preloaded);
            }
        }
    }
}

#[test]
fn ranges_are_held_and_errors_are_told_as_the_header_promises() {
    for (standard, links) in [("c99", &LINKS[..1]), ("c11", &LINKS[1..])] {
        for &link in links {
            for source in ["tests/programs/ranges.c", "tests/programs/range_bytes.c"] {
                let program = compile(Program { source, standard, link }, &[]);
                for preloaded in [false, true] {
                    run(&program, &[], preloaded);
                }
            }
        }
    }
}

#[test]
fn the_budget_is_a_number_a_count_and_a_reason() {
    for (standard, link) in [("c99", Link::Shared), ("c11", Link::Static), ("c17", Link::StaticExported)] {
        let program = compile(Program { source: "tests/programs/cpu.c", standard, link }, &[]);
        for preloaded in [false, true] {
            run(&program, &[], preloaded);
        }
    }
}

#[test]
fn guards_of_ranges_move_and_throw() {
    for (standard, link) in [("c++11", Link::Shared), ("c++14", Link::Static), ("c++20", Link::Shared)] {
        let ranges = Program { source: "tests/programs/ranges.cpp", standard, link };
        let program = compile(ranges, &["-Wshadow", "-Wconversion", "-Wold-style-cast"]);
        run(&program, &[], false);
    }
}

#[test]
fn the_standard_librarys_classes_work_with_ours() {
    for standard in ["c++11", "c++14", "c++17"] {
        for link in LINKS {
            let guards = Program { source: "tests/programs/guards.cpp", standard, link };
            let program = compile(guards, &["-Wshadow", "-Wconversion", "-Wold-style-cast"]);
            for preloaded in [false, true] {
                run(&program, &[], preloaded);
            }
        }
    }
}

#[test]
fn there_is_one_set_of_epochs_whatever_is_loaded() {
    for link in LINKS {
        // The one use of an object pointer as a function pointer is how dlsym works.
        let together = Program { source: "tests/programs/together.c", standard: "c11", link };
        let program = compile(together, &["-ldl"]);
        run(&program, &["alone"], false);
        run(&program, &["together"], true);
    }
}

#[test]
fn the_preload_library_may_be_linked_before_us_or_behind() {
    let folder = preload().parent().expect("a folder").to_owned();
    let (place, path) = (format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display()));
    for link in LINKS {
        let together = Program { source: "tests/programs/together.c", standard: "c99", link };
        let program = compile(together, &[&place, &path, "-Wl,--no-as-needed", "-lmanx_preload"]);
        run(&program, &["together"], false);
    }
    let requests = Program { source: "examples/requests.c", standard: "c99", link: Link::Nothing };
    let program = compile(requests, &[&place, &path, "-Wl,--no-as-needed", "-lmanx_preload"]);
    assert!(run(&program, &[], false).contains("with a window of"));
}
