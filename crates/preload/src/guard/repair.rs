//! The sites of one module: a jump from each loop into its copy, or left alone with a reason; and
//! given up again.
//!
//! The order of the writes makes this safe. First what no thread can reach yet: the loops' copies,
//! and, where a jump is a short one, the jumps in dead bytes that lead to the copy. Then the jumps
//! themselves, each in one store while other threads may run through it. A thread runs a loop as it
//! was or the finished way, nothing in between. A copy lives as long as its module: its room is
//! free only when the code that led to it is unmapped. Unwind data stand behind the copy
//! ([`super::frames`]).
//!
//! A library may have a thousand loops. So all copies are written before the first jump, and all
//! dead bytes, each with few calls of the kernel's ([`Text::write_all`]).

use super::code_space::{CodeSpace, Piece};
use super::plan::{Entrance, Form, NO_ROW, NOT_COPIED, Repairable};
use super::text::{Edit, SPAN_BYTES_MAX, Text, Traffic};
use super::trampoline::hooks;
use crate::site::Site;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;
use platform::memory::synchronise_cores;
use preload_abi::live::How;
use spinloop::relocation::Bases;
use spinloop::{near_jump, short_jump};

const NOT_WRITABLE: &str = "its text cannot be written";
/// The size of the jump in the place of a row.
const JUMP_BYTES: usize = 5;
const NO_ROOM: &str = "there is no room for its copy";

/// A site that was repaired, and what is needed to give it up.
pub struct Repair {
    /// The site.
    pub site: &'static Site,
    /// Where the jump stands, and what.
    jump: Edit,
    /// Where the loop's copy is.
    copy: Piece,
}

/// What repairing needs to know of the moment and of the module.
pub struct Repairer<'a> {
    /// The way to write text.
    pub text: &'a Text,
    /// Where copies go.
    pub code_space: &'a mut CodeSpace,
    /// All that the module takes.
    pub extent: Range<usize>,
    /// What to add to an address in its file for the address in memory.
    pub bias: usize,
    /// The segments of its text.
    pub segments: Vec<Range<usize>>,
    /// Whether threads can be in the module.
    pub quiet: Quiet,
}

/// Whether threads can be in a module.
pub enum Quiet {
    /// No thread can be.
    Yes,
    /// Only the calling thread, which goes on at these places.
    But(Vec<usize>),
    /// Any thread can be.
    No,
}

impl Quiet {
    /// Whether a jump may take the place of several instructions at `at`.
    fn allows_row(&self, at: usize) -> bool {
        // A thread that goes on at `at` itself takes the jump.
        let inside = at + 1..at + JUMP_BYTES;
        match self {
            Quiet::Yes => true,
            Quiet::But(places) => !places.iter().any(|place| inside.contains(place)),
            Quiet::No => false,
        }
    }
}

/// A loop that is to be repaired.
pub struct Job<'a> {
    /// The site, by which a waiter finds its data.
    pub site: &'static Site,
    /// The plan of the repair.
    pub plan: &'a Repairable<'a>,
}

/// A loop whose copy nothing leads to yet.
struct Copied<'a> {
    job: Job<'a>,
    copy: Piece,
}

/// A loop that stays as it was, and why, in a few words.
pub type Left = (&'static Site, &'static str);

impl Repairer<'_> {
    /// Repairs what can be repaired. `attach` gets the sites before threads are led there.
    ///
    /// # Safety
    /// The plans must be the finder's for this module, and the module's text as the finder saw it;
    /// `quiet` must be true.
    pub unsafe fn repair(
        &mut self,
        jobs: Vec<Job<'_>>,
        attach: &dyn Fn(&[&'static Site]),
    ) -> (Vec<Repair>, Vec<Left>) {
        let mut left = Vec::new();
        if jobs.is_empty() {
            // As in most modules: no core has to be asked to look again, which takes milliseconds
            // the first time.
            return (Vec::new(), left);
        }
        let copied = self.copy(jobs, &mut left);
        attach(&copied.iter().map(|one| one.job.site).collect::<Vec<_>>());
        // SAFETY: as the caller promised; the copies are complete.
        let repairs = unsafe { self.jump(copied, &mut left) };
        (repairs, left)
    }

    /// Makes the copies.
    fn copy<'a>(&mut self, jobs: Vec<Job<'a>>, left: &mut Vec<Left>) -> Vec<Copied<'a>> {
        let mut copied = Vec::with_capacity(jobs.len());
        // Pieces are mostly given out one behind the other: what touches is written at once.
        let mut run = Vec::new();
        let mut first = 0;
        for job in jobs {
            let Some(copy) = self.code_space.take(&self.extent, job.plan.bytes()) else {
                left.push((job.site, NO_ROOM));
                continue;
            };
            let begins = copied.last().is_none_or(|last: &Copied<'_>| last.copy.code.end != copy.code.start);
            if begins || run.len() > SPAN_BYTES_MAX {
                self.write_copies(&mut copied, first, &run, left);
                first = copied.len();
                run.clear();
            }
            let begin = run.len();
            let hooks = hooks(job.site, core::ptr::from_ref(copy.word()).addr());
            let made = hooks.and_then(|hooks| {
                let to = Bases { copy: copy.code.start as u64, module: self.bias as u64, hooks };
                job.plan.copy(&mut run, &to)
            });
            if made.is_some() {
                run.resize(run.len().next_multiple_of(Piece::ALIGN), 0);
                copied.push(Copied { job, copy });
            } else {
                run.truncate(begin);
                self.give_up(Vec::from([Copied { job, copy }]), NOT_COPIED, left);
            }
        }
        self.write_copies(&mut copied, first, &run, left);
        copied
    }

    /// Writes the copies from number `first` on, which touch.
    fn write_copies(&mut self, copied: &mut Vec<Copied<'_>>, first: usize, run: &[u8], left: &mut Vec<Left>) {
        let Some(start) = copied.get(first).map(|one| one.copy.code.start) else { return };
        // SAFETY: nothing leads to these pieces yet.
        if unsafe { self.text.write(start, run) }.is_err() {
            self.give_up(copied.split_off(first), NOT_WRITABLE, left);
            return;
        }
        for Copied { job, copy } in &copied[first..] {
            if let Some(frame) = job.plan.frame {
                copy.has_frame(job.plan.bytes(), frame);
            }
        }
    }

    /// Gives up copies that nothing leads to.
    fn give_up(&mut self, copied: Vec<Copied<'_>>, reason: &'static str, left: &mut Vec<Left>) {
        for one in copied {
            self.code_space.give_back(one.copy);
            left.push((one.job.site, reason));
        }
    }

    /// Leads threads into the copies.
    ///
    /// # Safety
    /// As [`Repairer::repair`]; the copies must be complete.
    unsafe fn jump(&mut self, copied: Vec<Copied<'_>>, left: &mut Vec<Left>) -> Vec<Repair> {
        let mut ready = Vec::with_capacity(copied.len());
        let (mut jumps_in, mut dead) = (Vec::with_capacity(copied.len()), Vec::new());
        for one in copied {
            let entry = (one.copy.code.start + one.job.plan.entry) as u64;
            let begin = dead.len();
            match entry_jump(&one.job.plan.entrance, self.bias, entry, &self.quiet, &mut dead) {
                Ok(jump) => {
                    jumps_in.push((begin..dead.len(), jump));
                    ready.push(one);
                }
                Err(reason) => {
                    dead.truncate(begin);
                    self.give_up(Vec::from([one]), reason, left);
                }
            }
        }
        let running = matches!(self.quiet, Quiet::No);
        let (in_dead, in_loops) =
            if running { (Traffic::Beside, Traffic::Through) } else { (Traffic::None, Traffic::None) };
        // SAFETY: these bytes are dead, as the caller promised; no thread is in a quiet module.
        let dead = unsafe { self.write_all(&dead, in_dead) };
        let reached = |(range, _): &(Range<usize>, Edit)| dead[range.clone()].iter().all(|written| *written);
        let jumps: Vec<Edit> =
            jumps_in.iter().filter(|jump_in| reached(jump_in)).map(|(_, jump)| *jump).collect();
        if running {
            // Dead bytes and copies must be seen by every core before the jumps that lead there.
            // Where the kernel has no such barrier, the next interrupt on each CPU serialises as
            // well.
            let _ = synchronise_cores();
        }
        // SAFETY: as the caller promised. No thread stands between instructions that are replaced:
        // `entry_jump` has refused rows where one could.
        let written = unsafe { self.write_all(&jumps, in_loops) };
        if running {
            let _ = synchronise_cores();
        }
        let mut written = written.into_iter();
        let mut repairs = Vec::with_capacity(ready.len());
        for (one, jump_in) in ready.into_iter().zip(&jumps_in) {
            if reached(jump_in) && written.next() == Some(true) {
                repairs.push(one.repaired(jump_in.1));
            } else {
                self.give_up(Vec::from([one]), NOT_WRITABLE, left);
            }
        }
        repairs
    }

    /// # Safety
    /// As [`Text::write_all`], in the module's text.
    unsafe fn write_all(&self, edits: &[Edit], traffic: Traffic) -> Vec<bool> {
        let first = edits.first().map_or(0, |edit| edit.address);
        let segment = self.segments.iter().find(|range| range.contains(&first)).cloned().unwrap_or_default();
        // SAFETY: as the caller promised.
        unsafe { self.text.write_all(edits, &segment, traffic) }
    }
}

impl Copied<'_> {
    /// Threads come here.
    fn repaired(self, jump: Edit) -> Repair {
        let Job { site, plan } = self.job;
        site.set_how(How::Jump);
        // A site that keeps statistics counts every round.
        if plan.spins && site.record().is_none() {
            site.rounds.store(core::ptr::from_ref(self.copy.word()).cast_mut(), Ordering::Release);
            site.set_unseen_rounds(super::visit::UNSEEN_ROUNDS);
        }
        Repair { site, jump, copy: self.copy }
    }
}

/// The jump that leads to `entry`. What has to stand in dead bytes before is added to `dead`.
fn entry_jump(
    entrance: &Entrance,
    bias: usize,
    entry: u64,
    quiet: &Quiet,
    dead: &mut Vec<Edit>,
) -> Result<Edit, &'static str> {
    const TOO_FAR: &str = "its way is too far";
    let placed = |address: usize| bias.wrapping_add(address);
    let at = placed(entrance.at);
    let near = |from: usize, to: u64| near_jump(from as u64, to).ok_or(TOO_FAR);
    let short = |from: usize, to: usize| short_jump(from as u64, to as u64).ok_or(TOO_FAR);
    match entrance.form {
        Form::Row if !quiet.allows_row(at) => Err(NO_ROW),
        Form::Whole | Form::Row => Ok(Edit::new(at, &near(at, entry)?)),
        Form::Call => Ok(Edit::new(at + 1, &near(at, entry)?[1..])),
        Form::Short { hops, landing } => {
            let landing = placed(landing);
            dead.push(Edit::new(landing, &near(landing, entry)?));
            let mut from = at;
            let mut first = None;
            for to in hops.into_iter().flatten().map(placed).chain([landing]) {
                let jump = Edit::new(from, &short(from, to)?);
                match first {
                    None => first = Some(jump),
                    Some(_) => dead.push(jump),
                }
                from = to;
            }
            first.ok_or(TOO_FAR)
        }
    }
}

impl Repair {
    /// Where the loop's copy is.
    pub fn copy(&self) -> &Range<usize> {
        &self.copy.code
    }

    /// Whether the module still holds what was written (it may have been closed and opened again).
    /// Of a long jump the first byte does not count: a breakpoint may stand there.
    ///
    /// # Safety
    /// The site's module must be mapped.
    pub unsafe fn stands(&self) -> bool {
        let bytes = self.jump.bytes();
        let skip = usize::from(bytes.len() == JUMP_BYTES);
        // SAFETY: as the caller promised.
        unsafe { super::text::holds(self.jump.address + skip, &bytes[skip..]) }
    }

    /// Forgets a site whose module is gone.
    pub fn close(self, code_space: &mut CodeSpace) -> &'static Site {
        self.site.set_how(How::Closed);
        self.site.rounds.store(core::ptr::null_mut(), Ordering::Release);
        code_space.give_back(self.copy);
        self.site
    }
}
