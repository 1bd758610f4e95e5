//! The limits themselves, each from the files that say it.
//!
//! A file that is not there says nothing: its controller is not at work in that group. A file that
//! is there and cannot be read, or is not what it should be, is a doubt.

use super::Weight;
use super::files::{Files, is_missing, words};
use super::groups::{Group, Place};
use super::layout::Layout;
use super::limit::LimitKind;
use super::quota::{self, Malformed, Quota};
use crate::cpu::CpuSet;

/// Lists of the CPUs that are online, the best list first.
const ONLINE: [&str; 3] = ["online", "present", "possible"];

/// Returns the CPUs that are online, the CPUs of the group, and the CPUs of the thread: the sets
/// that are known.
pub(super) fn sets(
    files: &Files,
    layout: &Layout,
    affinity: Option<&CpuSet>,
    warnings: &mut Vec<String>,
) -> Vec<LimitKind> {
    let mut found = Vec::with_capacity(4);
    let path = |name| format!("/sys/devices/system/cpu/{name}").into_bytes();
    let online = ONLINE.into_iter().find_map(|name| list(&files.read_piece(&path(name)).ok()?));
    match online {
        Some(cpus) => found.push(LimitKind::Online { cpus: Box::new(cpus) }),
        None => warnings.push("/sys/devices/system/cpu/online says nothing".into()),
    }
    for places in &layout.cpuset {
        let names: &[&str] = match places.first() {
            Some(place) if place.group.unified => &["cpuset.cpus.effective"],
            _ => &["cpuset.effective_cpus", "cpuset.cpus"],
        };
        // A group whose controller is not at work, or that says nothing of its own, has its
        // parent's CPUs.
        let said =
            |place: &Place| names.iter().find_map(|name| list(&files.read_piece(&place.file(name)).ok()?));
        if let Some((cpus, group)) = places.iter().find_map(|it| Some((said(it)?, it.group.clone()))) {
            found.push(LimitKind::Cpuset { cpus: Box::new(cpus), group });
        }
    }
    match affinity.filter(|it| !it.is_empty()) {
        Some(cpus) => found.push(LimitKind::Affinity { cpus: Box::new(cpus.clone()) }),
        None => warnings.push("the kernel does not tell the affinity".into()),
    }
    found
}

/// A list of CPUs that has some.
fn list(text: &[u8]) -> Option<CpuSet> {
    let cpus: CpuSet = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (!cpus.is_empty()).then_some(cpus)
}

/// The quotas of the process' groups and of all above them.
pub(super) fn quotas(files: &Files, layout: &Layout, warnings: &mut Vec<String>) -> Vec<(Quota, Group)> {
    let mut found = Vec::new();
    for place in layout.with_quotas() {
        match quota(files, place) {
            Ok(Some(quota)) => found.push((quota, place.group.clone())),
            Ok(None) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    found
}

/// The quota of one group, with its burst; `None` if it has none. An error says what cannot be
/// read.
pub(super) fn quota(files: &Files, place: &Place) -> Result<Option<Quota>, String> {
    let microseconds = |text: &[u8]| quota::microseconds(text).map(Some);
    let (found, burst) = if place.group.unified {
        (value(files, place, "cpu.max", quota::cpu_max)?, "cpu.max.burst")
    } else {
        let time = value(files, place, "cpu.cfs_quota_us", quota::cfs_quota)?;
        let Some(time) = time else { return Ok(None) };
        let period = value(files, place, "cpu.cfs_period_us", microseconds)?.unwrap_or_default();
        let quota = quota::in_period(time, period);
        (Some(quota.map_err(|_| nonsense(place, "cpu.cfs_period_us"))?), "cpu.cfs_burst_us")
    };
    let burst = |quota: Quota| {
        let text = files.read_piece(&place.file(burst)).ok();
        let burst = text.and_then(|text| quota::microseconds(&text).ok()).unwrap_or_default();
        Quota { burst, ..quota }
    };
    Ok(found.map(burst))
}

/// What a file of a group says: nothing if it is not there.
fn value<T>(
    files: &Files,
    place: &Place,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<Option<T>, Malformed>,
) -> Result<Option<T>, String> {
    match files.read_piece(&place.file(name)) {
        Ok(text) => parse(&text).map_err(|_| nonsense(place, name)),
        Err(error) if is_missing(error) => Ok(None),
        Err(error) => Err(format!("{name} of {} {}", place.group, words(error))),
    }
}

fn nonsense(place: &Place, name: &str) -> String {
    format!("{name} of {} is not what it should be", place.group)
}

/// The weight of the process' own group, of the hierarchy that has the controller.
pub(super) fn weight(files: &Files, layout: &Layout) -> Option<Weight> {
    let own = layout.cpu.iter().filter_map(|places| places.first());
    own.filter(|place| place.group.levels_up == 0).find_map(|place| {
        let number = |name: &str| quota::number(&files.read_piece(&place.file(name)).ok()?).ok();
        let weight = if place.group.unified {
            number("cpu.weight").map(Weight::Weight)
        } else {
            number("cpu.shares").map(Weight::Shares)
        };
        weight.map(|weight| if number("cpu.idle") == Some(1) { Weight::Idle } else { weight })
    })
}
