//! `manx bench asl`: its options, and what they ask of the experiment.

use super::{Common, conduct};
use crate::failure::Failure;
use std::time::Duration;
use workload::asl::{self, Setup};

/// Rounds, unless something else is asked for.
const REPEATS: u32 = 5;
/// The measured time of a run, and that of a smoke check.
const TIME: Duration = Duration::from_secs(1);
const QUICK_TIME: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(super) struct AslArgs {
    #[command(flatten)]
    common: Common,
}

pub(super) fn asl(args: &AslArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let repeats = common.repeats.unwrap_or(if common.quick { 1 } else { REPEATS });
    let time = if common.quick { QUICK_TIME } else { TIME };
    let setup = Setup { repeats: repeats as usize, quick: common.quick, time };
    conduct::conduct("asl", common, |bench| asl::measure(setup, bench), asl::conclude)
}
