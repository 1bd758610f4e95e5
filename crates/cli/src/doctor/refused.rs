//! A process that cannot be watched, as an error with its way out.

use command::failure::{Failure, NO_PROCESS};
use doctor::Refusal;

/// Why it cannot be watched, and what to do.
pub fn failure(refusal: &Refusal) -> Failure {
    let help = match refusal {
        Refusal::Missing(_) => "`ps -e` lists the processes",
        Refusal::Forbidden(_) | Refusal::Other(..) => "run it as the process's user, or as root",
    };
    Failure::new(NO_PROCESS, refusal.to_string(), help)
}
