//! Filters, beside a model that is too simple to be wrong.

use super::*;
use proptest::prelude::*;

fn entries(text: &str) -> Entries<'_> {
    text.as_bytes().try_into().unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn filters<'a>(only: &'a str, not: &'a str) -> Filters<'a> {
    Filters { only: entries(only), not: entries(not) }
}

/// Whether a loop is meant that lies in these functions of this module.
fn has(filters: &Filters<'_>, module: &str, offset: u64, functions: &[&str]) -> bool {
    let lies_in = |symbol: Pattern<'_>| functions.iter().any(|name| symbol.names(name.as_bytes()));
    filters.has(&Place { module: module.as_bytes(), offset, lies_in: &lies_in })
}

#[test]
fn an_entry_is_what_its_form_says() {
    let kind = |text: &str| match Entry::parse(text.as_bytes()).expect(text) {
        Entry::Executable(_) => "executable",
        Entry::Module(_) => "module",
        Entry::Symbol(..) => "symbol",
        Entry::Offset(..) => "offset",
    };
    for (text, expected) in [
        ("mongod", "executable"),
        ("*sql*", "executable"),
        ("foo.sock", "executable"),
        ("exe:odd.so", "executable"),
        ("libfoo.so", "module"),
        ("libfoo.so.6.1", "module"),
        ("libfoo.so*", "module"),
        ("x.soap.so", "module"),
        ("lib:mongod", "module"),
        ("lib:libfoo*", "module"),
        ("mongod:spin", "symbol"),
        ("lib:mongod:spin*", "symbol"),
        ("libfoo.so:0X10", "symbol"),
        ("libfoo.so:0xfFfFfFfFfFfFfFfF", "offset"),
        ("a%3Ab:0x0", "offset"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn malformed_entries_are_refused_and_say_why() {
    for (text, fault) in [
        ("", Fault::Empty),
        ("exe:", Fault::Empty),
        ("lib:", Fault::Empty),
        (":spin", Fault::Empty),
        ("libfoo.so:", Fault::Empty),
        ("lib::0x1", Fault::Empty),
        ("/lib/libfoo.so", Fault::Folder),
        ("bin%2Ftrue", Fault::Folder),
        ("exe:mongod:spin", Fault::LoopsOfExecutable),
        ("libfoo.so:a::b()", Fault::Colon),
        ("libfoo.so:0x", Fault::Offset),
        ("libfoo.so:0x12g", Fault::Offset),
        ("libfoo.so:0x11112222333344445", Fault::Offset),
        ("a%2", Fault::Encoding),
        ("a%", Fault::Encoding),
        ("a b", Fault::Encoding),
        ("é", Fault::Encoding),
        ("libfoo.so:%g0", Fault::Encoding),
    ] {
        assert_eq!(Entry::parse(text.as_bytes()), Err(fault), "{text}");
    }
    assert_eq!(Entries::try_from([b'a'; LIST_MAX + 1].as_slice()), Err(Fault::TooLong));
    for list in ["+", "a+", "+a", "a++b"] {
        assert_eq!(Entries::try_from(list.as_bytes()), Err(Fault::Empty), "{list}");
    }
    assert!(Entries::try_from(b"").is_ok_and(Entries::is_empty));
}

#[test]
fn executables_are_judged_by_either_name() {
    let all = filters("", "");
    assert!(all.executable(&[b"a"]) && all.executable(&[]));
    let one = filters("python3*+libfoo.so", "");
    assert!(one.executable(&[b"python3.11", b"python"]) && one.executable(&[b"x", b"python3"]));
    assert!(!one.executable(&[b"python"]) && !one.executable(&[]));
    let others = filters("", "sh+lib:bash");
    assert!(!others.executable(&[b"dash", b"sh"]) && others.executable(&[b"bash"]));
    // Libraries alone say nothing of executables.
    assert!(filters("libfoo.so:spin", "").executable(&[b"a"]));
    assert!(!filters("a", "a").executable(&[b"a"]));
}

#[test]
fn modules_and_loops_are_judged_apart_from_executables() {
    let by_name = filters("mongod", "sh");
    assert!(by_name.module(b"libfoo.so") && has(&by_name, "sh", 1, &[]));
    let two = filters("libgomp.so*+libfoo.so:spin*+lib:mongod:0x10", "libfoo.so:spin_short");
    assert!(two.module(b"libgomp.so.1") && two.module(b"libfoo.so") && two.module(b"mongod"));
    assert!(!two.module(b"libbar.so") && !two.module(b""));
    assert!(has(&two, "libgomp.so.1", 7, &[]));
    assert!(has(&two, "libfoo.so", 7, &["spin_long"]) && !has(&two, "libfoo.so", 7, &["other"]));
    assert!(!has(&two, "libfoo.so", 7, &["spin_long", "spin_short"]), "an alias");
    assert!(has(&two, "mongod", 0x10, &[]) && !has(&two, "mongod", 0x11, &[]));
    let without = filters("", "libfoo.so+libbar.so:0xb");
    assert!(!without.module(b"libfoo.so") && without.module(b"libbar.so") && without.module(b"mongod"));
    assert!(!has(&without, "libbar.so", 0xb, &[]) && has(&without, "libbar.so", 0xc, &[]));
}

/// The plainest matcher: a `*` is tried for every length.
fn model(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', behind)) => (0..=name.len()).any(|length| model(behind, &name[length..])),
        Some((byte, behind)) => {
            name.split_first().is_some_and(|(first, rest)| first == byte && model(behind, rest))
        }
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    encode_entry(text, &mut out).expect("writing to a String");
    out
}

proptest! {
    #[test]
    fn patterns_match_as_the_model_says(pattern in "[ab+%,é*]{1,8}", name in "[ab+%,é]{0,10}") {
        let text = encoded(&pattern);
        let matches = Pattern::of(text.as_bytes()).expect("well-formed").names(name.as_bytes());
        prop_assert_eq!(matches, model(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn a_name_without_a_star_names_itself_alone(name in "[ -)+-.0-~é\t]{1,40}", other in "[a-c]{1,3}") {
        let text = encoded(&name);
        let pattern = Pattern::of(text.as_bytes()).expect("well-formed");
        prop_assert!(pattern.names(name.as_bytes()));
        prop_assert_eq!(pattern.names(other.as_bytes()), name == other);
    }

    #[test]
    fn reading_never_panics_and_what_is_read_is_written(text in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(entries) = Entries::try_from(text.as_slice()) {
            let written = entries.to_string();
            prop_assert_eq!(written.as_bytes(), &text[..]);
            let count = if text.is_empty() { 0 } else { text.split(|&b| b == b'+').count() };
            prop_assert_eq!(entries.iter().count(), count);
            let filters = Filters { only: entries, not: Entries::default() };
            filters.executable(&[b"a"]);
            filters.module(b"libfoo.so");
            has(&filters, "libfoo.so", 0, &["a"]);
        }
    }

    #[test]
    fn whatever_a_user_writes_is_one_entry_of_the_string(text in "[a-c:.*+,% é/so0x]{0,20}") {
        let list = encoded(&text);
        prop_assert!(list.bytes().all(|b| b.is_ascii_graphic() && b != b',' && b != b'+'));
        if let Ok(entries) = Entries::try_from(list.as_bytes()) {
            prop_assert_eq!(entries.iter().count(), usize::from(!text.is_empty()));
        }
    }

    #[test]
    fn a_module_that_is_not_meant_has_no_loop_that_is(
        only in proptest::collection::vec("(lib:)?[ab*]{1,2}(:[fg*]{1,2}|:0x[12])?", 0..4),
        not in proptest::collection::vec("(lib:)?[ab*]{1,2}(:[fg*]{1,2}|:0x[12])?", 0..4),
        module in "[ab]{1,2}", function in "[fg]{1,2}", offset in 1_u64..3,
    ) {
        let (only, not) = (only.join("+"), not.join("+"));
        let filters = filters(&only, &not);
        if !filters.module(module.as_bytes()) {
            prop_assert!(!has(&filters, &module, offset, &[&function]));
        }
        if filters.is_empty() {
            prop_assert!(has(&filters, &module, offset, &[&function]));
        }
    }
}
