//! Several sorted sets as one: ZUNION, ZINTER and ZDIFF, the commands that store these, and
//! ZINTERCARD. A set among them is a sorted set whose members all have the score 1.
//!
//! The scores of a member are aggregated as Redis does it, from the smallest set to the largest,
//! since a sum of doubles depends on the order.

use super::sets::Combine;
use super::sorted_ranges::{self, Found};
use super::syntax::{SYNTAX, integer, is, limit};
use crate::collection::{Collection, SortedSet};
use crate::fault::Fault;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies, Version};
use crate::scores;
use crate::value::Kind;
use std::collections::BTreeMap;

/// What becomes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Show,
    /// It is put into the key that stands before the others.
    Store,
    Count,
}

/// How two scores of a member become one.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => or_zero(score + other),
            // Redis' order of comparisons: a NaN changes nothing.
            Aggregate::Min => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Aggregate::Max => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

/// What a product or a sum of infinities is, if it is no number.
fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One of the sets.
struct Source<'k> {
    members: Collection<'k>,
    weight: f64,
}

impl<'k> Source<'k> {
    fn find(ops: &mut Ops<'_, '_>, key: &'k [u8]) -> Result<Option<Source<'k>>, Fault> {
        let Some(found) = ops.get(key)? else { return Ok(None) };
        let kind = if found.kind() == Kind::Set { Kind::Set } else { Kind::SortedSet };
        Ok(Collection::find(ops, key, kind)?.map(|members| Source { members, weight: 1.0 }))
    }

    /// The weighted score in what a member has. That of a set has nothing.
    fn score(&self, value: &[u8]) -> f64 {
        let score = if value.is_empty() { 1.0 } else { SortedSet::score_in(value) };
        score * self.weight
    }
}

/// What is asked for.
struct Wanted<'k> {
    /// None for a key that is not there.
    sources: Vec<Option<Source<'k>>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The most members of an intersection or a difference.
    limit: usize,
}

impl<'k> Wanted<'k> {
    /// `at` is the argument that counts the keys.
    fn read(
        ops: &mut Ops<'_, '_>,
        args: Args<'k>,
        mut at: usize,
        how: Combine,
        then: Then,
    ) -> Result<Wanted<'k>, Fault> {
        let Ok(count @ 1..) = usize::try_from(integer(&args[at])?) else {
            let command = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
            return Err(format!("ERR at least 1 input key is needed for '{command}' command").into());
        };
        at += 1;
        if count > args.len() - at {
            return Err(SYNTAX.into());
        }
        let sources = args.from(at).take(count).map(|key| Source::find(ops, key));
        let sources = sources.collect::<Result<_, _>>()?;
        let mut wanted = Wanted { sources, aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        let has_weights = how != Combine::Difference && then != Then::Count;
        at += count;
        while let Some(word) = args.get(at) {
            let behind = args.get(at + 1);
            at += match behind {
                Some(_) if has_weights && is(word, "weights") && args.len() - at > count => {
                    for (source, text) in wanted.sources.iter_mut().zip(args.from(at + 1)) {
                        let weight = scores::score(text).ok_or("ERR weight value is not a float")?;
                        source.iter_mut().for_each(|source| source.weight = weight);
                    }
                    1 + count
                }
                Some(name) if has_weights && is(word, "aggregate") => {
                    wanted.aggregate = match name {
                        name if is(name, "sum") => Aggregate::Sum,
                        name if is(name, "min") => Aggregate::Min,
                        name if is(name, "max") => Aggregate::Max,
                        _ => return Err(SYNTAX.into()),
                    };
                    2
                }
                Some(number) if then == Then::Count && is(word, "limit") => {
                    wanted.limit = limit(number)?;
                    2
                }
                _ if then == Then::Show && is(word, "withscores") => {
                    wanted.with_scores = true;
                    1
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        Ok(wanted)
    }
}

/// Members and their scores, in the order of the members.
type Scored = BTreeMap<Box<[u8]>, f64>;

/// Adds the members of a source.
fn add(ops: &mut Ops<'_, '_>, all: &mut Scored, source: &Source<'_>, how: Aggregate) -> Result<(), Fault> {
    let members = &source.members;
    members.members(ops, &members.all(), false, |member, value| {
        let score = or_zero(source.score(value));
        match all.get_mut(member) {
            Some(before) => *before = how.of(*before, score),
            None => {
                all.insert(member.into(), score);
            }
        }
        Enough::No
    })?;
    Ok(())
}

/// The smallest first.
fn by_length<'k>(
    ops: &mut Ops<'_, '_>,
    sources: impl IntoIterator<Item = Source<'k>>,
) -> Result<Vec<Source<'k>>, Fault> {
    let sized = sources.into_iter().map(|source| Ok((source.members.len(ops)?, source)));
    let mut sized = sized.collect::<Result<Vec<_>, Fault>>()?;
    sized.sort_by_key(|(len, _)| *len);
    Ok(sized.into_iter().map(|(_, source)| source).collect())
}

fn combined(ops: &mut Ops<'_, '_>, wanted: Wanted<'_>, how: Combine) -> Result<Scored, Fault> {
    let Wanted { sources, aggregate, limit, .. } = wanted;
    let mut all = Scored::new();
    let sources = match how {
        Combine::Union => {
            for source in by_length(ops, sources.into_iter().flatten())? {
                add(ops, &mut all, &source, aggregate)?;
            }
            return Ok(all);
        }
        Combine::Intersection => match sources.into_iter().collect::<Option<Vec<_>>>() {
            Some(sources) => by_length(ops, sources)?,
            None => return Ok(all),
        },
        Combine::Difference if sources.first().is_none_or(Option::is_none) => return Ok(all),
        Combine::Difference => sources.into_iter().flatten().collect(),
    };
    let Some((first, others)) = sources.split_first() else { return Ok(all) };
    let mut left = Scored::new();
    add(ops, &mut all, first, aggregate)?;
    'members: for (member, mut score) in all {
        for other in others {
            match other.members.get(ops, &member)? {
                Some(value) if how == Combine::Intersection => {
                    score = aggregate.of(score, other.score(&value));
                }
                None if how == Combine::Difference => {}
                _ => continue 'members,
            }
        }
        left.insert(member, score);
        if left.len() == limit {
            break;
        }
    }
    Ok(left)
}

pub(super) fn combine(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    how: Combine,
    then: Then,
    out: &mut Replies,
) -> Result<(), Fault> {
    let wanted = Wanted::read(ops, args, if then == Then::Store { 2 } else { 1 }, how, then)?;
    let with_scores = wanted.with_scores;
    let found = combined(ops, wanted, how)?;
    if then == Then::Count {
        out.count(found.len());
        return Ok(());
    }
    // Members of one score stay in their order. As in a stored set, −0 is 0.
    let mut found: Found = found.into_iter().map(|(member, score)| (member, score + 0.0)).collect();
    found.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    if then == Then::Store {
        return sorted_ranges::store(ops, &args[1], &found, out);
    }
    sorted_ranges::show(&found, with_scores, out.version() == Version::Three, out);
    Ok(())
}
