//! Which keys there are: SCAN, KEYS, DBSIZE. Keys come in their order; SCAN and KEYS see one
//! moment.

use super::syntax::{SYNTAX, integer, is};
use crate::fault::Fault;
use crate::glob;
use crate::names::{self, KEYS};
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use std::ops::Bound;
use std::sync::Arc;

/// How many keys SCAN looks at by default; keys that have expired and are not yet deleted count
/// too.
const COUNT: usize = 10;
/// A single SCAN does not go on beyond an answer of this number of bytes.
const BYTES_MAX: usize = 1 << 20;

/// What is asked for behind the cursor.
pub(super) struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    /// What TYPE is to say of a key.
    kind: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// The options that begin with this argument: TYPE is only for the keys themselves.
    pub(super) fn read(args: Args<'a>, at: usize) -> Result<Options<'a>, Fault> {
        let mut options = Options { pattern: None, count: COUNT, kind: None };
        let mut words = args.from(at);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            if is(word, "match") {
                options.pattern = Some(value);
            } else if is(word, "count") {
                let count = usize::try_from(integer(value)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if is(word, "type") && at == 2 {
                options.kind = Some(value);
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }
}

/// Reads a cursor.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Fault> {
    let cursor = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    cursor.ok_or(INVALID_CURSOR.into())
}

const INVALID_CURSOR: &str = "ERR invalid cursor";

impl Ops<'_, '_> {
    /// The name behind which a cursor goes on; none at the beginning.
    pub(super) fn behind_cursor(&self, number: u64, space: u8) -> Result<Option<Arc<[u8]>>, Fault> {
        if number == 0 {
            return Ok(None);
        }
        let name = self.cursors().key(number).filter(|name| name.first() == Some(&space));
        name.map(Some).ok_or(INVALID_CURSOR.into())
    }
}

/// What a scan does with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is wanted.
    Wanted,
    /// It does not fit.
    Other,
    /// The scan is over before it.
    Enough,
}

/// How far a scan goes.
pub(super) struct Steps<'o> {
    options: &'o Options<'o>,
    seen: usize,
    bytes: usize,
    /// The last name that was looked at, if the scan has reached its limit.
    last: Option<Box<[u8]>>,
    goes_on: bool,
}

impl<'o> Steps<'o> {
    pub(super) fn new(options: &'o Options<'o>) -> Steps<'o> {
        Steps { options, seen: 0, bytes: 0, last: None, goes_on: false }
    }

    /// What all that is wanted begins with.
    pub(super) fn prefix(&self) -> &'o [u8] {
        self.options.pattern.map_or(&b""[..], glob::prefix)
    }

    /// Takes the next name, which would add `bytes` bytes to the answer; `fits`: it is there, and
    /// of the right kind.
    pub(super) fn see(&mut self, name: &[u8], bytes: usize, fits: bool) -> Step {
        if !name.starts_with(self.prefix()) {
            return Step::Enough;
        }
        // One more than was asked for: then there is more.
        if self.last.is_some() {
            self.goes_on = true;
            return Step::Enough;
        }
        self.seen += 1;
        let is_wanted = fits && self.options.pattern.is_none_or(|pattern| glob::matches(pattern, name));
        if is_wanted {
            self.bytes += bytes;
        }
        if self.seen == self.options.count || self.bytes > BYTES_MAX {
            self.last = Some(name.into());
        }
        if is_wanted { Step::Wanted } else { Step::Other }
    }

    /// Returns the last name that was looked at, if there are more.
    pub(super) fn goes_on_behind(&self) -> Option<&[u8]> {
        self.last.as_deref().filter(|_| self.goes_on)
    }
}

pub(super) fn scan(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let number = cursor(&args[1])?;
    let options = Options::read(args, 2)?;
    let mut steps = Steps::new(&options);
    let behind = ops.behind_cursor(number, KEYS)?;
    let from = match &behind {
        Some(name) => Bound::Excluded(names::key_in(name).unwrap_or_default()),
        None => Bound::Included(steps.prefix()),
    };
    let mut found: Vec<Box<[u8]>> = Vec::new();
    // Expired keys count too: there may be any number of them between two living ones.
    ops.scan_all(from, |key, value| {
        let fits = value.is_some_and(|value| options.kind.is_none_or(|kind| is(kind, value.kind().name())));
        match steps.see(key, key.len(), fits) {
            Step::Enough => return Enough::Yes,
            Step::Other => {}
            Step::Wanted => found.push(key.into()),
        }
        Enough::No
    })?;
    let next = steps.goes_on_behind().map_or(0, |last| ops.cursors().behind(&names::key(0, last)));
    out.array(2);
    out.bulk(itoa::Buffer::new().format(next).as_bytes());
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}

pub(super) fn keys(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (pattern, prefix) = (&args[1], glob::prefix(&args[1]));
    let mut found: Vec<Box<[u8]>> = Vec::new();
    ops.scan(Bound::Included(prefix), |key, _| {
        if !key.starts_with(prefix) {
            return Enough::Yes;
        }
        if glob::matches(pattern, key) {
            found.push(key.into());
        }
        Enough::No
    })?;
    out.array(found.len());
    for key in &found {
        out.bulk(key);
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

pub(super) fn dbsize(ops: &mut Ops<'_, '_>, _: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (keys, _) = ops.count_keys()?;
    out.integer(i64::try_from(keys).unwrap_or(i64::MAX));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Limits, Parser, Reply, Step as Parsed};
    use crate::shared::Shared;
    use crate::transact::transact;
    use manx::txn::{Error, Store};

    /// What a SCAN answers: where it goes on, and how many keys it has found.
    fn step(shared: &Shared, line: &str) -> (u64, usize) {
        let (mut session, mut out) = (shared.store.session().unwrap(), Replies::new(usize::MAX));
        let (mut parser, limits) = (Parser::new(), Limits { command_bytes_max: 1 << 20, stranger: false });
        let Ok(Parsed::Command(args, _)) = parser.step(line.as_bytes(), limits) else { panic!() };
        let done = transact(shared, &mut session, &mut out, |ops, out| {
            scan(ops, args, out).map_err(|fault| match fault {
                Fault::Store(error) => error,
                Fault::Message(text) => panic!("{text}"),
            })
        });
        done.unwrap();
        let Ok(Some((Reply::Array(parts), _))) = Reply::read(out.bytes()) else { panic!() };
        let [next, Reply::Array(found)] = &parts[..] else { panic!() };
        let next = std::str::from_utf8(next.as_bytes().unwrap()).unwrap().parse().unwrap();
        (next, found.len())
    }

    #[test]
    fn expired_keys_are_looked_at_as_others_are() {
        let store = Store::in_memory(manx::txn::Options::default());
        let shared = Shared::new(crate::Options::default(), store).unwrap();
        let mut session = shared.store.session().unwrap();
        let put = |ops: &mut Ops<'_, '_>, _: &mut Replies| -> Result<(), Error> {
            (0..100).try_for_each(|n| ops.put(format!("{n:03}").as_bytes(), b"", (n < 95).then_some(1)))
        };
        transact(&shared, &mut session, &mut Replies::new(0), put).unwrap();
        let (mut next, mut found) = (0, Vec::new());
        loop {
            let step = step(&shared, &format!("SCAN {next} COUNT 20\r\n"));
            found.push(step.1);
            next = step.0;
            if next == 0 {
                break;
            }
        }
        assert_eq!(found, [0, 0, 0, 0, 5]);
        let _ = step(&shared, "SCAN 0 TYPE string COUNT 1000\r\n");
        assert_eq!(step(&shared, "SCAN 0 COUNT 1000\r\n"), (0, 5));
    }
}
