//! Macros that let one source compile on the machine and on its twins.

/// Declares a function that is `const` here, and an ordinary one on twins, whose atomics cannot be
/// made at compile time.
///
/// ```
/// use platform::atomic::AtomicU32;
///
/// struct Ticket(AtomicU32);
/// impl Ticket {
///     platform::const_fn! {
///         /// The first ticket.
///         pub const fn new() -> Self {
///             Ticket(AtomicU32::new(0))
///         }
///     }
/// }
/// static NEXT: Ticket = Ticket::new();
/// # assert_eq!(NEXT.0.load(platform::atomic::Ordering::Relaxed), 0);
/// ```
#[macro_export]
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis const fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility const fn $($rest)*
    };
}

/// What a lock begins as: the constant `INIT` of its trait here, and the function `new` on twins.
/// By `inner => over` it is what the function `over` makes of what the type `inner` begins as.
///
/// ```
/// trait Lock {
///     const INIT: Self;
/// }
/// impl Lock for u32 {
///     platform::initial! { 0 }
/// }
/// assert_eq!(<u32 as Lock>::INIT, 0);
/// ```
#[macro_export]
macro_rules! initial {
    ($value:expr) => {
        #[allow(clippy::declare_interior_mutable_const)]
        const INIT: Self = $value;
    };
    ($inner:ident => $over:path) => {
        $crate::initial! { $over(<$inner>::INIT) }
    };
}

/// Items that exist on the machine only: assertions about layout, constants with atomics in them.
///
/// ```
/// platform::os_only! {
///     const _: () = assert!(size_of::<platform::atomic::AtomicU32>() == 4);
/// }
/// ```
#[macro_export]
macro_rules! os_only {
    ($($item:item)*) => { $($item)* };
}

/// Items that exist on twins only: what stands there for something that makes sense on the machine
/// alone.
///
/// ```
/// platform::os_only! { const CPUS: &str = "the machine's"; }
/// platform::twins_only! { const CPUS: &str = "made up"; }
/// assert_eq!(CPUS, "the machine's");
/// ```
#[macro_export]
macro_rules! twins_only {
    ($($item:item)*) => {};
}

/// Items that need a whole machine, time that passes and the files of a kernel: they exist on the
/// machine and on the simulated one.
///
/// ```
/// platform::timed! { const LATENCY: &str = "is measured"; }
/// platform::untimed! { const LATENCY: &str = "is said"; }
/// assert_eq!(LATENCY, "is measured");
/// ```
#[macro_export]
macro_rules! timed {
    ($($item:item)*) => { $($item)* };
}

/// Items that exist only on twins without time: what stands there for something that is learnt from
/// the clock.
#[macro_export]
macro_rules! untimed {
    ($($item:item)*) => {};
}

/// Declares a static, private to its module. On twins it begins anew with each execution.
///
/// ```
/// use platform::atomic::{AtomicBool, Ordering};
///
/// platform::global! {
///     static STOPPED: AtomicBool = AtomicBool::new(false);
/// }
/// STOPPED.store(true, Ordering::Relaxed);
/// # assert!(STOPPED.load(Ordering::Relaxed));
/// ```
#[macro_export]
macro_rules! global {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$attribute])* static $name: $type = $value;)*
    };
}

/// Declares a variable of each thread, with a value known at compile time; used by `.with(|it| …)`.
///
/// ```
/// use std::cell::Cell;
///
/// platform::thread_local! {
///     static VISITS: Cell<u32> = Cell::new(0);
/// }
/// VISITS.with(|visits| visits.set(visits.get() + 1));
/// # assert_eq!(VISITS.with(Cell::get), 1);
/// ```
#[macro_export]
macro_rules! thread_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)*) => {
        ::std::thread_local! {
            $($(#[$attribute])* $visibility static $name: $type = const { $value };)*
        }
    };
}
