//! Members at random: SRANDMEMBER, HRANDFIELD and ZRANDMEMBER. How they are chosen is in
//! `collection/random.rs`.

use super::syntax::{SYNTAX, integer, is};
use crate::collection::{Collection, SortedSet};
use crate::fault::Fault;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies, Version};
use crate::value::Kind;

/// What is answered for what a member has.
type Shown = fn(&mut Replies, &[u8]);

/// How many members are asked for, if it is said, and what is answered beside each.
struct Wanted {
    count: Option<i64>,
    shown: Option<Shown>,
}

impl Wanted {
    /// `with` is the word that asks for more than members, and what that is.
    fn read(args: Args<'_>, with: Option<(&str, Shown)>) -> Result<Wanted, Fault> {
        if with.is_none() && args.len() > 3 {
            return Err(SYNTAX.into());
        }
        let count = args.get(2).map(integer).transpose()?;
        if count == Some(i64::MIN) {
            return Err("ERR value is out of range, value must between -9223372036854775807 and \
                        9223372036854775807"
                .into());
        }
        let shown = match (args.get(3), with) {
            (None, _) => None,
            (Some(word), Some((name, shown))) if args.len() == 4 && is(word, name) => Some(shown),
            _ => return Err(SYNTAX.into()),
        };
        // Twice as many answers can be counted.
        if shown.is_some() && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
            return Err("ERR value is out of range".into());
        }
        Ok(Wanted { count, shown })
    }
}

pub(super) fn srandmember(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    answer(ops, &args[1], Kind::Set, &Wanted::read(args, None)?, out)
}

pub(super) fn hrandfield(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let with: (_, Shown) = ("withvalues", |out, value| out.bulk(value));
    answer(ops, &args[1], Kind::Hash, &Wanted::read(args, Some(with))?, out)
}

pub(super) fn zrandmember(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let with: (_, Shown) = ("withscores", |out, value| out.double(SortedSet::score_in(value)));
    answer(ops, &args[1], Kind::SortedSet, &Wanted::read(args, Some(with))?, out)
}

/// Members at random. If `count` is negative, a member may come more than once.
fn choose(
    ops: &mut Ops<'_, '_>,
    collection: &Collection<'_>,
    count: i64,
    room: usize,
) -> Result<Vec<Vec<u8>>, Fault> {
    if count >= 0 {
        return Ok(collection.choose(ops, count.unsigned_abs())?);
    }
    let mut few = None;
    if collection.len(ops)? <= count.unsigned_abs() {
        let mut members = Vec::new();
        collection.members(ops, &collection.all(), false, |member, _| {
            members.push(member.to_vec());
            Enough::No
        })?;
        few = Some(members);
    }
    let (mut chosen, mut bytes) = (Vec::new(), 0);
    for _ in 0..count.unsigned_abs() {
        let one = match &few {
            Some(few) => fastrand::choice(few).cloned(),
            None => collection.choose(ops, 1)?.pop(),
        };
        let Some(one) = one else { break };
        // The least that its answer takes. More than there is room for is not sent.
        bytes += one.len() + 5;
        chosen.push(one);
        if bytes > room {
            break;
        }
    }
    Ok(chosen)
}

fn answer(
    ops: &mut Ops<'_, '_>,
    key: &[u8],
    kind: Kind,
    Wanted { count, shown }: &Wanted,
    out: &mut Replies,
) -> Result<(), Fault> {
    let Some(collection) = Collection::find(ops, key, kind)? else {
        match count {
            None => out.null(),
            Some(_) => out.array(0),
        }
        return Ok(());
    };
    let chosen = choose(ops, &collection, count.unwrap_or(1), out.room())?;
    if count.is_none() {
        out.bulk_or_null(chosen.first().map(Vec::as_slice));
        return Ok(());
    }
    let in_pairs = shown.is_some() && out.version() == Version::Three;
    out.array(if shown.is_some() && !in_pairs { chosen.len() * 2 } else { chosen.len() });
    for member in &chosen {
        if out.is_over() {
            break;
        }
        if in_pairs {
            out.array(2);
        }
        out.bulk(member);
        if let Some(shown) = shown {
            let value = collection.get(ops, member)?;
            shown(out, value.as_deref().unwrap_or_default());
        }
    }
    Ok(())
}
