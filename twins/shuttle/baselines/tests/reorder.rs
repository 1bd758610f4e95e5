//! The reorderable lock and the asymmetry-aware one over the locks that are compared with, under
//! randomized schedules.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_shuttle;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/reorder.rs"]
mod reorder;

use baselines_shuttle::lock::libasl_epoch as epoch;
use baselines_shuttle::lock::{Libasl, LibaslBlocking, McsPark, Shfl, Ticket};
use common::together;
use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::RawLock;
use platform::explore::{Site, check};
use platform::site;
use reorder::guarded::Guarded;
use reorder::those_in_line_pass_and_nobody_else;

reorder::over_each_lock! {
    over_the_ticket_lock: Ticket;
    over_the_mcs_lock_with_parking: McsPark;
    over_the_shuffle_lock: Shfl<2>;
}

#[test]
fn over_the_ticket_lock_those_in_line_pass_and_nobody_else() {
    those_in_line_pass_and_nobody_else::<Ticket>(site!());
}

#[test]
fn over_the_mcs_lock_with_parking_those_in_line_pass_and_nobody_else() {
    those_in_line_pass_and_nobody_else::<McsPark>(site!());
}

/// Threads of both classes take LibASL's lock in epochs that end in time, late, and not at all.
fn epochs_of_libasl<L: RawLock + 'static>(site: Site) {
    const THREADS: u32 = 4;
    check(site, || {
        let guarded = Guarded::<L>::new();
        together(THREADS, &guarded, |guarded, number| {
            let class = if number % 2 == 0 { Class::Little } else { Class::Big };
            set_class_of_this_thread(Some(class));
            for slo_ns in [0, 20_000, u64::MAX] {
                epoch::start(1);
                guarded.lock(number);
                epoch::end(1, slo_ns, 9900);
            }
            guarded.lock(number);
        });
        assert_eq!(guarded.order().len() as u32, 4 * THREADS);
    });
}

#[test]
fn libasl_as_printed() {
    epochs_of_libasl::<Libasl>(site!());
    epochs_of_libasl::<LibaslBlocking>(site!());
}
