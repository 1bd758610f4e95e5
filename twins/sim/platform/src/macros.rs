//! Macros that let one source compile on the machine and on its twins.

/// Declares a function that is `const` on the machine, and an ordinary one here, as on the other
/// twins.
#[macro_export]
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis const fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility fn $($rest)*
    };
}

/// What a lock begins as: a constant on the machine, and a function here.
#[macro_export]
macro_rules! initial {
    ($value:expr) => {
        fn new() -> Self {
            $value
        }
    };
    ($inner:ident => $over:path) => {
        $crate::initial! { $over(<$inner>::new()) }
    };
}

/// Items that exist on the machine only: none here.
#[macro_export]
macro_rules! os_only {
    ($($item:item)*) => {};
}

/// Items that exist on twins only, such as this.
#[macro_export]
macro_rules! twins_only {
    ($($item:item)*) => { $($item)* };
}

/// Declares a static, private to its module, that begins anew with each run.
#[macro_export]
macro_rules! global {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$attribute])* static $name: $crate::global::Global<$type> = $crate::global::Global::new(|| $value);)*
    };
}

/// Declares a variable of each thread, used by `.with(|it| …)`.
#[macro_export]
macro_rules! thread_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)*) => {
        $(
            $(#[$attribute])*
            $visibility static $name: $crate::thread::LocalKey<$type> =
                $crate::thread::LocalKey::new(|| $value);
        )*
    };
}
