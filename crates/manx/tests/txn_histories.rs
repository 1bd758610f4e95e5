//! Histories of transactions at each level of isolation, on both kinds of store: none has an
//! anomaly that its level forbids, and the anomalies that a level allows are shown to occur.
//!
//! What a history is, and how anomalies are found, is in [`checker`]. Histories come from threads
//! that do random things ([`random`]), and from scripts, one for each anomaly of the literature
//! ([`scripted`]). `MANX_FULL` makes the random ones a hundred times as many; `MANX_TXN_SEED=…`
//! sets the first seed.
//!
//! | level | forbidden |
//! | --- | --- |
//! | read uncommitted | dirty writes; reads of what no transaction wrote, or not of its own |
//! | read committed | and reads of what was rolled back or written over, circular information |
//! | snapshot | and lost updates, skewed reads, long forks |
//! | serializable | and skewed writes: all |

#[path = "txn_histories/checker.rs"]
mod checker;
#[path = "txn_histories/made.rs"]
mod made;
#[path = "common/map.rs"]
mod map;
#[path = "txn_histories/random.rs"]
mod random;
#[path = "txn_histories/run.rs"]
mod run;
#[path = "txn_histories/scripted.rs"]
mod scripted;

use checker::Anomaly;
use manx::txn::Isolation;

/// What a history at this level must not have.
fn is_forbidden(isolation: Isolation, anomaly: Anomaly) -> bool {
    let lowest = match anomaly {
        Anomaly::Garbage | Anomaly::Forgotten | Anomaly::DirtyWrite => Isolation::ReadUncommitted,
        Anomaly::AbortedRead | Anomaly::IntermediateRead | Anomaly::Circular => Isolation::ReadCommitted,
        Anomaly::LostUpdate | Anomaly::TornList | Anomaly::ReadSkew | Anomaly::LongFork => {
            Isolation::Snapshot
        }
        Anomaly::WriteSkew => Isolation::Serializable,
    };
    rank(isolation) >= rank(lowest)
}

fn rank(isolation: Isolation) -> u32 {
    match isolation {
        Isolation::ReadUncommitted => 0,
        Isolation::ReadCommitted => 1,
        Isolation::Snapshot => 2,
        Isolation::Serializable => 3,
        other => unreachable!("{other:?} has no histories here"),
    }
}
