//! The parts of an experiment, as the user names them.

/// Defines the enum of an experiment's parts, in the order in which they are measured: how the user
/// names each, and which method of the experiment's `Plan` measures it.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident = $name:literal by $method:ident,)*) => {
        contention::named! {
            /// A part of the experiment.
            pub enum Part { $($(#[$doc])* $part = $name,)* }
        }

        impl Part {
            /// The parts of these names, in the order in which they are measured; all of them if
            /// there are no names.
            pub fn named(names: &[String]) -> Vec<Part> {
                let is_named = |part: &Part| names.is_empty() || names.iter().any(|name| name == part.name());
                Part::ALL.into_iter().filter(is_named).collect()
            }

            /// Measures these parts.
            pub(super) fn measure(
                parts: &[Part],
                plan: &super::Plan,
                bench: &mut $crate::harness::Bench,
            ) -> Result<(), $crate::Error> {
                for part in Part::ALL.into_iter().filter(|part| parts.contains(part)) {
                    match part { $(Part::$part => plan.$method(bench)?),* }
                }
                Ok(())
            }
        }
    };
}
pub(crate) use parts;
