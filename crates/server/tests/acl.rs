//! Users and their rights: compared with a real server of Redis, and in files.

mod support;

use server::resp::Reply::{self, Array, Bulk, Map, Null, Simple};
use server::{Options, Password, Server, StartError};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use support::redis::Redis;
use support::*;

/// Connections by name; one that the server has closed is made again.
struct Clients {
    address: SocketAddr,
    all: BTreeMap<String, Client>,
}

impl Clients {
    fn to(address: SocketAddr) -> Clients {
        Clients { address, all: BTreeMap::new() }
    }

    /// The answer; none if the connection is closed instead.
    fn ask(&mut self, name: &str, line: &str) -> Option<Reply> {
        let it = self.all.entry(name.to_owned()).or_insert_with(|| Client::connect(self.address));
        let answer =
            std::io::Write::write_all(&mut it.stream, &frame(&words(line))).ok().and_then(|()| it.next());
        if answer.is_none() || line == "QUIT" {
            self.all.remove(name);
        }
        answer
    }
}

/// Without what differs from moment to moment, and without the commands that one of them lacks.
fn comparable(line: &str, ours: &BTreeSet<Vec<u8>>, reply: Reply) -> Reply {
    match reply {
        Bulk(text) if line.starts_with("ACL GENPASS") => {
            assert!(text.iter().all(u8::is_ascii_hexdigit));
            int(text.len() as i64)
        }
        Array(names) if line.starts_with("ACL CAT ") => {
            let mut names: Vec<_> =
                names.into_iter().filter(|name| ours.contains(name.as_bytes().unwrap())).collect();
            names.sort_by_key(|name| name.as_bytes().map(<[u8]>::to_vec));
            Array(names)
        }
        Bulk(_) if line == "CLIENT LIST" => Null,
        Reply::Integer(_) if line == "CLIENT ID" => int(0),
        Array(mut parts) if line.starts_with("HELLO") => {
            // The connection's id.
            parts.remove(7);
            Array(parts)
        }
        // Redis describes the commands by categories that fit them about; what they come to is
        // tried by ACL DRYRUN.
        Array(users) if line == "ACL LIST" => Array(users.into_iter().map(without_commands).collect()),
        Array(mut parts) if line.starts_with("ACL GETUSER") => {
            parts.remove(5);
            Array(parts)
        }
        Array(entries) if line.starts_with("ACL LOG") => Array(
            entries
                .into_iter()
                .map(|entry| match entry {
                    // The last two pairs are the age and the client.
                    Array(parts) => Array(parts[..10].to_vec()),
                    other => panic!("{other:?}"),
                })
                .collect(),
        ),
        other => other,
    }
}

/// A user without the rules about commands, which stand at the end.
fn without_commands(user: Reply) -> Reply {
    let text = String::from_utf8_lossy(user.as_bytes().unwrap_or_default()).into_owned();
    // `reset` leaves a flag of Redis about payloads, which are not sent here.
    bulk(&text.split("@all").next().unwrap_or_default().replace(" sanitize-payload", ""))
}

/// Names of all commands and subcommands of this server which Redis has too, but for DBSIZE, which
/// counts here.
fn our_names(it: &mut Client) -> BTreeSet<Vec<u8>> {
    let Array(all) = it.ask("COMMAND") else { panic!() };
    let name = |command: &Array_| command[0].as_bytes().unwrap().to_vec();
    let mut names = BTreeSet::new();
    for command in &all {
        let Array(command) = command else { panic!() };
        names.insert(name(command));
        let Array(subcommands) = &command[9] else { panic!() };
        names.extend(subcommands.iter().map(|sub| match sub {
            Array(sub) => name(sub),
            other => panic!("{other:?}"),
        }));
    }
    names.remove(&b"dbsize"[..]);
    names.retain(|name| ![&b"client|no-touch"[..], b"client|setinfo"].contains(&&name[..]));
    names
}

type Array_ = Vec<Reply>;

#[test]
fn rights_are_those_of_redis() {
    for model in MODELS {
        let Some(redis) = Redis::start() else { return };
        let server = start(options(model));
        let ours = our_names(&mut Client::to(&server));
        let mut both = [Clients::to(server.address()), Clients::to(redis.address)];
        for line in include_str!("acl.txt").lines().filter(|line| !line.starts_with('#')) {
            let (name, line) = line.split_once(": ").unwrap();
            let [our, their] = both
                .each_mut()
                .map(|clients| clients.ask(name, line).map(|reply| comparable(line, &ours, reply)));
            assert_eq!(our, their, "{model}, ours and theirs: {name}: {line}");
        }
    }
}

/// The categories, arities and flags of subcommands, which rules rely on.
#[test]
fn categories_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = start(options(MODELS[0]));
    let (ours, theirs) = (&mut Client::to(&server), &mut Client::connect(redis.address));
    let names = our_names(ours);
    let described = |it: &mut Client| {
        let Array(all) = it.ask("COMMAND") else { panic!() };
        let mut found = BTreeMap::new();
        let mut add = |parts: &Array_| {
            let Array(categories) = &parts[6] else { panic!() };
            let categories: BTreeSet<_> =
                categories.iter().map(|name| name.as_bytes().unwrap().to_vec()).collect();
            found.insert(parts[0].as_bytes().unwrap().to_vec(), (parts[1].clone(), categories));
        };
        for command in &all {
            let Array(parts) = command else { panic!() };
            add(parts);
            let Array(subcommands) = &parts[9] else { panic!() };
            for subcommand in subcommands {
                let Array(parts) = subcommand else { panic!() };
                add(parts);
            }
        }
        found.retain(|name, _| names.contains(name));
        found
    };
    let (our, their) = (described(ours), described(theirs));
    assert!(our.len() > 100);
    assert_eq!(our, their);
}

#[test]
fn what_is_not_there_is_refused_clearly() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect_error("ACL SETUSER u (~a)", "ERR Error in ACL SETUSER modifier '(~a)': Selectors are not");
        it.expect_error(
            "ACL SETUSER u +select|0",
            "ERR Error in ACL SETUSER modifier '+select|0': A command",
        );
        it.expect_error("ACL LOAD", "ERR This server has no ACL file");
        it.expect_error("ACL SAVE", "ERR This server has no ACL file");
        assert!(matches!(it.ask_bytes(&[b"ACL", b"SETUSER", b"a b"]), Reply::Error(_)));
        it.expect("ACL USERS", Array(vec![bulk("default")]));
        it.expect_ok("MULTI");
        it.expect_error("ACL SETUSER u on", "ERR Command not allowed inside a transaction");
    });
}

#[test]
fn rules_are_shown_shortly_and_make_the_same_rights_again() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        for (rules, shown) in [
            ("+get -get +get", "off resetchannels -@all +get"),
            ("+get -get", "off resetchannels -@all"),
            ("+get +@read -get", "off resetchannels -@all +@read -get"),
            ("+set +@read +get -@read +get", "off resetchannels -@all +set +get"),
            ("+@read +get -@read", "off resetchannels -@all"),
            ("+client|id -client +client|list", "off resetchannels -@all +client|list"),
            ("+@all -@all +GET", "off resetchannels -@all +get"),
            ("allcommands +get -@dangerous allkeys on", "on ~* resetchannels +@all -@dangerous"),
            ("%R~a %W~a ~b %rw~c %W~d &x", "off ~a ~b ~c %W~d resetchannels &x -@all"),
        ] {
            it.expect_ok(&format!("ACL SETUSER u reset {rules}"));
            let Array(list) = it.ask("ACL LIST") else { panic!() };
            assert_eq!(list.last(), Some(&bulk(&format!("user u {shown}"))));
            it.expect_ok(&format!("ACL SETUSER again reset {shown}"));
            let Array(list) = it.ask("ACL LIST") else { panic!() };
            assert_eq!(list[0], bulk(&format!("user again {shown}")));
        }
        let Array(user) = it.ask("ACL GETUSER default") else { panic!() };
        assert_eq!(user.len(), 12);
        it.ask("HELLO 3");
        assert!(matches!(it.ask("ACL GETUSER default"), Map(_)));
        it.expect("ACL GETUSER nobody", Null);
    });
}

/// Whatever is tried, a command that is refused changes nothing.
#[test]
fn a_refused_command_changes_nothing() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        it.expect_ok("ACL SETUSER u on nopass ~mine:* %R~shared:* +@all -@dangerous -@admin");
        it.expect_ok("MSET shared:a 1 other 2");
        it.expect("HSET shared:h f 1", int(1));
        it.expect("ZADD shared:z 1 m", int(1));
        other.expect_ok("AUTH u x");
        for line in [
            "SET shared:a x",
            "APPEND shared:a x",
            "INCR shared:a",
            "DEL shared:a",
            "UNLINK other",
            "EXPIRE shared:a 1",
            "PERSIST shared:a",
            "GETDEL shared:a",
            "GETSET shared:a x",
            "MSET mine:a 1 shared:a x",
            "MSETNX shared:b x",
            "SETRANGE shared:a 0 x",
            "HSET shared:h f 2",
            "HDEL shared:h f",
            "HINCRBY shared:h f 1",
            "ZADD shared:z 2 m",
            "ZREM shared:z m",
            "ZINCRBY shared:z 1 m",
            "FLUSHALL",
            "FLUSHDB",
            "GET other",
            "EXISTS other",
            "WATCH other",
            "ACL SETUSER u allkeys",
            "ACL DELUSER default",
            "CONFIG RESETSTAT",
            "SHUTDOWN",
            "CLIENT KILL TYPE normal",
            "KEYS *",
            "INFO",
        ] {
            other.expect_error(line, "NOPERM ");
        }
        it.expect("MGET shared:a other shared:b mine:a", Array(vec![bulk("1"), bulk("2"), Null, Null]));
        it.expect("HGETALL shared:h", Array(vec![bulk("f"), bulk("1")]));
        it.expect("ZSCORE shared:z m", bulk("1"));
        it.expect("TTL shared:a", int(-1));
        other.expect("HGET shared:h f", bulk("1"));
        other.expect_ok("SET mine:b v");
        // Noted, and the note has a bound.
        let key = "x".repeat(5_000);
        other.expect_error(&format!("GET {key}"), "NOPERM ");
        let Array(log) = it.ask("ACL LOG 1") else { panic!() };
        let Array(entry) = &log[0] else { panic!() };
        assert_eq!(entry[7], bulk(&key[..1024]));
        for n in 0..300 {
            other.expect_error(&format!("GET {n}"), "NOPERM ");
        }
        let Array(log) = it.ask("ACL LOG 1000") else { panic!() };
        assert_eq!(log.len(), 128);
    });
}

fn with_file(model: server::Model, path: &Path) -> Options {
    Options { acl_file: Some(path.into()), ..options(model) }
}

#[test]
fn users_are_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    for model in MODELS {
        fs::write(&path, "user default on nopass ~* &* +@all\r\n\nuser alice on >wonder ~a:* +@all -@admin\nuser bob on nopass\n").unwrap();
        let server = start(with_file(model, &path));
        let it = &mut Client::to(&server);
        it.expect("ACL USERS", Array(vec![bulk("alice"), bulk("bob"), bulk("default")]));
        let (alice, bob) = (&mut Client::to(&server), &mut Client::to(&server));
        alice.expect_ok("AUTH alice wonder");
        alice.expect_ok("SET a:1 v");
        alice.expect_error("SET b:1 v", "NOPERM");
        bob.expect_ok("AUTH bob x");
        it.expect_ok("ACL SETUSER carol on >c ~* +get");
        it.expect_ok("ACL SAVE");
        let saved = fs::read_to_string(&path).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o777, 0o600);
        assert_eq!(saved.lines().count(), 4, "{saved}");
        assert!(!saved.contains("wonder") && saved.contains("user carol on #"), "{saved}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // A file with a mistake changes nothing, and says all that is wrong.
        fs::write(
            &path,
            "user default on nopass +@all\nuser alice on +what\n# text\nuser x on\nuser x off\n",
        )
        .unwrap();
        let Reply::Error(why) = it.ask("ACL LOAD") else { panic!() };
        for part in [
            "users.acl:2: Unknown command or category name in ACL. ",
            "users.acl:3 should start with user keyword followed by the username. ",
            "Duplicate user 'x' found on line 5. WARNING: ACL errors detected, no change",
        ] {
            assert!(why.contains(part), "{why}");
        }
        alice.expect_ok("SET a:1 v");
        // Users that are gone or changed are disconnected; others, and the default one, stay.
        let text = saved.replace("user bob on nopass", "user bob on nopass ~*");
        fs::write(&path, text.lines().filter(|line| !line.contains("carol")).collect::<Vec<_>>().join("\n"))
            .unwrap();
        let carol = &mut Client::to(&server);
        carol.expect_ok("AUTH carol c");
        it.expect_ok("ACL LOAD");
        assert_eq!((carol.next(), bob.next()), (None, None));
        alice.expect_ok("SET a:1 v");
        it.expect("ACL USERS", Array(vec![bulk("alice"), bulk("bob"), bulk("default")]));
        // Without its own line the default user is as at the start.
        it.expect_ok("ACL SETUSER default -set");
        fs::write(&path, "user bob on nopass\n").unwrap();
        it.expect_ok("ACL LOAD");
        it.expect_ok("SET k v");
        drop(server);
        let store = || manx::txn::Store::in_memory(manx::txn::Options::default());
        fs::write(&path, "user bob what\n").unwrap();
        let error = Server::start(with_file(model, &path), store()).unwrap_err();
        assert!(
            matches!(&error, StartError::Acl(why) if why.contains("users.acl:1: Syntax error")),
            "{error}"
        );
        fs::remove_file(&path).unwrap();
        assert!(matches!(Server::start(with_file(model, &path), store()), Err(StartError::Acl(_))));
    }
}

/// The file counts if it has the default user, else the password does; and a server that other
/// machines reach needs one of the two.
#[test]
fn the_default_user_is_that_of_the_file_or_has_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    let secret = || Some(Password::new(b"secret").unwrap());
    for model in MODELS {
        fs::write(&path, "user bob on nopass +ping\n").unwrap();
        let server = start(Options { password: secret(), ..with_file(model, &path) });
        let it = &mut Client::to(&server);
        it.expect_error("PING", "NOAUTH");
        it.expect_ok("AUTH bob x");
        it.expect("PING", Simple("PONG".into()));
        it.expect_error("GET k", "NOPERM");
        it.expect_ok("AUTH secret");
        it.expect("GET k", Null);
        fs::write(&path, "user default on >other +@all ~*\n").unwrap();
        it.expect_ok("ACL LOAD");
        it.expect_error("AUTH secret", "WRONGPASS");
        it.expect_ok("AUTH other");
        let open = |text: &str| {
            fs::write(&path, text).unwrap();
            let store = manx::txn::Store::in_memory(manx::txn::Options::default());
            let listen = "0.0.0.0:0".parse().unwrap();
            Server::start(Options { listen, password: secret(), ..with_file(model, &path) }, store)
        };
        assert!(matches!(open("user default on nopass +ping\n"), Err(StartError::Exposed(_))));
        drop(open("user default off\nuser bob on >b\n").expect("no client comes in without a password"));
        drop(open("user bob on >b\n").expect("the default user has a password"));
    }
}

#[test]
fn files_are_those_of_redis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    fs::write(&path, "user default on nopass ~* &* +@all\n").unwrap();
    let Some(redis) = Redis::with(&["--aclfile", path.to_str().unwrap()]) else { return };
    let theirs = &mut Client::connect(redis.address);
    theirs.expect_ok("ACL SETUSER a on >p ~k* %R~r* +@all -@dangerous -client|kill");
    theirs.expect_ok("ACL SETUSER b reset on nopass ~* +get +client|id +@hash");
    theirs.expect_ok("ACL SAVE");
    let tried = [
        "get k",
        "get r",
        "set r v",
        "set k v",
        "client kill x",
        "client list",
        "client id",
        "hget z f",
        "keys *",
        "acl list",
    ];
    let answers = |it: &mut Client| -> Vec<Reply> {
        let lines = tried.iter().flat_map(|line| ["a", "b"].map(|user| format!("ACL DRYRUN {user} {line}")));
        lines.map(|line| it.ask(&line)).collect()
    };
    for model in MODELS {
        let server = start(with_file(model, &path));
        let ours = &mut Client::to(&server);
        assert_eq!(answers(ours), answers(theirs));
        // And the other way round.
        ours.expect_ok("ACL SETUSER b -@all +@read -get");
        ours.expect_ok("ACL SAVE");
        theirs.expect_ok("ACL LOAD");
        assert_eq!(answers(ours), answers(theirs));
    }
}
