//! What threads do at locks and in pools, and what is measured of it: plain data, which knows no
//! machine.
//!
//! The package `contend` makes a run of it, on the machine that its `platform` is: the real one, or
//! a simulated one (`twins/sim`).
//!
//! | module | what |
//! | --- | --- |
//! | [`lock`] | the locks by name |
//! | [`run`] | threads, their epochs, CPUs and time; what was measured of them |
//! | [`schedule`] | what two threads do on a CPU or two, for those that look at the scheduler |
//! | [`jobs`] | jobs for a pool of threads, and what came of them |
//! | [`ranges`] | threads that lock disjoint ranges |
//! | [`length`] | how long epochs are |
//! | [`timeline`] | what was measured, over time |

pub mod jobs;
pub mod length;
pub mod lock;
pub mod ranges;
pub mod run;
pub mod schedule;
pub mod timeline;

/// Defines an enum whose variants have names in tables: each has its name here and nowhere else.
///
/// ```
/// contention::named! {
///     /// A size.
///     enum Size {
///         /// Up to ten.
///         Small = "small",
///         /// More.
///         Large = "large",
///     }
/// }
/// assert_eq!(Size::ALL.map(Size::name), ["small", "large"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$its:meta])* $visible:vis enum $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$its])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $enum { $($(#[$doc])* $variant,)* }

        impl $enum {
            /// All of them, in this order.
            $visible const ALL: [$enum; [$($name),*].len()] = [$($enum::$variant),*];

            /// The name in tables.
            $visible const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name),* }
            }
        }
    };
}
