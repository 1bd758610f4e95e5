//! SORT and SORT_RO: the elements of a list, a set or a sorted set in another order, or what other
//! keys have for each of them.
//!
//! A *pattern* names a key for each element: the element stands for the first `*`. What follows
//! `->` is the field of a hash.

use super::syntax::{SYNTAX, integer, is};
use crate::collection::{Collection, List, Scores, Side, SortedSet};
use crate::fault::{Fault, WRONG_TYPE};
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::scores;
use crate::value::{Found, Kind};
use manx::txn::{Error, Value};
use std::cmp::Ordering;

const NOT_NUMBERS: &str = "ERR One or more scores can't be converted into double";

/// What is asked for behind the key.
#[derive(Debug, Default)]
struct Wanted<'a> {
    descending: bool,
    alphabetical: bool,
    skip: usize,
    /// All, if there is none.
    limit: Option<usize>,
    by: Option<&'a [u8]>,
    /// A pattern without `*` has asked for no order.
    stays: bool,
    get: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    /// `reads_all`: the user may read all keys, as patterns may name any.
    fn read(args: Args<'a>, stores: bool, reads_all: bool) -> Result<Wanted<'a>, Fault> {
        let mut wanted = Wanted::default();
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            let left = words.size_hint().0;
            let mut next = || words.next().unwrap_or_default();
            match () {
                () if is(word, "asc") => wanted.descending = false,
                () if is(word, "desc") => wanted.descending = true,
                () if is(word, "alpha") => wanted.alphabetical = true,
                () if is(word, "limit") && left >= 2 => {
                    let (skip, limit) = (integer(next())?, integer(next())?);
                    wanted.skip = usize::try_from(skip).unwrap_or(0);
                    wanted.limit = usize::try_from(limit).ok();
                }
                () if stores && is(word, "store") && left >= 1 => wanted.store = Some(next()),
                () if is(word, "by") && left >= 1 => {
                    let pattern = next();
                    if !pattern.contains(&b'*') {
                        wanted.stays = true;
                    } else if !reads_all {
                        return Err("ERR BY option of SORT denied due to insufficient ACL permissions".into());
                    }
                    wanted.by = Some(pattern);
                }
                () if is(word, "get") && left >= 1 => {
                    if !reads_all {
                        return Err(
                            "ERR GET option of SORT denied due to insufficient ACL permissions".into()
                        );
                    }
                    wanted.get.push(next());
                }
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(wanted)
    }
}

/// Where the key stands into which SORT puts what it finds.
pub(super) fn stored_at(args: Args<'_>) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while let Some(word) = args.get(at) {
        at += match () {
            () if is(word, "limit") => 3,
            () if is(word, "by") || is(word, "get") => 2,
            () if is(word, "store") => {
                found = Some(at + 1);
                2
            }
            () => 1,
        };
    }
    found.filter(|at| *at < args.len())
}

/// The elements of a key; of those that stay in their order only what is asked for.
fn elements(ops: &mut Ops<'_, '_>, key: &[u8], wanted: &Wanted<'_>) -> Result<Vec<Box<[u8]>>, Fault> {
    let mut elements = Vec::new();
    let Some(found) = ops.get(key)? else { return Ok(elements) };
    if matches!(found.kind(), Kind::String | Kind::Hash) {
        return Err(WRONG_TYPE.into());
    }
    let descending = wanted.stays && wanted.descending;
    let (mut skip, limit) = match wanted.stays {
        true => (wanted.skip, wanted.limit.unwrap_or(usize::MAX)),
        false => (0, usize::MAX),
    };
    if limit == 0 {
        return Ok(elements);
    }
    let mut see = |element: &[u8]| {
        if skip > 0 {
            skip -= 1;
            return Enough::No;
        }
        elements.push(element.into());
        if elements.len() == limit { Enough::Yes } else { Enough::No }
    };
    match found.kind() {
        Kind::List => {
            if let Some(list) = List::find(ops, key)? {
                list.elements(ops, 0..list.len(), descending, |_, element| see(element))?;
            }
        }
        Kind::Set => {
            if let Some(set) = Collection::find(ops, key, Kind::Set)? {
                set.members(ops, &set.all(), false, |member, _| see(member))?;
            }
        }
        Kind::SortedSet => {
            if let Some(set) = SortedSet::find(ops, key)? {
                set.in_order(ops, Scores::all(), descending, |member, _| see(member))?;
            }
        }
        Kind::String | Kind::Hash => {}
    }
    Ok(elements)
}

/// A text that a key or a field has.
enum Text {
    /// Of a string, with a head before it.
    Whole(Found),
    Field(Value),
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Text::Whole(found) => found.bytes(),
            Text::Field(value) => value,
        }
    }
}

/// What a pattern finds for an element, if there is something.
fn look_up(ops: &mut Ops<'_, '_>, pattern: &[u8], element: &[u8]) -> Result<Option<Text>, Error> {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|two| two == b"->").filter(|at| at + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let key = [before, element, behind].concat();
    let Some(found) = ops.get(&key)? else { return Ok(None) };
    match (found.kind(), field) {
        (Kind::String, None) => Ok(Some(Text::Whole(found))),
        (Kind::Hash, Some(field)) => match Collection::of(&key, &found) {
            Some(hash) => Ok(hash.get(ops, field)?.map(Text::Field)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Puts elements into the order that is asked for.
fn sorted(
    ops: &mut Ops<'_, '_>,
    elements: Vec<Box<[u8]>>,
    wanted: &Wanted<'_>,
) -> Result<Vec<Box<[u8]>>, Fault> {
    let turned = |order: Ordering| if wanted.descending { order.reverse() } else { order };
    if !wanted.alphabetical {
        let mut weighed = Vec::with_capacity(elements.len());
        for element in elements {
            let weight = match wanted.by {
                None => scores::weight(&element),
                Some(by) => {
                    look_up(ops, by, &element)?.map_or(Some(0.0), |text| scores::weight(text.bytes()))
                }
            };
            weighed.push((weight.ok_or(NOT_NUMBERS)?, element));
        }
        weighed.sort_by(|(one, element), (two, other)| {
            turned(one.partial_cmp(two).unwrap_or(Ordering::Equal).then_with(|| element.cmp(other)))
        });
        return Ok(weighed.into_iter().map(|(_, element)| element).collect());
    }
    let Some(by) = wanted.by else {
        let mut elements = elements;
        elements.sort_by(|one, two| turned(one.cmp(two)));
        return Ok(elements);
    };
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        weighed.push((look_up(ops, by, &element)?, element));
    }
    let bytes = Text::bytes;
    weighed.sort_by(|(one, _), (two, _)| turned(one.as_ref().map(bytes).cmp(&two.as_ref().map(bytes))));
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// Shows what is asked for of each element, until `see` says that it has seen enough.
fn each(
    ops: &mut Ops<'_, '_>,
    elements: &[Box<[u8]>],
    patterns: &[&[u8]],
    mut see: impl FnMut(Option<&[u8]>) -> Enough,
) -> Result<(), Error> {
    for element in elements {
        for pattern in patterns {
            let enough = match pattern {
                [b'#'] => see(Some(element)),
                pattern => see(look_up(ops, pattern, element)?.as_ref().map(Text::bytes)),
            };
            if enough == Enough::Yes {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// SORT; without `stores`: SORT_RO.
pub(super) fn sort(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    stores: bool,
    out: &mut Replies,
) -> Result<(), Fault> {
    let mut wanted = Wanted::read(args, stores, ops.reads_all_keys)?;
    // As in Redis, what is stored of a set has an order.
    if wanted.stays && wanted.store.is_some() {
        let is_set = ops.get(&args[1])?.is_some_and(|found| found.kind() == Kind::Set);
        wanted.stays = !is_set;
        wanted.alphabetical |= is_set;
        wanted.by = None;
    }
    let mut found = elements(ops, &args[1], &wanted)?;
    if !wanted.stays {
        found = sorted(ops, found, &wanted)?;
        found.drain(..wanted.skip.min(found.len()));
        found.truncate(wanted.limit.unwrap_or(usize::MAX));
    }
    let patterns = if wanted.get.is_empty() { &[&b"#"[..]] } else { &wanted.get[..] };
    let count = found.len().saturating_mul(patterns.len());
    let Some(key) = wanted.store else {
        out.array(count);
        each(ops, &found, patterns, |text| {
            out.bulk_or_null(text);
            if out.is_over() { Enough::Yes } else { Enough::No }
        })?;
        return Ok(());
    };
    // The patterns may need what the key has.
    let (mut texts, mut bytes, bytes_max) = (Vec::new(), 0, ops.value_bytes_max);
    each(ops, &found, patterns, |text| {
        let text = Box::<[u8]>::from(text.unwrap_or_default());
        bytes += size_of_val(&text) + text.len();
        texts.push(text);
        if bytes > bytes_max { Enough::Yes } else { Enough::No }
    })?;
    if bytes > bytes_max {
        return Err(format!("ERR a list of more than {bytes_max} bytes would be stored: use LIMIT").into());
    }
    ops.delete(key)?;
    let mut list = List::find_or_make(ops, key)?;
    texts.iter().try_for_each(|text| list.push(ops, Side::Right, text))?;
    list.finish(ops)?;
    out.count(count);
    Ok(())
}
