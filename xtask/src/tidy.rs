//! `cargo xtask tidy`: style as a test.
use crate::Result;
pub fn run() -> Result {
    Ok(())
}
