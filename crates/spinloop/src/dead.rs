//! Bytes that never run: the padding in front of aligned code.
//!
//! A compiler pads with NOPs so that a loop or a function starts at a multiple of 8 or more.
//! Padding that control can fall into is executed. Padding behind an unconditional jump or a return
//! is not, unless it has a label in front. A *dead run* is padding that cannot have one:
//!
//! 1. It is between two functions, or behind an unconditional jump, a return, or an undefined
//!    instruction.
//! 2. It consists of whole NOPs of two bytes and more (and, between functions, INT3), with at most
//!    one single-byte NOP at the end, as assemblers fill. Rows of single-byte NOPs are left alone:
//!    they are room that is kept for patches at run time, or statements of unoptimised code.
//! 3. Inside a function it ends at a multiple of 8: it aligns the code behind it. Padding behind a
//!    jump over itself is room for patches, and not dead.
//! 4. Nothing refers to it: neither the part it lies in, nor the parts before and behind, nor any
//!    part that this one jumps to (a function's rare part jumps back), by jump, call, address,
//!    constant, or jump table ([`References`]).
//! 5. Inside a function there is no indirect jump whose table is unknown, and no landing pad of an
//!    exception in a part of its own could jump back to it: the part has no table of landing pads.
//! 6. Between functions the whole gap is padding, and the function before it does not end in an
//!    instruction that runs on, or returns, into it.
//!
//! Bytes that are not certain to be dead are not used. The loop then may have no place for a jump.
//! That loses one repair, and never breaks the program.

use crate::far_jumps::FarJumps;
use crate::function::overlap;
use crate::instruction::Flow;
use crate::references::References;
use crate::source::Source;
use crate::x86;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{Code, Mnemonic};

/// How many other parts a part may jump to before they are not all looked at and it has no dead
/// runs.
const OTHERS_MAX: usize = 48;
const OTHER_BYTES_MAX: u64 = 1 << 18;
/// A gap between functions is looked at as far as this.
const GAP_BYTES_MAX: u64 = 512;
/// How far from its target a jump of two bytes can stand, with its own bytes.
const SHORT_REACH: u64 = 130;
/// Parts around a place that are looked at, on either side.
const NEIGHBOURS_MAX: usize = 64;

/// What is known of one part.
struct Survey {
    part: Range<u64>,
    /// Runs inside that fulfil all but 4 as far as neighbours matter.
    runs: Vec<Range<u64>>,
    references: References,
    /// Ends in an instruction that does not run on behind it.
    ends: bool,
}

/// The dead runs of a module, found where they are asked for.
pub(crate) struct Dead<'a> {
    source: Source<'a>,
    surveys: BTreeMap<u64, Option<Survey>>,
    /// What parts refer to that others jump to.
    others: Others,
    /// Collected when they are first asked for.
    far_jumps: Option<FarJumps>,
}

type Others = BTreeMap<u64, Option<References>>;

impl<'a> Dead<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Dead { source, surveys: BTreeMap::new(), others: BTreeMap::new(), far_jumps: None }
    }

    /// Whether one of these parts of a function refers to an address in `range`, as far as code can
    /// tell. Also where the targets of an indirect jump are not known.
    pub(crate) fn is_referenced(&mut self, parts: &[Range<u64>], range: &Range<u64>) -> bool {
        parts.iter().any(|part| {
            self.survey(part)
                .is_none_or(|survey| survey.references.refers_to(range) || survey.references.unknown)
        })
    }

    /// Whether any code of the module may jump to an address in `range`: a long jump anywhere, or a
    /// part in reach of a short one.
    pub(crate) fn is_jumped_to(&mut self, range: &Range<u64>) -> bool {
        let source = self.source;
        if self.far_jumps.get_or_insert_with(|| FarJumps::new(&source)).lead_to(range) {
            return true;
        }
        let reach = range.start.saturating_sub(SHORT_REACH)..range.end.saturating_add(SHORT_REACH);
        let Some(middle) = source.unwind.function(range.start) else { return true };
        let (mut before, mut behind) = (middle.clone(), middle);
        let mut near = Vec::new();
        while let Some(part) = source.unwind.preceding(before.start).filter(|part| part.end > reach.start) {
            near.push(part.clone());
            before = part;
        }
        while let Some(part) = source.unwind.following(behind.start).filter(|part| part.start < reach.end) {
            near.push(part.clone());
            behind = part;
        }
        near.iter().any(|part| self.survey(part).is_none_or(|survey| survey.references.refers_to(range)))
    }

    fn survey(&mut self, part: &Range<u64>) -> Option<&Survey> {
        let (source, others) = (&self.source, &mut self.others);
        let survey = self.surveys.entry(part.start).or_insert_with(|| Survey::new(source, part, others));
        survey.as_ref()
    }

    /// The dead runs that touch `window`, which should hold `address`, in ascending order.
    pub(crate) fn runs(&mut self, address: u64, window: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let Some(middle) = self.source.unwind.function(address) else { return Vec::new() };
        let mut part = Some(middle.clone());
        while let Some(before) = part.take().filter(|_| parts.len() < NEIGHBOURS_MAX) {
            if before.end > window.start {
                part = self.source.unwind.preceding(before.start);
            }
            parts.push(before);
        }
        parts.reverse();
        let mut part = self.source.unwind.following(middle.start);
        while let Some(behind) = part.take().filter(|_| parts.len() < 2 * NEIGHBOURS_MAX) {
            if behind.start < window.end {
                part = self.source.unwind.following(behind.start);
            }
            parts.push(behind);
        }
        for part in &parts {
            if !self.surveys.contains_key(&part.start) {
                let survey = Survey::new(&self.source, part, &mut self.others);
                self.surveys.insert(part.start, survey);
            }
        }
        let surveys: Vec<Option<&Survey>> =
            parts.iter().map(|part| self.surveys.get(&part.start).and_then(Option::as_ref)).collect();

        let mut runs = Vec::new();
        for (n, &here) in surveys.iter().enumerate() {
            let Some(here) = here else { continue };
            // The outermost parts are there for their references only, unless nothing lies beyond
            // them.
            let side = |at: Option<usize>, is_last: bool| match at.and_then(|at| surveys.get(at)) {
                Some(&neighbour) => neighbour.map(|neighbour| Some(&neighbour.references)),
                None => is_last.then_some(None),
            };
            let unwind = &self.source.unwind;
            let before = side(n.checked_sub(1), unwind.is_first(here.part.start));
            let behind = side(n.checked_add(1), unwind.is_last(here.part.start));
            if let (Some(before), Some(behind)) = (before, behind) {
                let referenced = |run: &&Range<u64>| {
                    before.into_iter().chain(behind).any(|references| references.refers_to(run))
                };
                runs.extend(here.runs.iter().filter(|run| !referenced(run)).cloned());
            }
        }
        for two in surveys.windows(2) {
            if let [Some(before), Some(behind)] = two {
                runs.extend(self.gap(before, behind));
            }
        }
        runs.retain(|run| overlap(run, window));
        runs.sort_by_key(|run| run.start);
        runs
    }

    /// The gap between two parts, if it is dead.
    fn gap(&self, before: &Survey, behind: &Survey) -> Option<Range<u64>> {
        let gap = before.part.end..behind.part.start;
        if !before.ends
            || gap.end <= gap.start
            || gap.end - gap.start > GAP_BYTES_MAX
            || !self.source.text.holds(&gap)
        {
            return None;
        }
        if before.references.refers_to(&gap) || behind.references.refers_to(&gap) {
            return None;
        }
        let mut fill = Fill::default();
        for instruction in x86::decoder(self.source.bytes(&gap)?, gap.start) {
            let trap = instruction.code() == Code::Int3;
            if !trap && (instruction.mnemonic() != Mnemonic::Nop || !fill.take(instruction.len())) {
                return None;
            }
        }
        Some(gap)
    }
}

/// Tells an assembler's fill from rows of single-byte NOPs.
#[derive(Default)]
struct Fill {
    single: bool,
}

impl Fill {
    /// Takes the next NOP of this many bytes; whether it may belong to the same fill.
    fn take(&mut self, length: usize) -> bool {
        let fits = !self.single;
        self.single = length == 1;
        fits
    }
}

impl Survey {
    fn new(source: &Source<'_>, part: &Range<u64>, others: &mut Others) -> Option<Survey> {
        // The size is checked by the same rule as for analysis.
        source.part(part.start).ok().filter(|checked| checked == part)?;
        let references = match others.get(&part.start) {
            Some(known) => known.clone()?,
            None => References::new(source, part)?,
        };
        let (mut runs, ends) = padding(source, part)?;
        if references.unknown || source.unwind.has_landing_pads(part.start) {
            runs.clear();
        }
        runs.retain(|run| !references.refers_to(run));
        if !runs.is_empty() && !retain_unless_others_refer(source, part, &references, &mut runs, others) {
            runs.clear();
        }
        Some(Survey { part: part.clone(), runs, references, ends })
    }
}

/// Drops the runs that are referred to by the parts that `part` jumps to. Whether all of them could
/// be read.
fn retain_unless_others_refer(
    source: &Source<'_>,
    part: &Range<u64>,
    references: &References,
    runs: &mut Vec<Range<u64>>,
    others: &mut Others,
) -> bool {
    let mut seen: Vec<Range<u64>> = Vec::new();
    let mut bytes = 0;
    for &target in &references.jumps {
        if part.contains(&target) || seen.iter().any(|other| other.contains(&target)) {
            continue;
        }
        // A place without unwind information, such as the linkage table's, is another function.
        let Ok(other) = source.part(target) else { continue };
        bytes += other.end - other.start;
        if seen.len() >= OTHERS_MAX || bytes > OTHER_BYTES_MAX {
            return false;
        }
        match others.entry(other.start).or_insert_with(|| References::new(source, &other)) {
            Some(theirs) => runs.retain(|run| !theirs.refers_to(run)),
            None => return false,
        }
        seen.push(other);
    }
    true
}

/// The runs of `part` by 1 to 3, and whether its last instruction does not run on.
fn padding(source: &Source<'_>, part: &Range<u64>) -> Option<(Vec<Range<u64>>, bool)> {
    let mut runs = Vec::new();
    let mut flow = Flow::Next;
    // Where the run began, where it was last aligned, and what fills it.
    let mut open: Option<(Range<u64>, Fill)> = None;
    let mut over = None;
    for instruction in x86::decoder(source.bytes(part)?, part.start) {
        let ends = matches!(flow, Flow::Jump(_) | Flow::Indirect | Flow::Stop);
        if instruction.mnemonic() == Mnemonic::Nop {
            if ends {
                over = if let Flow::Jump(target) = flow { Some(target) } else { None };
                open = Some((instruction.ip()..instruction.ip(), Fill::default()));
            }
            let next = instruction.next_ip();
            let fits = open.as_mut().is_some_and(|(run, fill)| {
                let fits = fill.take(instruction.len());
                if fits && next.is_multiple_of(8) {
                    run.end = next;
                }
                fits
            });
            if !fits {
                close(&mut runs, open.take(), over);
            }
        } else {
            close(&mut runs, open.take(), over);
        }
        flow = x86::flow(&instruction)?;
    }
    close(&mut runs, open.take(), over);
    Some((runs, matches!(flow, Flow::Jump(_) | Flow::Indirect | Flow::Stop)))
}

fn close(runs: &mut Vec<Range<u64>>, open: Option<(Range<u64>, Fill)>, over: Option<u64>) {
    if let Some((run, _)) = open
        && run.end >= run.start + 2
        && over != Some(run.end)
    {
        runs.push(run);
    }
}
