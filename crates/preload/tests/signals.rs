//! Breakpoints in programs that block, ignore, handle and send signals.
#![cfg(target_arch = "x86_64")]

mod common;

use common::under_manx;

#[test]
fn a_worker_that_blocks_every_signal_waits() {
    for how in ["trap", "jump"] {
        under_manx("masked", &[how], "").succeeded().waited(&format!("wait_by_{how}"), how);
    }
}
