//! Which CPUs are fast and which slow, as people write it, and how much slower a slow one is made.

use manx::cpu::{Classes, MEASURED};
use preload_abi::options::DILATIONS;

/// Checks which CPUs are said to be fast and which slow, or measures it, if that is what is said.
///
/// # Errors
/// What is wrong with `text`, and what to write.
pub fn parse_cores(text: &str) -> Result<String, String> {
    let machine = Classes::of_this_machine();
    let checked =
        Classes::parse_or_measure(text).and_then(|said| said.on(&machine.big().union(machine.little())));
    let said = |checked: Classes| if text.trim() == MEASURED { checked.to_string() } else { text.to_owned() };
    checked.map(said).map_err(|error| error.to_string())
}

/// Reads how many times as long threads on slow CPUs are to take, in thousandths.
///
/// # Errors
/// What is wrong with `text`, and what to write.
pub fn parse_dilation(text: &str) -> Result<u32, String> {
    let thousandths = text.parse::<f64>().ok().map(|ratio| (ratio * 1000.0).round());
    thousandths
        .filter(|thousandths| {
            (f64::from(*DILATIONS.start())..=f64::from(*DILATIONS.end())).contains(thousandths)
        })
        .map(|thousandths| thousandths as u32)
        .ok_or_else(|| "write a number from 1 to 1000, as 3.75".to_owned())
}
