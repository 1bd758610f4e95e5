//! Places: members of sorted sets whose scores say where they are (`geo.rs`).

use super::sorted_ranges;
use super::sorted_sets::{self, Options};
use super::syntax::{NOT_FLOAT, SYNTAX, integer, is};
use crate::collection::{Scores, SortedSet};
use crate::extended::Extended;
use crate::fault::Fault;
use crate::geo::{Place, Shape};
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::scores;
use std::cmp::Ordering;

/// Reads a longitude and a latitude.
fn place(longitude: &[u8], latitude: &[u8]) -> Result<Place, Fault> {
    let longitude = scores::score(longitude).ok_or(NOT_FLOAT)?;
    let latitude = scores::score(latitude).ok_or(NOT_FLOAT)?;
    let place = Place::new(longitude, latitude);
    place.ok_or_else(|| format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into())
}

/// Reads a unit of lengths, in metres.
fn unit_m(word: &[u8]) -> Result<f64, Fault> {
    match word {
        word if is(word, "m") => Ok(1.0),
        word if is(word, "km") => Ok(1_000.0),
        word if is(word, "ft") => Ok(0.3048),
        word if is(word, "mi") => Ok(1_609.34),
        _ => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}

pub(super) fn add(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (mut options, mut at) = (Options::default(), 2);
    for word in args.from(2) {
        let flag = match () {
            () if is(word, "nx") => &mut options.only_new,
            () if is(word, "xx") => &mut options.only_old,
            () if is(word, "ch") => &mut options.counts_changed,
            () => break,
        };
        *flag = true;
        at += 1;
    }
    let words = args.len() - at;
    if words == 0 || !words.is_multiple_of(3) || options.only_new && options.only_old {
        return Err(SYNTAX.into());
    }
    let starts = (at..args.len()).step_by(3);
    let scored = starts.map(|at| Ok((place(&args[at], &args[at + 1])?.score(), &args[at + 2])));
    let scored = scored.collect::<Result<Vec<_>, Fault>>()?;
    sorted_sets::add(ops, &args[1], scored, options, out)
}

/// Where a member of a set that may not be there is.
fn find(ops: &mut Ops<'_, '_>, set: Option<&SortedSet<'_>>, member: &[u8]) -> Result<Option<Place>, Fault> {
    let Some(set) = set else { return Ok(None) };
    Ok(set.score(ops, member)?.map(Place::at))
}

fn show_distance(distance_m: f64, unit_m: f64, out: &mut Replies) {
    out.bulk(format!("{:.4}", distance_m / unit_m).as_bytes());
}

fn show_place(place: Place, out: &mut Replies) {
    out.array(2);
    for number in [place.longitude, place.latitude] {
        out.digits(&Extended::from(number).text().unwrap_or_default());
    }
}

pub(super) fn distance(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    if args.len() > 5 {
        return Err(SYNTAX.into());
    }
    let unit_m = args.get(4).map_or(Ok(1.0), unit_m)?;
    let set = SortedSet::find(ops, &args[1])?;
    let [one, two] = [find(ops, set.as_ref(), &args[2])?, find(ops, set.as_ref(), &args[3])?];
    match one.zip(two) {
        Some((one, two)) => show_distance(one.distance_m(two), unit_m, out),
        None => out.null(),
    }
    Ok(())
}

/// Answers something about the place of each member, or with what `none` answers.
fn each(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    out: &mut Replies,
    show: fn(Place, &mut Replies),
    none: fn(&mut Replies),
) -> Result<(), Fault> {
    let set = SortedSet::find(ops, &args[1])?;
    out.array(args.len() - 2);
    for member in args.from(2) {
        match find(ops, set.as_ref(), member)? {
            Some(place) => show(place, out),
            None => none(out),
        }
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

pub(super) fn hash(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    each(ops, args, out, |place, out| out.bulk(place.geohash().as_bytes()), Replies::null)
}

pub(super) fn position(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    each(ops, args, out, show_place, Replies::null_array)
}

/// One of the commands that search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// GEOSEARCH, and GEOSEARCHSTORE, where the key that gets the result is the first one.
    Search,
    Store,
    /// GEORADIUS and GEORADIUSBYMEMBER: the middle and the radius have their places. Those with
    /// _RO at the end cannot store.
    Around {
        member: bool,
        stores: bool,
    },
}

/// What is asked for behind the key.
#[derive(Debug, Default)]
struct Wanted<'a> {
    middle: Option<Place>,
    shape: Option<Shape>,
    unit_m: f64,
    order: Option<Ordering>,
    /// All, if it is 0.
    count: usize,
    /// Any of them are as good as the nearest.
    any: bool,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    store: Option<&'a [u8]>,
    stores_distance: bool,
}

impl<'a> Wanted<'a> {
    fn read(
        ops: &mut Ops<'_, '_>,
        set: Option<&SortedSet<'_>>,
        args: Args<'a>,
        form: Form,
    ) -> Result<Wanted<'a>, Fault> {
        let mut wanted = Wanted::default();
        let searches = matches!(form, Form::Search | Form::Store);
        let (mut from, mut by) = (None, None);
        let mut words = args.from(2);
        match form {
            Form::Search => {}
            Form::Store => {
                wanted.store = args.get(1);
                words = args.from(3);
            }
            // As in Redis, a member of nothing needs no radius.
            Form::Around { member: true, .. } if set.is_none() => words = args.from(5),
            Form::Around { member, .. } => {
                let mut next = || words.next().unwrap_or_default();
                wanted.middle = match member {
                    true => Some(known(ops, set, next())?),
                    false => Some(place(next(), next())?),
                };
                wanted.read_radius(next(), next())?;
            }
        }
        while let Some(word) = words.next() {
            let left = words.size_hint().0;
            let mut next = || words.next().unwrap_or_default();
            match () {
                () if is(word, "withdist") => wanted.with_distance = true,
                () if is(word, "withhash") => wanted.with_score = true,
                () if is(word, "withcoord") => wanted.with_place = true,
                () if is(word, "any") => wanted.any = true,
                () if is(word, "asc") => wanted.order = Some(Ordering::Less),
                () if is(word, "desc") => wanted.order = Some(Ordering::Greater),
                () if is(word, "count") && left >= 1 => {
                    let count = Some(integer(next())?).filter(|count| *count > 0);
                    let count = count.ok_or("ERR COUNT must be > 0")?;
                    wanted.count = usize::try_from(count).unwrap_or(usize::MAX);
                }
                () if searches && is(word, "frommember") && left >= 1 && from != Some("lonlat") => {
                    from = Some("member");
                    let member = next();
                    wanted.middle = set.map(|_| known(ops, set, member)).transpose()?;
                }
                () if searches && is(word, "fromlonlat") && left >= 2 && from != Some("member") => {
                    from = Some("lonlat");
                    wanted.middle = Some(place(next(), next())?);
                }
                () if searches && is(word, "byradius") && left >= 2 && by != Some("box") => {
                    by = Some("radius");
                    wanted.read_radius(next(), next())?;
                }
                () if searches && is(word, "bybox") && left >= 3 && by != Some("radius") => {
                    by = Some("box");
                    let width = scores::score(next()).ok_or("ERR need numeric width")?;
                    let height = scores::score(next()).ok_or("ERR need numeric height")?;
                    if width < 0.0 || height < 0.0 {
                        return Err("ERR height or width cannot be negative".into());
                    }
                    wanted.unit_m = unit_m(next())?;
                    let (width_m, height_m) = (width * wanted.unit_m, height * wanted.unit_m);
                    wanted.shape = Some(Shape::Box { width_m, height_m });
                }
                () if form == Form::Store && is(word, "storedist") => wanted.stores_distance = true,
                () if matches!(form, Form::Around { stores: true, .. })
                    && (is(word, "store") || is(word, "storedist"))
                    && left >= 1 =>
                {
                    wanted.stores_distance = is(word, "storedist");
                    wanted.store = Some(next());
                }
                () => return Err(SYNTAX.into()),
            }
        }
        if wanted.store.is_some() && (wanted.with_distance || wanted.with_score || wanted.with_place) {
            let what = if searches { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let with = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
            return Err(format!("ERR {what} {with}").into());
        }
        let command = String::from_utf8_lossy(&args[0]);
        if searches && from.is_none() {
            return Err(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {command}"
            )
            .into());
        }
        if searches && by.is_none() {
            return Err(
                format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {command}").into()
            );
        }
        if wanted.any && wanted.count == 0 {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        // The nearest ones, unless it is said which.
        if wanted.count > 0 && !wanted.any {
            wanted.order.get_or_insert(Ordering::Less);
        }
        Ok(wanted)
    }

    fn read_radius(&mut self, radius: &[u8], unit: &[u8]) -> Result<(), Fault> {
        let radius = scores::score(radius).ok_or("ERR need numeric radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.unit_m = unit_m(unit)?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }
}

/// Where the key stands into which GEORADIUS or GEORADIUSBYMEMBER puts what it finds.
pub(super) fn stored_at(args: Args<'_>) -> Option<usize> {
    let (mut at, mut found) = (5, None);
    while let Some(word) = args.get(at) {
        let stores = is(word, "store") || is(word, "storedist");
        at += if stores { 2 } else { 1 };
        found = if stores { Some(at - 1) } else { found };
    }
    found.filter(|at| *at < args.len())
}

/// Where a member is that a search begins at.
fn known(ops: &mut Ops<'_, '_>, set: Option<&SortedSet<'_>>, member: &[u8]) -> Result<Place, Fault> {
    find(ops, set, member)?.ok_or("ERR could not decode requested zset member".into())
}

/// A member that was found.
struct Near {
    member: Box<[u8]>,
    score: f64,
    place: Place,
    distance_m: f64,
}

/// All that are within, or some if any are as good.
fn search(ops: &mut Ops<'_, '_>, set: &SortedSet<'_>, wanted: &Wanted<'_>) -> Result<Vec<Near>, Fault> {
    let mut found = Vec::new();
    let (Some(middle), Some(shape)) = (wanted.middle, wanted.shape) else { return Ok(found) };
    let most = if wanted.any { wanted.count } else { usize::MAX };
    for cell in shape.cells(middle) {
        let (first, end) = cell.scores();
        let scores = Scores::between((first, false), (end, true));
        set.in_order(ops, scores, false, |member, score| {
            let place = Place::at(score);
            if let Some(distance_m) = shape.distance_m(middle, place) {
                found.push(Near { member: member.into(), score, place, distance_m });
            }
            if found.len() >= most { Enough::Yes } else { Enough::No }
        })?;
        if found.len() >= most {
            break;
        }
    }
    if let Some(order) = wanted.order {
        found.sort_by(|one, two| {
            let ascending = one.distance_m.total_cmp(&two.distance_m);
            if order == Ordering::Less { ascending } else { ascending.reverse() }
        });
    }
    if wanted.count > 0 {
        found.truncate(wanted.count);
    }
    Ok(found)
}

pub(super) fn search_in_form(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    form: Form,
    out: &mut Replies,
) -> Result<(), Fault> {
    let key = args.get(if form == Form::Store { 2 } else { 1 }).unwrap_or_default();
    let set = SortedSet::find(ops, key)?;
    let wanted = Wanted::read(ops, set.as_ref(), args, form)?;
    let found = match &set {
        Some(set) => search(ops, set, &wanted)?,
        None => Vec::new(),
    };
    let Some(key) = wanted.store else {
        show(found, &wanted, out);
        return Ok(());
    };
    let scored = |near: Near| match wanted.stores_distance {
        true => (near.member, near.distance_m / wanted.unit_m),
        false => (near.member, near.score),
    };
    sorted_ranges::store(ops, key, &found.into_iter().map(scored).collect(), out)
}

fn show(found: Vec<Near>, wanted: &Wanted<'_>, out: &mut Replies) {
    let beside = [wanted.with_distance, wanted.with_score, wanted.with_place];
    let beside = beside.into_iter().filter(|wanted| *wanted).count();
    out.array(found.len());
    for Near { member, score, place, distance_m } in found {
        if beside > 0 {
            out.array(1 + beside);
        }
        out.bulk(&member);
        if wanted.with_distance {
            show_distance(distance_m, wanted.unit_m, out);
        }
        if wanted.with_score {
            out.integer(score as i64);
        }
        if wanted.with_place {
            show_place(place, out);
        }
        if out.is_over() {
            break;
        }
    }
}
