//! What a thread remembers of its epochs: 24 bytes each, and which of them are open.
//!
//! Epochs are known by numbers that the program chooses. A hash table (`index.rs`) has the number
//! of each epoch's record. Records never move: they lie in chunks, each twice as large as the one
//! before. All of it is mapped when the thread first begins an epoch, and grows by doubling.
//! Nothing comes from `malloc`, so that the preload library may keep it as well.
//! A thread that has begun [`EPOCHS_MAX`] different epochs, or for which there is no memory, begins
//! no more new ones: those go unseen, and locks treat them as if they were in no epoch.
//!
//! Open epochs are a stack, linked through the records, so nesting may be as deep as the program
//! likes. The innermost one rules. An epoch may be inside of one with the same id: then the outer
//! one's start and its place in the stack are kept in a spare record, and it goes on when the inner
//! one has ended. Both have one window. Up to [`NESTED_MAX`] are kept so; beyond that the outer one
//! is forgotten, so that a program that begins epochs again and again and never ends them does not
//! fill the memory.
//!
//! Mistakes are harmless:
//! - an epoch that ends while inner ones are open is taken out from under them;
//! - an epoch that ends without having begun is ignored;
//! - an epoch that never ends stays open below the others;
//! - an epoch that a handler of a signal begins or ends while it interrupts a call of these goes
//!   unseen.
//!
//! The calling thread has a [`Thread`] of its own, and the functions at the end of this file use
//! it. If the preload library is in the process, its functions of the same meaning
//! (`manx_epoch_start` and so on) keep another one, for the program's pthread mutexes. The C
//! interface uses that one if it is there, and tells us ([`set_window_source`]).
//!
//! Invariants:
//! 1. A [`Thread`] and its memory are used by its own thread only, and by one call at a time: a
//!    handler of a signal that interrupts one finds `busy` set, and does nothing.
//! 2. `table` is null, or points to a `Table` whose chunks hold at least `count` records. The first
//!    `count` of them are initialized (all-zero is), and every number in the index or in a chain is
//!    less than `count`.
//! 3. The chain that starts at `open` has no loops: a record is linked in only when its own link
//!    says that it is not in the chain.
//! 4. A spare record is in the chain exactly while the table's list of nested epochs (the first
//!    `nested` entries) has it. Then its id's own record is in the chain too, further in: so the
//!    innermost epoch has its own record.
//! 5. `record` is null, or points to record `found` - 1, whose id is `id`; forgotten when the table
//!    is freed.

use super::feedback::Feedback;
use super::index::Index;
use super::longest::window_ns_max;
use super::percentile::Percentile;
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{Ordering, compiler_fence};
use platform::clock::{ticks, ticks_to_ns};
use platform::memory::{READ, WRITE, map_zeroes, unmap};
use std::sync::OnceLock;

/// How many different epochs a thread can have.
pub const EPOCHS_MAX: u32 = 1 << 20;

/// How many epochs of a thread can go on around others of the same id.
pub const NESTED_MAX: usize = 16;

/// What a thread keeps of each kind of epoch, and of the one that is open.
#[repr(C)]
struct Record {
    /// When the open epoch began.
    start_ticks: u64,
    feedback: Feedback,
    /// [`NOT_OPEN`], or the index of the epoch around it plus 2 ([`OUTERMOST`] if there is none).
    outer: u32,
}

/// The size of the record that a thread keeps of each kind of epoch, in bytes.
pub const RECORD_BYTES: usize = size_of::<Record>();
const _: () = assert!(RECORD_BYTES == 24);

const NOT_OPEN: u32 = 0;
const OUTERMOST: u32 = 1;

/// Records in the first chunk, as a power of two.
const FIRST_CHUNK: u32 = 6;
const CHUNKS: usize = (EPOCHS_MAX.ilog2() - FIRST_CHUNK) as usize + 1;

/// An open epoch around another one of the same id.
#[derive(Clone, Copy)]
#[repr(C)]
struct Nested {
    /// Where the id's own record is: its index plus 1.
    own: u32,
    /// Where the spare record is that has the outer epoch: its index plus 1; 0 before the first
    /// use.
    spare: u32,
}

struct Table {
    /// The epochs that go on, in the order in which they were nested; behind these are spare
    /// records for later.
    nested: [Nested; NESTED_MAX],
    /// Records that are in use.
    count: u32,
    /// From ids to records.
    index: Index,
    chunks: [*mut Record; CHUNKS],
}

/// A thread's epochs; all-zero to begin with. The code that keeps a `Thread` calls [`Thread::free`]
/// when the thread ends.
#[derive(Debug)]
#[repr(C)]
pub struct Thread {
    table: Cell<*mut Table>,
    /// The record that was looked for last, if this is not null …
    record: Cell<*mut Record>,
    /// … its id …
    id: Cell<u64>,
    /// … and its index plus 1.
    found: Cell<u32>,
    /// The index of the innermost epoch's record plus 1; 0: none is open.
    open: Cell<u32>,
    /// Epochs that go on around others of the same id.
    nested: Cell<u8>,
    /// A call is using the rest.
    busy: Cell<bool>,
}

const _: () = assert!(NESTED_MAX <= u8::MAX as usize);

/// A call in progress.
struct Call<'a> {
    busy: &'a Cell<bool>,
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
    }
}

impl Default for Thread {
    fn default() -> Thread {
        Thread::new()
    }
}

impl Thread {
    /// A thread without epochs.
    pub const fn new() -> Thread {
        Thread {
            table: Cell::new(null_mut()),
            record: Cell::new(null_mut()),
            id: Cell::new(0),
            found: Cell::new(0),
            open: Cell::new(0),
            nested: Cell::new(0),
            busy: Cell::new(false),
        }
    }

    /// Begins an epoch, inside of the open ones. Returns whether it is seen.
    #[inline]
    pub fn start(&self, id: u64) -> bool {
        let Some(_call) = self.enter() else { return false };
        if !self.knows(id) && !self.look_up(id, true) {
            return false;
        }
        if self.found_record().outer != NOT_OPEN && !self.nest() {
            self.take_out();
        }
        let record = self.found_record();
        record.outer = self.open.replace(self.found.get()) + OUTERMOST;
        record.start_ticks = ticks();
        true
    }

    /// The epoch ends, and was to end within `slo_ns`. Returns its latency in nanoseconds, unless
    /// it is not open.
    #[inline]
    pub fn end(&self, id: u64, slo_ns: u64, percentile: Percentile, window_ns_max: u64) -> Option<u64> {
        self.end_then(id, ticks(), slo_ns, percentile, window_ns_max)
    }

    /// As [`Thread::end`], for an epoch that ended at `now_ticks`, in ticks of `platform::clock`.
    #[inline]
    pub fn end_then(
        &self,
        id: u64,
        now_ticks: u64,
        slo_ns: u64,
        percentile: Percentile,
        window_ns_max: u64,
    ) -> Option<u64> {
        let _call = self.enter()?;
        let (start_ticks, record) = self.close(id)?;
        // A clock that went back says nothing.
        let latency_ticks = now_ticks.wrapping_sub(start_ticks);
        if latency_ticks > i64::MAX as u64 {
            return None;
        }
        let latency_ns = ticks_to_ns(latency_ticks);
        record.feedback.ended(latency_ns, slo_ns, percentile, window_ns_max);
        Some(latency_ns)
    }

    /// The epoch ends and counts for nothing. Returns whether it was open.
    pub fn abandon(&self, id: u64) -> bool {
        let Some(_call) = self.enter() else { return false };
        self.close(id).is_some()
    }

    /// Records the end of an epoch whose latency is known from elsewhere, such as an epoch that
    /// began on another thread.
    pub fn report(&self, id: u64, latency_ns: u64, slo_ns: u64, percentile: Percentile, window_ns_max: u64) {
        let Some(_call) = self.enter() else { return };
        if self.knows(id) || self.look_up(id, true) {
            self.found_record().feedback.ended(latency_ns, slo_ns, percentile, window_ns_max);
        }
    }

    /// For how long the thread may be overtaken: the window of the innermost epoch, in nanoseconds.
    /// `None` outside of any epoch.
    #[inline]
    pub fn window_ns(&self) -> Option<u64> {
        let open = self.open.get();
        if open == 0 {
            return None;
        }
        let _call = self.enter()?;
        self.existing_table().map(|table| table.record(open - 1).feedback.window_ns())
    }

    /// The innermost open epoch. Not a cheap question.
    pub fn current(&self) -> Option<u64> {
        let _call = self.enter()?;
        let index = self.open.get().checked_sub(1)?;
        self.existing_table()?.index.id_of(index)
    }

    /// The window that the next epoch with this id will have, in nanoseconds, if there was one.
    pub fn window_ns_of(&self, id: u64) -> Option<u64> {
        let _call = self.enter()?;
        let table = self.existing_table()?;
        table.index.find(id).map(|index| table.record(index).feedback.window_ns())
    }

    /// How many different epochs the thread has had.
    pub fn known(&self) -> u32 {
        let Some(_call) = self.enter() else { return 0 };
        self.existing_table().map_or(0, |table| table.count - table.spares())
    }

    /// Forgets all epochs and gives their memory back.
    pub fn free(&self) {
        let Some(_call) = self.enter() else { return };
        let table = self.table.replace(null_mut());
        self.open.set(0);
        self.nested.set(0);
        self.found.set(0);
        self.record.set(null_mut());
        if table.is_null() {
            return;
        }
        // SAFETY: Invariant 2; no other code uses any of it (Invariant 1), and this thread has
        // forgotten it.
        unsafe {
            let chunks = (*table).chunks;
            for (number, chunk) in chunks.into_iter().enumerate().filter(|(_, chunk)| !chunk.is_null()) {
                let _ = unmap(chunk.cast(), bytes_of_chunk(number));
            }
            core::ptr::drop_in_place(table);
            let _ = unmap(table.cast(), size_of::<Table>());
        }
    }

    /// A call begins, unless it interrupts another one (Invariant 1).
    #[inline]
    fn enter(&self) -> Option<Call<'_>> {
        if self.busy.replace(true) {
            return None;
        }
        // Between this thread and its handlers the compiler alone could change the order.
        compiler_fence(Ordering::SeqCst);
        Some(Call { busy: &self.busy })
    }

    /// Ends the epoch as far as the stack is concerned, and returns when it began, and its record.
    #[inline]
    fn close(&self, id: u64) -> Option<(u64, &mut Record)> {
        if !self.knows(id) && !self.look_up(id, false) {
            return None;
        }
        let record = self.found_record();
        if record.outer == NOT_OPEN {
            return None;
        }
        let start_ticks = record.start_ticks;
        if self.open.get() == self.found.get() {
            self.open.set(record.outer - OUTERMOST);
            record.outer = NOT_OPEN;
        } else {
            self.take_out();
        }
        if self.nested.get() > 0 {
            self.go_on();
        }
        Some((start_ticks, self.found_record()))
    }

    /// Whether this id was looked for last.
    #[inline]
    fn knows(&self, id: u64) -> bool {
        self.id.get() == id && !self.record.get().is_null()
    }

    /// The record that was looked for last: there is one.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is this thread's own, and no reference outlives a call"
    )]
    fn found_record(&self) -> &mut Record {
        debug_assert!(!self.record.get().is_null());
        // SAFETY: set by `look_up`, and records never move while there is a table (Invariants 2 and
        // 5). As in `existing_table` for the reference.
        unsafe { &mut *self.record.get() }
    }

    /// Looks for a record, or makes one; whether there is one now.
    #[inline(never)]
    fn look_up(&self, id: u64, add: bool) -> bool {
        let table = if add { self.table() } else { self.existing_table() };
        let Some(table) = table else { return false };
        let index = if add { table.find_or_add(id) } else { table.index.find(id) };
        let Some(index) = index else { return false };
        self.record.set(table.record(index));
        self.id.set(id);
        self.found.set(index + 1);
        true
    }

    /// Takes the open epoch that was looked for last out of the stack, wherever it is.
    #[cold]
    fn take_out(&self) {
        let Some(table) = self.existing_table() else { return };
        let index = self.found.get() - 1;
        let outer = core::mem::replace(&mut table.record(index).outer, NOT_OPEN);
        self.relink(table, index + 1, outer - OUTERMOST);
    }

    /// Keeps the open epoch that was looked for last while another one of its id is open inside of
    /// it. False if too many are kept, or there is no memory.
    #[cold]
    fn nest(&self) -> bool {
        let Some(table) = self.existing_table() else { return false };
        let index = self.found.get() - 1;
        let Some(spare) = table.keep(self.nested.get(), index) else { return false };
        let own = table.record(index);
        let start_ticks = own.start_ticks;
        let outer = core::mem::replace(&mut own.outer, NOT_OPEN);
        *table.record(spare) = Record { start_ticks, feedback: Feedback::default(), outer };
        self.relink(table, index + 1, spare + 1);
        self.nested.set(self.nested.get() + 1);
        true
    }

    /// The epoch that was looked for last has ended. If it was inside of another one of its id,
    /// that one goes on.
    #[cold]
    fn go_on(&self) {
        let Some(table) = self.existing_table() else { return };
        let index = self.found.get() - 1;
        let Some(spare) = table.give_back(self.nested.get(), index) else { return };
        let kept = table.record(spare);
        let start_ticks = kept.start_ticks;
        let outer = core::mem::replace(&mut kept.outer, NOT_OPEN);
        self.relink(table, spare + 1, index + 1);
        let own = table.record(index);
        (own.start_ticks, own.outer) = (start_ticks, outer);
        self.nested.set(self.nested.get() - 1);
    }

    /// Makes what leads to one place of the stack lead to another one. Places are indexes plus 1.
    fn relink(&self, table: &mut Table, from: u32, to: u32) {
        let mut inner = self.open.get();
        if inner == from {
            self.open.set(to);
            return;
        }
        // Invariant 3: it is in the chain, which ends.
        while table.record(inner - 1).outer != from + OUTERMOST {
            inner = table.record(inner - 1).outer - OUTERMOST;
        }
        table.record(inner - 1).outer = to + OUTERMOST;
    }

    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is this thread's own, and no reference outlives a call"
    )]
    fn existing_table(&self) -> Option<&mut Table> {
        // SAFETY: null, or this thread's table (Invariants 1 and 2). Every caller keeps the
        // reference for the length of one call of this type's, and none of these calls another.
        unsafe { self.table.get().as_mut() }
    }

    #[inline]
    fn table(&self) -> Option<&mut Table> {
        if self.table.get().is_null() {
            self.table.set(Table::map()?.as_ptr());
        }
        self.existing_table()
    }
}

fn bytes_of_chunk(number: usize) -> usize {
    size_of::<Record>() << (FIRST_CHUNK as usize + number.saturating_sub(1))
}

/// In which chunk a record is, and where there.
#[inline]
fn in_chunks(index: u32) -> (usize, usize) {
    let high = index >> FIRST_CHUNK;
    if high == 0 {
        return (0, index as usize);
    }
    let number = high.ilog2();
    (number as usize + 1, (index - (1 << (FIRST_CHUNK + number))) as usize)
}

impl Table {
    fn map() -> Option<NonNull<Table>> {
        let index = Index::map(1 << (FIRST_CHUNK + 1))?;
        let table = map_zeroes(size_of::<Table>(), READ | WRITE).ok()?.cast::<Table>();
        // Epochs count in ticks.
        platform::clock::init();
        // SAFETY: fresh zeroed memory of the right size and page-aligned; the null pointers of
        // `chunks` and a count of 0 are valid.
        unsafe { (&raw mut (*table).index).write(index) };
        NonNull::new(table)
    }

    #[inline]
    fn record(&mut self, index: u32) -> &mut Record {
        debug_assert!(index < self.count);
        let (chunk, offset) = in_chunks(index);
        // SAFETY: Invariant 2.
        unsafe { &mut *self.chunks[chunk].add(offset) }
    }

    /// The index of an id's record, which is made if there is none.
    #[inline]
    fn find_or_add(&mut self, id: u64) -> Option<u32> {
        self.index.find(id).or_else(|| self.add(id))
    }

    /// The index of a record for which there is memory, and that is not in use yet.
    fn next(&mut self) -> Option<u32> {
        let index = self.count;
        if index == EPOCHS_MAX {
            return None;
        }
        let (chunk, _) = in_chunks(index);
        if self.chunks[chunk].is_null() {
            self.chunks[chunk] = map_zeroes(bytes_of_chunk(chunk), READ | WRITE).ok()?.cast();
        }
        Some(index)
    }

    /// Puts an id's record on the list of nested epochs, which holds `nested` of them. Returns the
    /// index of a spare record.
    fn keep(&mut self, nested: u8, index: u32) -> Option<u32> {
        let at = usize::from(nested);
        let mut spare = self.nested.get(at)?.spare;
        if spare == 0 {
            spare = self.next()? + 1;
            self.count += 1;
        }
        self.nested[at] = Nested { own: index + 1, spare };
        Some(spare - 1)
    }

    /// Takes the last epoch with this record off the list of nested epochs, which holds `nested` of
    /// them. Returns the index of its spare record.
    fn give_back(&mut self, nested: u8, index: u32) -> Option<u32> {
        let nested = &mut self.nested[..usize::from(nested)];
        let at = nested.iter().rposition(|it| it.own == index + 1)?;
        let spare = nested[at].spare;
        // Its spare record is the first to be used again.
        nested[at..].rotate_left(1);
        Some(spare - 1)
    }

    fn spares(&self) -> u32 {
        self.nested.iter().filter(|it| it.spare != 0).count() as u32
    }

    #[cold]
    fn add(&mut self, id: u64) -> Option<u32> {
        let index = self.next()?;
        self.index.add(id, index)?;
        self.count += 1;
        Some(index)
    }
}

/// The calling thread's epochs, which are freed when it ends.
struct Local(Thread);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.free();
    }
}

platform::thread_local! {
    static EPOCHS: Local = Local(Thread::new());
}

/// The function that tells windows, if other code keeps the epochs.
static SOURCE: OnceLock<fn() -> Option<u64>> = OnceLock::new();

/// Runs with the calling thread's epochs, unless the thread is about to end.
#[inline]
fn with<R>(run: impl FnOnce(&Thread) -> R) -> Option<R> {
    EPOCHS.try_with(|local| run(&local.0)).ok()
}

/// Begins an epoch on the calling thread, inside of the open ones. Returns whether it is seen: see
/// [`EPOCHS_MAX`].
///
/// ```
/// use manx::slo;
///
/// slo::start(7);
/// // … take locks, work …
/// let latency_ns = slo::end(7, 2_000_000);
/// assert!(latency_ns.is_some());
/// assert_eq!(slo::end(7, 2_000_000), None, "it has ended already");
/// ```
#[inline]
pub fn start(id: u64) -> bool {
    with(|thread| thread.start(id)).unwrap_or(false)
}

/// The epoch ends; 99 of a hundred are to end within `slo_ns`. Returns its latency in nanoseconds,
/// unless it is not open on this thread.
#[inline]
pub fn end(id: u64, slo_ns: u64) -> Option<u64> {
    end_at(id, slo_ns, Percentile::P99)
}

/// As [`end`], for another percentile.
#[inline]
pub fn end_at(id: u64, slo_ns: u64, percentile: Percentile) -> Option<u64> {
    with(|thread| thread.end(id, slo_ns, percentile, window_ns_max())).flatten()
}

/// The epoch ends and counts for nothing. Returns whether it was open on this thread.
pub fn abandon(id: u64) -> bool {
    with(|thread| thread.abandon(id)).unwrap_or(false)
}

/// An epoch that began elsewhere ends here.
pub(super) fn report(id: u64, latency_ns: u64, slo_ns: u64, percentile: Percentile) {
    with(|thread| {
        thread.report(id, latency_ns, slo_ns, percentile, window_ns_max());
    });
}

/// For how long the calling thread may be overtaken: the window of its innermost epoch, in
/// nanoseconds. `None` outside of any epoch.
#[inline]
pub fn window_ns() -> Option<u64> {
    match SOURCE.get() {
        Some(ask) => ask(),
        None => with(Thread::window_ns).flatten(),
    }
}

/// Lets other code keep the epochs from now on, such as another library in the process:
/// [`window_ns`], and so every lock, asks it for the calling thread's window. The first one to be
/// set stays; returns whether this is it.
///
/// ```standalone_crate
/// use manx::slo;
///
/// assert!(slo::set_window_source(|| Some(42)));
/// assert_eq!(slo::window_ns(), Some(42));
/// assert!(!slo::set_window_source(|| None));
/// ```
pub fn set_window_source(ask: fn() -> Option<u64>) -> bool {
    SOURCE.set(ask).is_ok()
}

/// The calling thread's innermost epoch. Not a cheap question.
pub fn current() -> Option<u64> {
    with(Thread::current).flatten()
}
