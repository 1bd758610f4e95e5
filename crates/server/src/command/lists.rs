//! Lists: elements in an order of their own.

use super::syntax::{SYNTAX, count_asked_for, integer, is, wrong_number};
use crate::collection::{List, Side};
use crate::fault::Fault;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};

/// As later versions of Redis say it; that of [`REDIS_VERSION`](super::info::REDIS_VERSION) then
/// answers with another element's index.
const RANK_OUT_OF_RANGE: &str = "ERR value is out of range, value must between -9223372036854775807 and \
     9223372036854775807";

pub(super) fn push(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    side: Side,
    only_old: bool,
    out: &mut Replies,
) -> Result<(), Fault> {
    let found = match only_old {
        true => List::find(ops, &args[1])?,
        false => Some(List::find_or_make(ops, &args[1])?),
    };
    let Some(mut list) = found else {
        out.integer(0);
        return Ok(());
    };
    for element in args.from(2) {
        list.push(ops, side, element)?;
    }
    out.integer(list.len());
    Ok(list.finish(ops)?)
}

pub(super) fn pop(ops: &mut Ops<'_, '_>, args: Args<'_>, side: Side, out: &mut Replies) -> Result<(), Fault> {
    let name = if side == Side::Left { "lpop" } else { "rpop" };
    let count = count_asked_for(args)?.ok_or_else(|| wrong_number(name))?;
    let Some(mut list) = List::find(ops, &args[1])? else {
        match count {
            None => out.null(),
            Some(_) => out.null_array(),
        }
        return Ok(());
    };
    match count {
        None => out.bulk_or_null(list.pop(ops, side)?.as_deref()),
        Some(count) => return pop_some(ops, list, side, count, out),
    }
    Ok(list.finish(ops)?)
}

/// Removes `count` elements on a side, or all if there are fewer, and answers with them.
pub(super) fn pop_some(
    ops: &mut Ops<'_, '_>,
    mut list: List<'_>,
    side: Side,
    count: i64,
    out: &mut Replies,
) -> Result<(), Fault> {
    let count = count.min(list.len());
    out.array(count as usize);
    for _ in 0..count {
        let element = list.pop(ops, side)?;
        // Too long an answer ends the connection; what was asked for is done all the same.
        if !out.is_over() {
            out.bulk_or_null(element.as_deref());
        }
    }
    Ok(list.finish(ops)?)
}

pub(super) fn llen(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.integer(List::find(ops, &args[1])?.map_or(0, |list| list.len()));
    Ok(())
}

pub(super) fn lindex(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    match List::find(ops, &args[1])? {
        Some(list) => out.bulk_or_null(list.get(ops, integer(&args[2])?)?.as_deref()),
        None => out.null(),
    }
    Ok(())
}

pub(super) fn lset(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut list = List::find(ops, &args[1])?.ok_or("ERR no such key")?;
    if !list.set(ops, integer(&args[2])?, &args[3])? {
        return Err("ERR index out of range".into());
    }
    out.ok();
    Ok(list.finish(ops)?)
}

pub(super) fn lrange(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (from, to) = (integer(&args[2])?, integer(&args[3])?);
    let Some(list) = List::find(ops, &args[1])? else {
        out.array(0);
        return Ok(());
    };
    let range = list.range(from, to);
    out.array((range.end - range.start) as usize);
    list.elements(ops, range, false, |_, element| {
        out.bulk(element);
        if out.is_over() { Enough::Yes } else { Enough::No }
    })?;
    Ok(())
}

pub(super) fn ltrim(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (from, to) = (integer(&args[2])?, integer(&args[3])?);
    if let Some(mut list) = List::find(ops, &args[1])? {
        let (range, len) = (list.range(from, to), list.len());
        let (left, right) = if range.is_empty() { (len, 0) } else { (range.start, len - range.end) };
        for _ in 0..left {
            list.cut(ops, Side::Left)?;
        }
        for _ in 0..right {
            list.cut(ops, Side::Right)?;
        }
        list.finish(ops)?;
    }
    out.ok();
    Ok(())
}

/// The indexes of elements that are equal to this one: `limit` at most, of the first or the last
/// `looked_at` elements.
fn equal(
    ops: &mut Ops<'_, '_>,
    list: &List<'_>,
    element: &[u8],
    descending: bool,
    limit: usize,
    looked_at: i64,
) -> Result<Vec<i64>, Fault> {
    let (mut found, mut looked) = (Vec::new(), 0);
    list.elements(ops, 0..list.len(), descending, |index, other| {
        if looked == looked_at || found.len() == limit {
            return Enough::Yes;
        }
        looked += 1;
        if other == element {
            found.push(index);
        }
        Enough::No
    })?;
    Ok(found)
}

pub(super) fn lrem(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let count = integer(&args[2])?;
    let Some(mut list) = List::find(ops, &args[1])? else {
        out.integer(0);
        return Ok(());
    };
    let limit = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let mut gone = equal(ops, &list, &args[3], count < 0, limit, i64::MAX)?;
    gone.sort_unstable();
    if !gone.is_empty() {
        let mut next = gone.iter().copied().peekable();
        let kept: Vec<i64> = (0..list.len()).filter(|index| next.next_if_eq(index).is_none()).collect();
        list.keep(ops, &kept)?;
        list.finish(ops)?;
    }
    out.count(gone.len());
    Ok(())
}

pub(super) fn linsert(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let behind = match &args[2] {
        word if is(word, "before") => 0,
        word if is(word, "after") => 1,
        _ => return Err(SYNTAX.into()),
    };
    let Some(mut list) = List::find(ops, &args[1])? else {
        out.integer(0);
        return Ok(());
    };
    match equal(ops, &list, &args[3], false, 1, i64::MAX)?.first() {
        None => out.integer(-1),
        Some(index) => {
            list.insert(ops, index + behind, &args[4])?;
            out.integer(list.len());
            list.finish(ops)?;
        }
    }
    Ok(())
}

/// What LPOS is asked for.
struct Wanted {
    rank: i64,
    count: Option<i64>,
    looked_at: i64,
}

impl Wanted {
    fn read(args: Args<'_>) -> Result<Wanted, Fault> {
        let mut wanted = Wanted { rank: 1, count: None, looked_at: 0 };
        let mut words = args.from(3);
        while let Some(word) = words.next() {
            let Some(value) = words.next() else { return Err(SYNTAX.into()) };
            let not_negative = |name: &str| match integer(value) {
                Ok(value @ 0..) => Ok(value),
                _ => Err(format!("ERR {name} can't be negative")),
            };
            if is(word, "rank") {
                wanted.rank = integer(value)?;
                if wanted.rank == 0 {
                    return Err(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                         ... or use negative to start from the end of the list"
                            .into(),
                    );
                }
                if wanted.rank == i64::MIN {
                    return Err(RANK_OUT_OF_RANGE.into());
                }
            } else if is(word, "count") {
                wanted.count = Some(not_negative("COUNT")?);
            } else if is(word, "maxlen") {
                wanted.looked_at = not_negative("MAXLEN")?;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(wanted)
    }
}

pub(super) fn lpos(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let Wanted { rank, count, looked_at } = Wanted::read(args)?;
    let skipped = rank.unsigned_abs() as usize - 1;
    let most = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count as usize,
    };
    let looked_at = if looked_at == 0 { i64::MAX } else { looked_at };
    let found = match List::find(ops, &args[1])? {
        Some(list) => equal(ops, &list, &args[2], rank < 0, skipped.saturating_add(most), looked_at)?,
        None => Vec::new(),
    };
    let found = found.get(skipped..).unwrap_or_default();
    match (count, found) {
        (None, [first, ..]) => out.integer(*first),
        (None, []) => out.null(),
        (Some(_), found) => {
            out.array(found.len());
            found.iter().for_each(|index| out.integer(*index));
        }
    }
    Ok(())
}

/// Which side a word names.
pub(super) fn side(word: &[u8]) -> Result<Side, Fault> {
    match word {
        word if is(word, "left") => Ok(Side::Left),
        word if is(word, "right") => Ok(Side::Right),
        _ => Err(SYNTAX.into()),
    }
}

pub(super) fn lmove(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (from, to) = (side(&args[3])?, side(&args[4])?);
    move_element(ops, args, from, to, out)
}

/// Moves an element from one side of a list to one side of the same or another.
pub(super) fn move_element(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    from: Side,
    to: Side,
    out: &mut Replies,
) -> Result<(), Fault> {
    let found = List::find(ops, &args[1])?;
    move_from(ops, found, args, from, to, out)
}

/// The same, of a list that was found or not.
pub(super) fn move_from(
    ops: &mut Ops<'_, '_>,
    found: Option<List<'_>>,
    args: Args<'_>,
    from: Side,
    to: Side,
    out: &mut Replies,
) -> Result<(), Fault> {
    let Some(mut list) = found else {
        out.null();
        return Ok(());
    };
    if args[1] == args[2] {
        let element = list.pop(ops, from)?.unwrap_or_default();
        list.push(ops, to, &element)?;
        list.finish(ops)?;
        out.bulk(&element);
        return Ok(());
    }
    let mut other = List::find_or_make(ops, &args[2])?;
    let element = list.pop(ops, from)?.unwrap_or_default();
    list.finish(ops)?;
    other.push(ops, to, &element)?;
    other.finish(ops)?;
    out.bulk(&element);
    Ok(())
}
