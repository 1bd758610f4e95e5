//! Commands that wait: which client gets what, and when.

mod support;

use server::resp::Reply;
use server::{Model, Options};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use support::redis::Redis;
use support::*;
use testing::until;

/// What several clients do, a line each: `a> COMMAND` sends it, and goes on when the server says
/// that as many clients wait as have sent something and not read its answer; `a< ` reads that
/// answer; `a: COMMAND` does both.
const SCRIPTS: &str = include_str!("blocking.txt");

/// Clients by name, and which of them wait for an answer.
struct Clients {
    address: SocketAddr,
    version: u8,
    all: BTreeMap<String, Client>,
    waiting: usize,
    watcher: Client,
}

impl Clients {
    fn new(address: SocketAddr, version: u8) -> Clients {
        let mut watcher = Client::connect(address);
        watcher.ask("FLUSHALL");
        Clients { address, version, all: BTreeMap::new(), waiting: 0, watcher }
    }

    fn client(&mut self, name: &str) -> &mut Client {
        let Clients { address, version, .. } = *self;
        self.all.entry(name.into()).or_insert_with(|| {
            let mut client = Client::connect(address);
            client.ask(&format!("HELLO {version}"));
            client
        })
    }

    /// Does a step; returns the answer that was read.
    fn step(&mut self, line: &str) -> Option<Reply> {
        let (name, rest) = line.split_at(1);
        let (what, command) = rest.split_at(1);
        let command = command.trim();
        match what {
            ">" => {
                self.client(name).send(&frame(&words(command)));
                self.waiting += 1;
                wait_until_blocked(&mut self.watcher, self.waiting);
                None
            }
            "<" => {
                self.waiting -= 1;
                self.client(name).next()
            }
            _ => {
                if command.starts_with("CLIENT UNBLOCK ") {
                    // The number of a client is not its name.
                    let mut words = command.split(' ');
                    let of = words.nth(2).expect("a client's name").to_owned();
                    let id = self.id(&of);
                    let reason = words.next().unwrap_or("TIMEOUT");
                    return Some(self.client(name).ask(&format!("CLIENT UNBLOCK {id} {reason}")));
                }
                if command.starts_with("CLIENT KILL ") {
                    let of = command.rsplit(' ').next().expect("a client's name").to_owned();
                    let id = self.id(&of);
                    let answer = self.client(name).ask(&format!("CLIENT KILL ID {id}"));
                    self.waiting -= 1;
                    wait_until_blocked(&mut self.watcher, self.waiting);
                    self.all.remove(&of);
                    return Some(answer);
                }
                Some(self.client(name).ask(command))
            }
        }
    }

    /// The number of the client that has this name.
    fn id(&mut self, name: &str) -> String {
        let Reply::Bulk(list) = self.watcher.ask("CLIENT LIST") else { panic!("a list") };
        let list = String::from_utf8(list).unwrap();
        let name = format!("name={name} ");
        let line = list.lines().find(|line| line.contains(&name)).expect("it is there");
        line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap().to_owned()
    }
}

#[track_caller]
fn wait_until_blocked(watcher: &mut Client, count: usize) {
    let wanted = format!("blocked_clients:{count}\r\n");
    until(&wanted, || watcher.info("clients").contains(&wanted));
}

#[test]
fn clients_get_what_those_of_redis_get() {
    let Some(redis) = Redis::start() else { return };
    for model in MODELS {
        for version in [2, 3] {
            for script in SCRIPTS.split("\n\n") {
                let server = start(options(model));
                let mut ours = Clients::new(server.address(), version);
                let mut theirs = Clients::new(redis.address, version);
                let mut before = String::new();
                for line in script.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
                    let (our, their) = (ours.step(line), theirs.step(line));
                    assert_eq!(our, their, "{model}, RESP {version}, ours and theirs, of {line}\n{before}");
                    before += &format!("{line}\n");
                }
                assert_eq!(ours.waiting, 0, "a script reads all answers:\n{script}");
            }
        }
    }
}

/// Each element goes to one consumer, and none is left while a consumer waits.
#[test]
fn many_consumers_get_each_element_once() {
    const KEYS: usize = 3;
    const PRODUCERS: usize = 3;
    const CONSUMERS: usize = 6;
    const EACH: usize = 400;
    for_each_model(|server| {
        let address = server.address();
        let got = thread::scope(|scope| {
            let consume = |number: usize| {
                move || {
                    let mut it = Client::connect(address);
                    let keys: Vec<String> =
                        (0..KEYS).map(|at| format!("k{}", (at + number) % KEYS)).collect();
                    let command = ["BLPOP", "BRPOP"][number % 2];
                    let line = format!("{command} {} end{number} 0", keys.join(" "));
                    let mut got = Vec::new();
                    loop {
                        let Reply::Array(parts) = it.ask(&line) else { panic!("an element") };
                        let element = parts[1].as_bytes().expect("an element").to_vec();
                        if element == b"end" {
                            return got;
                        }
                        got.push(element);
                    }
                }
            };
            let consumers: Vec<_> = (0..CONSUMERS).map(|number| scope.spawn(consume(number))).collect();
            let produce = |number: usize| {
                move || {
                    let mut it = Client::connect(address);
                    let mut rng = fastrand::Rng::with_seed(number as u64);
                    for at in 0..EACH {
                        let element = format!("{number}-{at}");
                        let key = rng.usize(..KEYS);
                        match rng.u8(..4) {
                            // Moved there.
                            0 => {
                                it.ask(&format!("RPUSH own{number} {element}"));
                                it.ask(&format!("LMOVE own{number} k{key} LEFT RIGHT"));
                            }
                            1 => {
                                it.ask("MULTI");
                                it.ask(&format!("RPUSH k{key} {element}"));
                                it.ask("EXEC");
                            }
                            _ => _ = it.ask(&format!("RPUSH k{key} {element}")),
                        }
                    }
                }
            };
            let producers: Vec<_> = (0..PRODUCERS).map(|number| scope.spawn(produce(number))).collect();
            // Clients that wait as well, and leave: what woke them wakes others.
            let is_over = AtomicUsize::new(0);
            thread::scope(|inner| {
                inner.spawn(|| {
                    while is_over.load(Ordering::Relaxed) == 0 {
                        let mut it = Client::connect(address);
                        it.send(&frame(&words("BLMOVE nothing k0 LEFT RIGHT 0")));
                        it.send(&frame(&words("PING")));
                        let mut other = Client::connect(address);
                        other.send(&frame(&words("BZPOPMIN k0 k1 k2 0")));
                        thread::yield_now();
                    }
                });
                producers.into_iter().for_each(|producer| producer.join().unwrap());
                is_over.store(1, Ordering::Relaxed);
            });
            let mut it = Client::connect(address);
            for key in 0..KEYS {
                until("the list is taken", || it.ask(&format!("EXISTS k{key}")) == int(0));
            }
            for number in 0..CONSUMERS {
                it.expect(&format!("RPUSH end{number} end"), int(1));
            }
            consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect::<Vec<_>>()
        });
        let mut got = got;
        got.sort();
        let mut all: Vec<Vec<u8>> = (0..PRODUCERS)
            .flat_map(|number| (0..EACH).map(move |at| format!("{number}-{at}").into_bytes()))
            .collect();
        all.sort();
        assert_eq!(got, all);
        let mut watcher = Client::to(server);
        wait_until_blocked(&mut watcher, 0);
    });
}

/// A waiter that leaves wakes the next one: also if it was just woken.
#[test]
fn a_waiter_that_is_killed_leaves_nothing_behind() {
    for_each_model(|server| {
        let mut writer = Client::to(server);
        let mut watcher = Client::to(server);
        for round in 0..50 {
            let mut first = Client::to(server);
            let Reply::Integer(id) = first.ask("CLIENT ID") else { panic!("a number") };
            first.send(&frame(&words("BLPOP k 0")));
            wait_until_blocked(&mut watcher, 1);
            let mut second = Client::to(server);
            second.send(&frame(&words("BLPOP k 0")));
            wait_until_blocked(&mut watcher, 2);
            thread::scope(|scope| {
                let kill = scope.spawn(|| watcher.ask(&format!("CLIENT KILL ID {id}")));
                writer.expect(&format!("RPUSH k {round} more"), int(2));
                assert_eq!(kill.join().unwrap(), int(1));
            });
            // The first one had one of the two, or none.
            let Some(Reply::Array(parts)) = second.next() else { panic!("an element") };
            assert!(parts[1] == bulk(&round.to_string()) || parts[1] == bulk("more"));
            wait_until_blocked(&mut watcher, 0);
            writer.ask("DEL k");
        }
    });
}

/// What a client sends while it waits is kept, up to a bound; and the end of the server ends it.
#[test]
fn a_client_that_waits_is_served_as_others_are() {
    for model in MODELS {
        let server = start(Options { input_bytes_max: 64 * 1024, ..options(model) });
        let mut watcher = Client::to(&server);
        let mut it = Client::to(&server);
        it.send(&frame(&words("BLPOP k 0")));
        wait_until_blocked(&mut watcher, 1);
        let ping = frame(&words("PING"));
        for _ in 0..1_000 {
            it.send(&ping);
        }
        watcher.expect("RPUSH k x", int(1));
        assert_eq!(it.next(), Some(Reply::Array(vec![bulk("k"), bulk("x")])));
        for _ in 0..1_000 {
            assert_eq!(it.next(), Some(Reply::Simple("PONG".into())));
        }
        // Too much.
        it.send(&frame(&words("BLPOP k 0")));
        wait_until_blocked(&mut watcher, 1);
        let much = frame(&[b"PING", &vec![b'x'; 70 * 1024]]);
        // The server may have closed it before all is sent.
        let _ = std::io::Write::write_all(&mut it.stream, &much);
        let _ = std::io::Write::write_all(&mut it.stream, &much);
        assert_eq!(it.next(), None);
        wait_until_blocked(&mut watcher, 0);
        // Waiting is no idleness, and does not hold up the end.
        let mut last = Client::to(&server);
        last.send(&frame(&words("BLPOP k 0")));
        wait_until_blocked(&mut watcher, 1);
        server.stop();
        assert_eq!(last.next(), None);
        server.wait();
    }
}

/// An answer that the client does not want does not come later either.
#[test]
fn a_skipped_answer_is_skipped_when_it_comes() {
    for_each_model(|server| {
        let (mut it, mut watcher) = (Client::to(server), Client::to(server));
        for (reply, answers) in [("SKIP", 1), ("OFF", 0)] {
            it.send(&frame(&words(&format!("CLIENT REPLY {reply}"))));
            it.send(&frame(&words("BLPOP k 0")));
            it.send(&frame(&words("ECHO first")));
            wait_until_blocked(&mut watcher, 1);
            watcher.expect("RPUSH k x", int(1));
            wait_until_blocked(&mut watcher, 0);
            if answers > 0 {
                assert_eq!(it.next(), Some(bulk("first")));
            }
        }
        it.expect_ok("CLIENT REPLY ON");
    });
}

/// What the user may do when there is something, counts.
#[test]
fn a_right_that_was_lost_while_the_client_waited_is_lost() {
    for_each_model(|server| {
        let (mut it, mut watcher) = (Client::to(server), Client::to(server));
        watcher.expect_ok("ACL SETUSER u on nopass ~* +@all");
        it.expect_ok("AUTH u any");
        it.send(&frame(&words("BLPOP k 0")));
        wait_until_blocked(&mut watcher, 1);
        watcher.expect_ok("ACL SETUSER u -@blocking");
        watcher.expect("RPUSH k x", int(1));
        assert!(matches!(it.next(), Some(Reply::Error(text)) if text.starts_with("NOPERM")));
        watcher.expect("LLEN k", int(1));
    });
}

/// A client that sends no more and reads nothing gets no element, and keeps none from others.
#[test]
fn a_client_that_is_leaving_waits_no_more() {
    for_each_model(|server| {
        let (mut it, mut watcher) = (Client::to(server), Client::to(server));
        watcher.ask_bytes(&[b"SET", b"large", &vec![b'x'; 1 << 20]]);
        it.send(&frame(&words("HELLO 3")));
        // More than the kernel keeps for it.
        for _ in 0..20 {
            it.send(&frame(&words("GET large")));
        }
        it.send(&frame(&words("SUBSCRIBE c")));
        it.send(&frame(&words("BLPOP k 0")));
        it.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let count = Reply::Array(vec![bulk("c"), int(0)]);
        until("it subscribes to nothing", || watcher.ask("PUBSUB NUMSUB c") == count);
        wait_until_blocked(&mut watcher, 0);
        let mut other = Client::to(server);
        other.send(&frame(&words("BLPOP k 0")));
        wait_until_blocked(&mut watcher, 1);
        watcher.expect("RPUSH k x", int(1));
        assert_eq!(other.next(), Some(Reply::Array(vec![bulk("k"), bulk("x")])));
    });
}

/// Each key that is waited for takes memory.
#[test]
fn a_wait_for_too_many_keys_is_refused() {
    for model in MODELS {
        let server = start(Options { input_bytes_max: 64 * 1024, ..options(model) });
        let mut it = Client::to(&server);
        let many: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
        it.expect_error(
            &format!("BLPOP {} 0", many.join(" ")),
            "ERR a wait for keys of more than 65536 bytes",
        );
        it.expect(&format!("BLPOP {} 0.001", many[..100].join(" ")), Reply::Null);
        it.expect("RPUSH k199 x", int(1));
        it.expect(&format!("BLPOP {} 0", many.join(" ")), Reply::Array(vec![bulk("k199"), bulk("x")]));
    }
}

/// The first of many that wait is the one that has waited for longest.
#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    const CLIENTS: usize = 20;
    for model in [Model::Threads, Model::Pool] {
        let server = start(options(model));
        let mut watcher = Client::to(&server);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::to(&server)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&frame(&words("BZPOPMIN z 0")));
            wait_until_blocked(&mut watcher, number + 1);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            watcher.expect(&format!("ZADD z 1.5 {number}"), int(1));
            let Some(Reply::Array(parts)) = client.next() else { panic!("an element") };
            assert_eq!(parts[1], bulk(&number.to_string()));
        }
    }
}
