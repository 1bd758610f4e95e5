//! Macros for twins without time, which have what need not be learnt from a clock.

/// Items that need time that passes: none here.
#[macro_export]
macro_rules! timed {
    ($($item:item)*) => {};
}

/// Items that exist only on twins without time, such as this.
#[macro_export]
macro_rules! untimed {
    ($($item:item)*) => { $($item)* };
}
