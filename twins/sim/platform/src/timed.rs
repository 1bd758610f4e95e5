//! Macros for twins with time, which is this one.

/// Items that need time that passes, as it does here.
#[macro_export]
macro_rules! timed {
    ($($item:item)*) => { $($item)* };
}

/// Items that exist only on twins without time: none here.
#[macro_export]
macro_rules! untimed {
    ($($item:item)*) => {};
}
