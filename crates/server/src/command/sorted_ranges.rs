//! Parts of sorted sets: ZRANGE, what is ZRANGE with one of its options, ZRANGESTORE, ZCOUNT and
//! ZLEXCOUNT.
//!
//! A range of scores or of members is looked up. A range of indexes is counted from the nearer end.

use super::syntax::{SYNTAX, count_asked_for, integer, is};
use crate::collection::{Scores, SortedSet};
use crate::fault::Fault;
use crate::names::Name;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies, Version};
use crate::scores;
use std::ops::Range;

const NOT_SCORE: &str = "ERR min or max is not a float";
const NOT_MEMBER: &str = "ERR min or max not valid string range item";

/// By what a range is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Index,
    Score,
    Member,
}

/// What is asked for behind the range.
#[derive(Clone, Copy, Debug)]
struct Options {
    by: Option<By>,
    descending: Option<bool>,
    /// The number of members that are left out, and the most that come then; all, if negative.
    skip: i64,
    limit: i64,
    with_scores: bool,
}

impl Options {
    /// `stores`: the scores are not answered, so they cannot be asked for.
    fn read(mut self, args: Args<'_>, stores: bool) -> Result<Options, Fault> {
        let mut words = args.from(4);
        while let Some(word) = words.next() {
            if !stores && is(word, "withscores") {
                self.with_scores = true;
            } else if is(word, "limit")
                && let (Some(skip), Some(limit)) = (words.next(), words.next())
            {
                self.skip = integer(skip)?;
                self.limit = integer(limit)?;
            } else if self.descending.is_none() && is(word, "rev") {
                self.descending = Some(true);
            } else if self.by.is_none() && is(word, "bylex") {
                self.by = Some(By::Member);
            } else if self.by.is_none() && is(word, "byscore") {
                self.by = Some(By::Score);
            } else {
                return Err(SYNTAX.into());
            }
        }
        match self.by {
            None | Some(By::Index) if self.limit != -1 => {
                Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                    .into())
            }
            Some(By::Member) if self.with_scores => {
                Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into())
            }
            _ => Ok(self),
        }
    }
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug)]
enum End<'a> {
    First,
    Last,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl<'a> End<'a> {
    fn read(text: &'a [u8]) -> Result<End<'a>, Fault> {
        match text {
            b"-" => Ok(End::First),
            b"+" => Ok(End::Last),
            [b'[', member @ ..] => Ok(End::Included(member)),
            [b'(', member @ ..] => Ok(End::Excluded(member)),
            _ => Err(NOT_MEMBER.into()),
        }
    }

    /// The first name behind it; or before it, if it ends a range.
    fn name(self, set: &SortedSet<'_>, ends: bool) -> Name {
        match self {
            End::First => set.0.all().start,
            End::Last => set.0.all().end,
            End::Included(member) if ends => set.0.behind(member).start,
            End::Excluded(member) if !ends => set.0.behind(member).start,
            End::Included(member) | End::Excluded(member) => set.0.from(member),
        }
    }
}

fn members(set: &SortedSet<'_>, from: End<'_>, to: End<'_>) -> Range<Name> {
    from.name(set, false)..to.name(set, true)
}

/// A range, understood.
enum Wanted<'a> {
    Indexes(i64, i64),
    Scores(Scores),
    Members(End<'a>, End<'a>),
}

impl<'a> Wanted<'a> {
    fn read(by: By, from: &'a [u8], to: &'a [u8]) -> Result<Wanted<'a>, Fault> {
        Ok(match by {
            By::Index => Wanted::Indexes(integer(from)?, integer(to)?),
            By::Score => {
                let (from, to) = (scores::limit(from), scores::limit(to));
                Wanted::Scores(Scores::between(from.ok_or(NOT_SCORE)?, to.ok_or(NOT_SCORE)?))
            }
            By::Member => Wanted::Members(End::read(from)?, End::read(to)?),
        })
    }
}

/// Members and their scores.
pub(super) type Found = Vec<(Box<[u8]>, f64)>;

/// Takes some of what comes by: all behind the first `skip`, `limit` at most, and not many more
/// bytes than `room`: for that the connection will be closed.
fn some(
    found: &mut Found,
    mut skip: i64,
    mut limit: i64,
    mut room: usize,
) -> impl FnMut(&[u8], f64) -> Enough {
    move |member, score| {
        if limit == 0 {
            return Enough::Yes;
        }
        if skip != 0 {
            skip -= 1;
            return Enough::No;
        }
        found.push((member.into(), score));
        // All, if negative.
        limit -= i64::from(limit > 0);
        let has_room = room > 0;
        room = room.saturating_sub(member.len() + 1);
        if limit == 0 || !has_room { Enough::Yes } else { Enough::No }
    }
}

fn find(
    ops: &mut Ops<'_, '_>,
    set: &SortedSet<'_>,
    wanted: Wanted<'_>,
    descending: bool,
    Options { skip, limit, .. }: Options,
    room: usize,
) -> Result<Found, Fault> {
    let mut found = Found::new();
    if skip < 0 {
        return Ok(found);
    }
    match wanted {
        Wanted::Scores(scores) => {
            set.in_order(ops, scores, descending, some(&mut found, skip, limit, room))?
        }
        Wanted::Members(from, to) => {
            let mut see = some(&mut found, skip, limit, room);
            let range = members(set, from, to);
            set.0
                .members(ops, &range, descending, |member, value| see(member, SortedSet::score_in(value)))?;
        }
        Wanted::Indexes(from, to) => {
            let length = set.0.len(ops)? as i64;
            let index = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
            let (from, to) = (index(from).max(0), index(to).min(length - 1));
            if from > to {
                return Ok(found);
            }
            let is_nearer_to_the_end = from > length - 1 - to;
            let skip = if is_nearer_to_the_end { length - 1 - to } else { from };
            let see = some(&mut found, skip, to - from + 1, room);
            set.in_order(ops, Scores::all(), descending != is_nearer_to_the_end, see)?;
            if is_nearer_to_the_end {
                found.reverse();
            }
        }
    }
    Ok(found)
}

/// The range that a key, two ends and options ask for, and whether scores are wanted too; not many
/// more bytes than `room`, if it is not stored.
fn read_and_find(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    (by, descending): (Option<By>, Option<bool>),
    room: Option<usize>,
) -> Result<(Found, bool), Fault> {
    let options = Options { by, descending, skip: 0, limit: -1, with_scores: false };
    let options = options.read(args, room.is_none())?;
    let by = options.by.unwrap_or(By::Index);
    let descending = options.descending.unwrap_or(false);
    // Descending, the higher end stands first.
    let (from, to) = if descending && by != By::Index { (3, 2) } else { (2, 3) };
    let wanted = Wanted::read(by, args.get(from).unwrap_or_default(), args.get(to).unwrap_or_default())?;
    let found = match SortedSet::find(ops, args.get(1).unwrap_or_default())? {
        Some(set) => find(ops, &set, wanted, descending, options, room.unwrap_or(usize::MAX))?,
        None => Found::new(),
    };
    Ok((found, options.with_scores))
}

pub(super) fn range(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    by: Option<By>,
    descending: Option<bool>,
    out: &mut Replies,
) -> Result<(), Fault> {
    let (found, with_scores) = read_and_find(ops, args, (by, descending), Some(out.room()))?;
    show(&found, with_scores, out.version() == Version::Three, out);
    Ok(())
}

/// ZRANGESTORE: the key that gets the range stands before the other arguments.
pub(super) fn store_range(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (found, _) = read_and_find(ops, args.behind(1), (None, None), None)?;
    store(ops, &args[1], &found, out)
}

/// Puts members into a key, whatever it had, and answers how many they are.
pub(super) fn store(
    ops: &mut Ops<'_, '_>,
    key: &[u8],
    found: &Found,
    out: &mut Replies,
) -> Result<(), Fault> {
    ops.delete(key)?;
    let mut set = SortedSet::find_or_make(ops, key)?;
    for (member, score) in found {
        set.put(ops, member, *score, None)?;
    }
    set.0.finish(ops)?;
    out.count(found.len());
    Ok(())
}

/// Answers with members, and with their scores if these are wanted: a member and its score may be
/// an array of their own.
pub(super) fn show(found: &Found, with_scores: bool, in_pairs: bool, out: &mut Replies) {
    out.array(if with_scores && !in_pairs { found.len() * 2 } else { found.len() });
    for (member, score) in found {
        if with_scores && in_pairs {
            out.array(2);
        }
        out.bulk(member);
        if with_scores {
            out.double(*score);
        }
        if out.is_over() {
            break;
        }
    }
}

/// Removes a range.
pub(super) fn remove(ops: &mut Ops<'_, '_>, args: Args<'_>, by: By, out: &mut Replies) -> Result<(), Fault> {
    let wanted = Wanted::read(by, &args[2], &args[3])?;
    let all = Options { by: Some(by), descending: None, skip: 0, limit: -1, with_scores: false };
    let mut removed = 0;
    if let Some(mut set) = SortedSet::find(ops, &args[1])? {
        for (member, _) in find(ops, &set, wanted, false, all, usize::MAX)? {
            if let Some(score) = set.score(ops, &member)? {
                set.delete(ops, &member, score)?;
                removed += 1;
            }
        }
        set.0.finish(ops)?;
    }
    out.integer(removed);
    Ok(())
}

/// Removes members at one end, and answers with them.
pub(super) fn pop(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    descending: bool,
    out: &mut Replies,
) -> Result<(), Fault> {
    let count = count_asked_for(args)?.ok_or(SYNTAX)?;
    let found = match SortedSet::find(ops, &args[1])? {
        Some(set) => pop_some(ops, set, descending, count.unwrap_or(1))?,
        None => Found::new(),
    };
    show(&found, true, count.is_some() && out.version() == Version::Three, out);
    Ok(())
}

/// Removes `count` members at one end, or all if there are fewer, and returns them.
pub(super) fn pop_some(
    ops: &mut Ops<'_, '_>,
    mut set: SortedSet<'_>,
    descending: bool,
    count: i64,
) -> Result<Found, Fault> {
    let mut found = Found::new();
    if count > 0 {
        set.in_order(ops, Scores::all(), descending, some(&mut found, 0, count, usize::MAX))?;
    }
    for (member, score) in &found {
        set.delete(ops, member, *score)?;
    }
    set.0.finish(ops)?;
    Ok(found)
}

pub(super) fn count(ops: &mut Ops<'_, '_>, args: Args<'_>, by: By, out: &mut Replies) -> Result<(), Fault> {
    let wanted = Wanted::read(by, &args[2], &args[3])?;
    let mut count = 0;
    let mut one_more = || {
        count += 1;
        Enough::No
    };
    if let Some(set) = SortedSet::find(ops, args.get(1).unwrap_or_default())? {
        match wanted {
            Wanted::Scores(scores) => set.in_order(ops, scores, false, |_, _| one_more())?,
            Wanted::Members(from, to) => {
                set.0.members(ops, &members(&set, from, to), false, |_, _| one_more())?;
            }
            Wanted::Indexes(..) => {}
        }
    }
    out.integer(count);
    Ok(())
}
