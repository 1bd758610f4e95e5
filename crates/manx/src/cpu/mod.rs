//! Which cores are fast and which are slow, how many the process can really use, and what keeps it
//! from them.
//!
//! A lock that treats big and little cores differently asks for the class of the core that it runs
//! on, each time that it has to wait. So [`class`] reads what the thread has said of itself, and
//! otherwise one byte for the CPU on which it runs now, whose number the kernel keeps where a
//! thread reads it without asking.
//!
//! The bytes are filled when a thread asks for the first time: by what `MANX_CORES` says, or by
//! what the machine tells. [`Classes`] is the list itself: it can be told, detected below any
//! folder that looks like `/sys`, and shown with the reason for it.
//!
//! | file | what |
//! | --- | --- |
//! | `set.rs` | a set of CPUs, as the kernel writes it |
//! | `classes.rs` | which CPU is of which class, and why |
//! | `class_list.rs` | the same in a user's words, and what is wrong with them |
//! | `split.rs` | from speeds to two classes |
//! | `detect.rs` | what the machine tells, in the order in which it is believed |
//! | `table.rs` | the byte for each CPU |
//! | `shortage.rs`, `shortage/` | whether the process is short of CPUs: one word, and what keeps it up to date |
//! | `thread_pressure.rs` | for how long a thread has run, and has waited for a CPU |
//! | `text.rs` | numbers in the kernel's small files |
//!
//! Locks need these. The feature `cpu` adds:
//!
//! | file | what |
//! | --- | --- |
//! | `measured.rs` | from how long the same work took on each CPU to classes |
//! | `calibrate.rs` | a fixed piece of work, timed on each CPU |
//! | `numa.rs` | the NUMA nodes of a machine |
//! | `budget.rs` | how many CPUs the process can really use, and why not more |
//! | `runnable.rs` | how many threads of the machine run or wish to, at this moment |
//! | `pressure.rs`, `pressure/` | all that keeps the process from its CPUs, as counters and rates |
//! | `siblings.rs` | which CPUs are threads of one core |
//! | `machine_ticks.rs` | what the kernel counts of each CPU |
//! | `fields.rs` | lines of a key and a number in the kernel's files |
//!
//! There are two classes, as in the paper that this is for (Liu and others, "Asymmetry-aware
//! scalable locking", 2022). Of three or more kinds of cores the fast ones are big: the line is
//! drawn at the widest step (`split.rs`).

mod class_list;
mod classes;
mod set;
pub(crate) mod shortage;
mod split;
platform::os_only! {
    mod detect;
    mod table;

    pub use table::{class_of_this_cpu, set_classes};
}
platform::timed! {
    pub(crate) mod text;
    mod thread_pressure;

    pub use shortage::{ShortageKeeper, keep_shortage};
    pub use thread_pressure::{ThreadPressure, ThreadTimes};
}
#[cfg(feature = "cpu")]
platform::timed! {
    pub(crate) mod budget;
    pub(crate) mod fields;
    pub(crate) mod machine_ticks;
    mod runnable;

    pub use budget::{
        BudgetWatch, CpuBudget, Group, Limit, LimitKind, ParseRoundingError, Quota, Rounding,
        Throttled, Weight,
    };
    #[doc(hidden)]
    pub use budget::{GroupLevel, ProcessGroups};
    pub use machine_ticks::{MachineTicks, TicksWatch};
    pub use runnable::Runnable;
}
#[cfg(feature = "cpu")]
platform::os_only! {
    mod calibrate;
    mod measured;
    mod numa;
    pub(crate) mod pressure;
    mod siblings;

    pub use measured::Samples;
    pub use numa::NumaNodes;
    pub use pressure::{Pressure, PressureDelta, PressureWatch, ThreadsTimes};
    pub use runnable::runnable;
    pub use siblings::Cores;
}

pub use class_list::{ParseClassesError, ParseClassesErrorKind};
// For `command` and `cli`, which read the same texts.
#[doc(hidden)]
pub use class_list::{MEASURED, VARIABLE};
pub use classes::{Classes, Source};
pub use set::{CpuSet, ParseCpuListError};
pub use shortage::{refresh_if_old, set_short_of_cpus, short_of_cpus};
pub use split::Step;

use std::cell::Cell;

/// How fast a core is, compared with the others of its machine.
///
/// ```
/// use manx::cpu::{Class, class, set_class_of_this_thread};
///
/// set_class_of_this_thread(Some(Class::Little));
/// assert_eq!(class(), Class::Little);
/// assert_eq!(Class::Little.name(), "little");
/// # set_class_of_this_thread(None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// As fast as they get, or nearly.
    #[default]
    Big,
    /// Slower.
    Little,
}

impl Class {
    /// The class's name: `big` or `little`.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Big => "big",
            Class::Little => "little",
        }
    }
}

platform::thread_local! {
    static OVERRIDE: Cell<Option<Class>> = Cell::new(None);
}

platform::twins_only! {
    /// The class of the CPU that the calling thread runs on: here all are big.
    pub fn class_of_this_cpu() -> Class {
        Class::Big
    }
}

/// The class of core that the calling thread runs on: as the thread has said, or that of the CPU on
/// which it is now.
#[inline]
pub fn class() -> Class {
    // A thread whose variables are gone has said nothing.
    match OVERRIDE.try_with(Cell::get) {
        Ok(Some(class)) => class,
        _ => class_of_this_cpu(),
    }
}

/// Says of which class the core is that the calling thread runs on, wherever it runs: to emulate
/// slow cores, and for tests. `None` takes it back.
///
/// ```
/// use manx::cpu::{Class, class, class_of_this_cpu, set_class_of_this_thread};
///
/// set_class_of_this_thread(Some(Class::Little));
/// set_class_of_this_thread(None);
/// # platform::cpu::restrict(1); // it stays where it is between the two calls
/// assert_eq!(class(), class_of_this_cpu());
/// ```
pub fn set_class_of_this_thread(class: Option<Class>) {
    // A thread whose variables are gone is about to end, and a class that it cannot keep is
    // forgotten.
    let _ = OVERRIDE.try_with(|it| it.set(class));
}
