//! `cargo xtask setup demo`: what the demo needs of other packages, beside the build.

use crate::outcome::Result;
use crate::setup::{self, For, victims};

/// Installs what can be had. The demo leaves out what needs the rest.
///
/// # Errors
/// None that the demo could not go on without.
pub fn set_up() -> Result {
    if let Some(missing) = setup::ensure(For::Demo) {
        println!("{missing}");
    }
    if let Err(why) = victims::demo() {
        println!("setup: left out: the Python packages: {why}");
    }
    Ok(())
}
