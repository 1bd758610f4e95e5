//! A run of a program on a machine: threads as coroutines of one thread of the operating system.
//!
//! A thread of the program runs until it makes a step that other threads may come before: an access
//! to shared memory, a look at the clock, a system call. If something else comes first, it is
//! suspended, and the loop in [`run`] resumes the thread that makes the next step. What a thread
//! does between two steps takes `step_ns` each.
//!
//! 1. The kernel is borrowed for a moment at a time, and never while a thread runs or is suspended.
//! 2. `YIELDER` is that of the coroutine that runs, and null while none does. So code that runs
//!    outside of a run, as destructors of a run that has failed, makes no steps: its accesses are
//!    ordinary ones that take no time.
//! 3. A coroutine is suspended in `suspend` only, and resumed when the kernel says that its
//!    thread makes the next step.
//!
//! Values that threads of the program have for themselves, and the statics of its processes, are
//! kept here for the run, and begin anew with each run.

use crate::arena::{self, Inside};
use crate::eevdf::Id;
use crate::kernel::{Kernel, Next};
use crate::machine::Machine;
use crate::processes::FIRST_PROCESS;
use crate::task::Times;
use crate::trace::Trace;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The stack of a thread of the program.
const STACK_BYTES: usize = 1 << 20;

/// What is started as a thread.
type Body = Box<dyn FnOnce()>;
type Thread = Coroutine<(), (), (), DefaultStack>;

/// The variables of a thread, each with the address of its key.
type Locals = Vec<(usize, Rc<dyn Any>)>;

/// What belongs to a run and not to the machine.
#[derive(Default)]
struct Run {
    /// Threads that were started and have not begun.
    bodies: HashMap<Id, Body>,
    locals: HashMap<Id, Locals>,
    /// By the process, and the address of the static's key.
    statics: HashMap<(u32, usize), &'static (dyn Any + Send + Sync)>,
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    static RUN: RefCell<Run> = RefCell::new(Run::default());
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// What the first thread has returned
    pub value: T,
    /// How long the program has run, in virtual time
    pub now_ns: u64,
    /// The same for two runs only if the same has happened in both
    pub hash: u64,
    /// How many steps all threads have made
    pub steps: u64,
    /// What each thread has got, in the order in which they were started
    pub threads: Vec<Times>,
}

/// Runs a program on a machine, until all of its threads have ended. All that is left open is drawn
/// from the seed.
///
/// ```
/// use platform_sim::{clock, machine::Machine, simulation, thread};
///
/// let here = Machine::known("here").unwrap();
/// let program = || {
///     let other = thread::spawn(|| thread::sleep_ns(1_000_000));
///     other.join().unwrap();
///     clock::now_ns()
/// };
/// let outcome = simulation::run(&here, 1, program);
/// assert!(outcome.value > 1_000_000 && outcome.threads.len() == 2);
/// assert_eq!(simulation::run(&here, 1, program).hash, outcome.hash);
/// ```
///
/// # Panics
/// If a thread of the program does, if all threads wait for each other, or if this is called by a
/// program that is run.
pub fn run<T: 'static>(machine: &Machine, seed: u64, main: impl FnOnce() -> T + 'static) -> Outcome<T> {
    run_traced(machine, seed, 0, main).0
}

/// The same, and the first events, at most this number.
///
/// # Panics
/// As [`run`].
pub fn run_traced<T: 'static>(
    machine: &Machine,
    seed: u64,
    events_max: usize,
    main: impl FnOnce() -> T + 'static,
) -> (Outcome<T>, Trace) {
    let is_nested = KERNEL.with_borrow_mut(|kernel| kernel.replace(Kernel::new(machine, seed)).is_some());
    assert!(!is_nested, "a program that is run runs no other one");
    arena::begin();
    let _end = End;
    kernel(|kernel| kernel.keep_trace(events_max));
    let value = Rc::new(RefCell::new(None));
    let place = Rc::clone(&value);
    start(&[], Box::new(move || *place.borrow_mut() = Some(main())));
    let mut threads = Threads::default();
    loop {
        match kernel(Kernel::advance) {
            Next::Step(id) => step(id, &mut threads.0),
            Next::Ended => break,
            Next::Deadlock => {
                let now_ns = kernel(|kernel| kernel.now_ns());
                let asleep = threads.0.iter().enumerate().filter(|(_, thread)| thread.is_some());
                let asleep: Vec<Id> = asleep.map(|(id, _)| id).collect();
                panic!("at {now_ns} ns, with seed {seed}, nothing will ever wake the threads {asleep:?}");
            }
        }
    }
    let value = value.borrow_mut().take().expect("the first thread has ended");
    kernel(|kernel| {
        let outcome = Outcome {
            value,
            now_ns: kernel.now_ns(),
            hash: kernel.hash(),
            steps: kernel.steps(),
            threads: (0..threads.0.len()).map(|id| kernel.times(id)).collect(),
        };
        (outcome, kernel.take_trace())
    })
}

/// The threads that have begun, by their numbers.
#[derive(Default)]
struct Threads(Vec<Option<Thread>>);

impl Drop for Threads {
    fn drop(&mut self) {
        // Those of a run that has failed make no step any more: not even to clean up, because what
        // they borrow may be gone.
        self.0.drain(..).for_each(std::mem::forget);
    }
}

/// Ends the run, whether it has failed or not.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        KERNEL.with_borrow_mut(Option::take);
        let mut run = RUN.take();
        // What threads that have not begun borrow may be gone.
        run.bodies.drain().for_each(std::mem::forget);
        // What is dropped may look for its own variables.
        drop(run);
    }
}

/// Lets a thread make its next step, and what follows until it is suspended.
fn step(id: Id, threads: &mut Vec<Option<Thread>>) {
    while threads.len() <= id {
        let body = RUN.with_borrow_mut(|run| run.bodies.remove(&threads.len())).expect("it was started");
        let stack = DefaultStack::new(STACK_BYTES).expect("memory for a stack");
        let thread = Thread::with_stack(stack, move |yielder, ()| {
            YIELDER.set(yielder);
            body();
            drop_locals();
            until_next();
            kernel(Kernel::end);
        });
        threads.push(Some(thread));
    }
    let thread = threads[id].as_mut().expect("it has not ended");
    let _quiet = Quiet;
    let _inside = Inside::enter();
    if let CoroutineResult::Return(()) = thread.resume(()) {
        threads[id] = None;
    }
}

/// No coroutine runs any more, even if one has panicked (rule 2).
struct Quiet;

impl Drop for Quiet {
    fn drop(&mut self) {
        YIELDER.set(std::ptr::null());
    }
}

/// Starts a thread on these CPUs; on all if there are none.
pub(crate) fn start(cpus: &[usize], body: Body) -> Id {
    let id = kernel(|kernel| kernel.start(cpus));
    RUN.with_borrow_mut(|run| run.bodies.insert(id, body));
    id
}

/// Starts a process, whose first thread runs this.
pub(crate) fn start_process(body: Body) -> Id {
    let id = kernel(Kernel::start_process);
    RUN.with_borrow_mut(|run| run.bodies.insert(id, body));
    id
}

/// Whether the calling code is a thread of a program that is run.
pub fn is_inside() -> bool {
    !YIELDER.get().is_null()
}

/// Says what the calling thread does from now on, for those that look at a trace; that takes no
/// time.
pub fn says(words: &'static str) {
    if is_inside() {
        kernel(|kernel| kernel.says(words));
    }
}

/// What the calling thread has got and lost until now.
pub fn times() -> Times {
    kernel(|kernel| kernel.times(kernel.current()))
}

/// Calls `on` with the kernel.
pub(crate) fn kernel<R>(on: impl FnOnce(&mut Kernel) -> R) -> R {
    KERNEL.with_borrow_mut(|kernel| on(kernel.as_mut().expect("a program is run")))
}

/// Makes a step, when everything that happens before has happened. Outside of a run there is
/// nothing before it.
pub(crate) fn make<R>(step: impl FnOnce(&mut Kernel) -> R) -> R {
    if !is_inside() {
        return kernel(step);
    }
    let mut step = Some(step);
    loop {
        let made = kernel(|kernel| {
            let step = kernel.may_step().then(|| step.take())??;
            Some(step(kernel))
        });
        match made {
            Some(value) => return value,
            None => suspend(),
        }
    }
}

/// Time passes for the thread, and for no other one: nothing has to happen before.
pub(crate) fn pass(time: impl FnOnce(&mut Kernel)) {
    if is_inside() {
        kernel(time);
    }
}

/// Makes a step after which the thread does not run, if the step returns true.
pub(crate) fn make_and_stop(step: impl FnOnce(&mut Kernel) -> bool) -> bool {
    let stops = make(step);
    if stops {
        suspend();
    }
    stops
}

/// Waits until everything that happens before this thread's next step has happened.
fn until_next() {
    while !kernel(Kernel::may_step) {
        suspend();
    }
}

/// Lets the loop run other threads.
fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only a thread of the program is suspended");
    // SAFETY: the yielder belongs to the coroutine that runs, which is the caller's (rules 2, 3),
    // and lives as long as that does.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

/// The value of this thread's variable.
pub(crate) fn local<T: 'static>(key: usize, initial: fn() -> T) -> Rc<T> {
    // Outside of a run there is one thread.
    let id = if is_inside() { kernel(|kernel| kernel.current()) } else { Id::MAX };
    let known = RUN.with_borrow(|run| {
        let of_thread = run.locals.get(&id)?;
        of_thread.iter().find(|(its, _)| *its == key).map(|(_, value)| Rc::clone(value))
    });
    let value = known.unwrap_or_else(|| {
        let value: Rc<dyn Any> = Rc::new(initial());
        RUN.with_borrow_mut(|run| run.locals.entry(id).or_default().push((key, Rc::clone(&value))));
        value
    });
    value.downcast().expect("a key has one type")
}

/// Drops the variables of the thread that ends, those that they make meanwhile, too.
fn drop_locals() {
    let id = kernel(|kernel| kernel.current());
    while let Some(values) = RUN.with_borrow_mut(|run| run.locals.remove(&id)) {
        drop(values);
    }
}

/// The number of the calling code's process. Code outside of a run belongs to the first one.
pub(crate) fn process() -> u32 {
    if is_inside() { kernel(|kernel| kernel.process()) } else { FIRST_PROCESS }
}

/// The value of a static in this run, in the calling thread's process.
pub(crate) fn global<T: Any + Send + Sync>(key: usize, initial: fn() -> T) -> &'static T {
    let key = (process(), key);
    let known = RUN.with_borrow(|run| run.statics.get(&key).copied());
    let value = known.unwrap_or_else(|| {
        // It may be referred to for as long as the process lives, as any static.
        let value: &'static (dyn Any + Send + Sync) = &Box::leak(Box::new(Apart(initial()))).0;
        RUN.with_borrow_mut(|run| run.statics.insert(key, value));
        value
    });
    value.downcast_ref().expect("a key has one type")
}

/// A static shares its cache line with no other one.
#[repr(align(128))]
struct Apart<T>(T);
