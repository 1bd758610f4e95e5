//! Lists and sets that many clients change at once: no element is lost, or comes twice, or before
//! one that was pushed earlier by the same client.

mod support;

use server::resp::Reply::{self, Null};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use support::*;

const CLIENTS: usize = 4;
const EACH: usize = 300;

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.as_bytes().expect("an element").to_vec()).expect("text")
}

/// Clients push to the right of a list, and pop from the left or the right. The list has `before`
/// elements at the beginning. Returns what each popping client got, in its order.
fn through_a_list(server: &server::Server, before: usize, pop: &str) -> Vec<Vec<String>> {
    let it = &mut Client::to(server);
    it.ask("DEL list");
    for at in 0..before {
        it.ask(&format!("RPUSH list before:{at}"));
    }
    let left = AtomicUsize::new(before + CLIENTS * EACH);
    let popped = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let it = &mut Client::to(server);
                for at in 0..EACH {
                    it.ask(&format!("RPUSH list {client}:{at}"));
                }
            });
            let (left, popped) = (&left, &popped);
            scope.spawn(move || {
                let (it, mut own) = (&mut Client::to(server), Vec::new());
                while left.load(SeqCst) > 0 {
                    match it.ask(pop) {
                        Null => thread::yield_now(),
                        element => {
                            left.fetch_sub(1, SeqCst);
                            own.push(text(&element));
                        }
                    }
                }
                popped.lock().expect("whole").push(own);
            });
        }
    });
    it.expect("LLEN list", int(0));
    it.expect("EXISTS list", int(0));
    popped.into_inner().expect("whole")
}

#[test]
fn each_element_of_a_queue_comes_once_and_in_its_order() {
    for_each_model(|server| {
        // Small, and wide from the beginning.
        for before in [0, 1_000] {
            let popped = through_a_list(server, before, "LPOP list");
            let mut seen = BTreeMap::<String, usize>::new();
            for own in &popped {
                let mut last = BTreeMap::<&str, usize>::new();
                for element in own {
                    *seen.entry(element.clone()).or_default() += 1;
                    let (from, at) = element.split_once(':').expect("two parts");
                    let at: usize = at.parse().expect("a number");
                    let earlier = last.insert(from, at);
                    assert!(earlier.is_none_or(|earlier| earlier < at), "{element} after {earlier:?}");
                }
            }
            assert_eq!(seen.len(), before + CLIENTS * EACH);
            assert!(seen.values().all(|&times| times == 1));
        }
    });
}

#[test]
fn each_element_of_a_stack_comes_once() {
    for_each_model(|server| {
        for before in [0, 1_000] {
            let mut all = through_a_list(server, before, "RPOP list").concat();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), before + CLIENTS * EACH);
        }
    });
}

#[test]
fn what_moves_between_lists_and_sets_stays_one() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        for at in 0..700 {
            it.ask(&format!("RPUSH a {at}"));
            it.ask(&format!("SADD s {at}"));
        }
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    let it = &mut Client::to(server);
                    for at in 0..EACH {
                        let (from, to) = if (client + at) % 2 == 0 { ("a", "b") } else { ("b", "a") };
                        let sides = ["LEFT RIGHT", "RIGHT LEFT", "LEFT LEFT", "RIGHT RIGHT"][at % 4];
                        it.ask(&format!("LMOVE {from} {to} {sides}"));
                        it.ask(&format!("SMOVE s t {at}"));
                        it.ask(&format!("SMOVE t s {}", at + 1));
                    }
                });
            }
        });
        let mut all = Vec::new();
        for list in ["a", "b"] {
            let Reply::Array(elements) = it.ask(&format!("LRANGE {list} 0 -1")) else { panic!("no list") };
            it.expect(&format!("LLEN {list}"), int(elements.len() as i64));
            all.extend(elements.iter().map(text));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 700);
        let count = |it: &mut Client, key: &str| match it.ask(&format!("SCARD {key}")) {
            Reply::Integer(count) => count,
            other => panic!("{other:?}"),
        };
        assert_eq!(count(it, "s") + count(it, "t"), 700);
        let Reply::Array(union) = it.ask("SUNION s t") else { panic!("no set") };
        assert_eq!(union.len(), 700);
    });
}

#[test]
fn elements_between_others_leave_these_in_their_order() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        // Small, and wide.
        for length in [20, 700] {
            it.ask("DEL list");
            let all: Vec<String> = (0..length).map(|at| at.to_string()).collect();
            it.ask(&format!("RPUSH list {}", all.join(" ")));
            thread::scope(|scope| {
                for client in 0..CLIENTS {
                    scope.spawn(move || {
                        let it = &mut Client::to(server);
                        for at in 0..20 {
                            let (place, pivot) =
                                if at % 2 == 0 { ("BEFORE", at) } else { ("AFTER", length - 1 - at) };
                            it.ask(&format!("LINSERT list {place} {pivot} own:{client}"));
                            it.expect(&format!("LREM list 0 own:{client}"), int(1));
                        }
                    });
                }
            });
            it.expect("LRANGE list 0 -1", Reply::Array(all.iter().map(|at| bulk(at)).collect()));
        }
    });
}

#[test]
fn members_at_random_are_members_and_all_of_them_come() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        // Walked over, and beyond.
        for (members, draws) in [(50, 2_000), (5_000, 200)] {
            it.ask("DEL s");
            for at in 0..members {
                it.ask(&format!("SADD s m{at:05}"));
            }
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..draws {
                let one = text(&it.ask("SRANDMEMBER s"));
                it.expect(&format!("SISMEMBER s {one}"), int(1));
                seen.insert(one);
            }
            // So few would be an accident of less than one in 10^9.
            assert!(seen.len() > members.min(draws) / 4, "{} of {members}", seen.len());
            let Reply::Array(some) = it.ask("SRANDMEMBER s 20") else { panic!("no array") };
            let different: std::collections::BTreeSet<_> = some.iter().map(text).collect();
            assert_eq!(different.len(), 20);
            let mut popped = std::collections::BTreeSet::new();
            for _ in 0..members {
                assert!(popped.insert(text(&it.ask("SPOP s"))), "twice");
            }
            it.expect("EXISTS s", int(0));
        }
    });
}
