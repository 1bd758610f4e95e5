//! Sorted sets: members, each with a score.

use super::syntax::{NOT_FLOAT, SYNTAX, is};
use crate::collection::{Scores, SortedSet};
use crate::fault::Fault;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::scores;

fn key(args: Args<'_>) -> &[u8] {
    args.get(1).unwrap_or_default()
}

/// What ZADD is asked to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// Only members that are there, or only new ones.
    pub(super) only_old: bool,
    pub(super) only_new: bool,
    /// Only to a higher score, or only to a lower one.
    only_up: bool,
    only_down: bool,
    /// The answer counts changed ones too.
    pub(super) counts_changed: bool,
    increments: bool,
}

impl Options {
    /// With it comes where the scores begin.
    fn read(args: Args<'_>) -> Result<(Options, usize), Fault> {
        let mut options = Options::default();
        let mut at = 2;
        for word in args.from(2) {
            let flag = match () {
                () if is(word, "nx") => &mut options.only_new,
                () if is(word, "xx") => &mut options.only_old,
                () if is(word, "gt") => &mut options.only_up,
                () if is(word, "lt") => &mut options.only_down,
                () if is(word, "ch") => &mut options.counts_changed,
                () if is(word, "incr") => &mut options.increments,
                () => break,
            };
            *flag = true;
            at += 1;
        }
        let words = args.len() - at;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(SYNTAX.into());
        }
        let Options { only_old, only_new, only_up, only_down, increments, .. } = options;
        if only_new && only_old {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if (only_up || only_down) && only_new || only_up && only_down {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if increments && words > 2 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok((options, at))
    }

    /// Which score a member gets, if any; `old` is its present score.
    fn score(self, given: f64, old: Option<f64>) -> Result<Option<f64>, Fault> {
        let Some(old) = old else { return Ok((!self.only_old).then_some(given)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increments { old + given } else { given };
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        let is_wanted = !(self.only_up && score <= old || self.only_down && score >= old);
        Ok(is_wanted.then_some(score))
    }
}

pub(super) fn zadd(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (options, at) = Options::read(args)?;
    add(ops, key(args), scored(args, at)?, options, out)
}

pub(super) fn zincrby(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let options = Options { increments: true, ..Options::default() };
    add(ops, key(args), scored(args, 2)?, options, out)
}

/// Scores and members, from this argument on.
fn scored(args: Args<'_>, at: usize) -> Result<Vec<(f64, &[u8])>, Fault> {
    let given: Option<Vec<f64>> = args.from(at).step_by(2).map(scores::score).collect();
    Ok(given.ok_or(NOT_FLOAT)?.into_iter().zip(args.from(at + 1).step_by(2)).collect())
}

/// Gives members scores, and answers as ZADD does.
pub(super) fn add(
    ops: &mut Ops<'_, '_>,
    key: &[u8],
    scored: Vec<(f64, &[u8])>,
    options: Options,
    out: &mut Replies,
) -> Result<(), Fault> {
    let mut set = SortedSet::find_or_make(ops, key)?;
    let (mut added, mut changed, mut result) = (0, 0, None);
    for (given, member) in scored {
        let old = set.score(ops, member)?;
        let Some(score) = options.score(given, old)? else { continue };
        result = Some(score);
        if old != Some(score) {
            set.put(ops, member, score, old)?;
            added += i64::from(old.is_none());
            changed += i64::from(old.is_some());
        }
    }
    set.0.finish(ops)?;
    match result {
        _ if !options.increments => {
            out.integer(added + if options.counts_changed { changed } else { 0 });
        }
        Some(score) => out.double(score),
        None => out.null(),
    }
    Ok(())
}

pub(super) fn zrem(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut deleted = 0;
    if let Some(mut set) = SortedSet::find(ops, key(args))? {
        for member in args.from(2) {
            if let Some(score) = set.score(ops, member)? {
                set.delete(ops, member, score)?;
                deleted += 1;
            }
        }
        set.0.finish(ops)?;
    }
    out.integer(deleted);
    Ok(())
}

fn answer(
    ops: &mut Ops<'_, '_>,
    set: Option<&SortedSet<'_>>,
    member: &[u8],
    out: &mut Replies,
) -> Result<(), Fault> {
    let score = match set {
        Some(set) => set.score(ops, member)?,
        None => None,
    };
    match score {
        Some(score) => out.double(score),
        None => out.null(),
    }
    Ok(())
}

pub(super) fn zscore(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let set = SortedSet::find(ops, key(args))?;
    answer(ops, set.as_ref(), &args[2], out)
}

pub(super) fn zmscore(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let set = SortedSet::find(ops, key(args))?;
    out.array(args.len() - 2);
    args.from(2).try_for_each(|member| answer(ops, set.as_ref(), member, out))
}

pub(super) fn zcard(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let length = match SortedSet::find(ops, key(args))? {
        Some(set) => set.0.len(ops)?,
        None => 0,
    };
    out.integer(length as i64);
    Ok(())
}

/// How many members are before this one.
pub(super) fn rank(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    descending: bool,
    out: &mut Replies,
) -> Result<(), Fault> {
    let Some(set) = SortedSet::find(ops, key(args))? else {
        out.null();
        return Ok(());
    };
    let Some(score) = set.score(ops, &args[2])? else {
        out.null();
        return Ok(());
    };
    // As far as the scan may come.
    let scores = if descending {
        Scores::between((score, false), (f64::INFINITY, false))
    } else {
        Scores::between((f64::NEG_INFINITY, false), (score, false))
    };
    let mut rank = 0;
    set.in_order(ops, scores, descending, |member, _| {
        if member == &args[2] {
            return Enough::Yes;
        }
        rank += 1;
        Enough::No
    })?;
    out.integer(rank);
    Ok(())
}
