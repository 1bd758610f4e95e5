//! Fuzzing in process: a target is given inputs that are drawn from a seed, one after the other.
//!
//! Each input has a number, and its own generator of random numbers, which the seed and the number
//! make. So a failure replays alone: what is printed then is the command that draws this one input.

use crate::setting;
use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// The time between two lines about the progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Gives `attempt` inputs, `inputs` of them or `MANX_FUZZ_INPUTS`, from the seed `MANX_SEED` or
/// another one each time, beginning at the number `MANX_FUZZ_FIRST`. A panic is a failure.
///
/// # Panics
/// As `attempt` does.
pub fn fuzz(target: &str, inputs: u64, mut attempt: impl FnMut(&mut Rng)) {
    let seed = setting("MANX_SEED", fastrand::u32(..).into());
    let first = setting("MANX_FUZZ_FIRST", 0);
    let inputs = setting("MANX_FUZZ_INPUTS", inputs);
    println!("fuzz {target}: {inputs} inputs from number {first} of seed {seed}");
    let began = Instant::now();
    let mut shown = began;
    for done in 0..inputs {
        let number = first + done;
        let mut dice = of_input(seed, number);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| attempt(&mut dice))) {
            eprintln!("replay: cargo xtask fuzz {target} --seed {seed} --first {number} --inputs 1");
            resume_unwind(panic);
        }
        if done % 256 == 0 && shown.elapsed() > PROGRESS {
            shown = Instant::now();
            println!("fuzz {target}: {done} inputs in {} s", began.elapsed().as_secs());
        }
    }
    println!("fuzz {target}: {inputs} inputs in {:.1} s, none failed", began.elapsed().as_secs_f64());
}

/// The generator of one input.
fn of_input(seed: u64, number: u64) -> Rng {
    // Neighbours shall have nothing in common: numbers of a generator that the seed begins.
    let mut mixed = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number);
    Rng::with_seed(mixed.u64(..))
}

/// Changes some bytes at random: flipped, overwritten, deleted, doubled, moved, cut off, or a
/// `token` put in.
pub fn mutate(dice: &mut Rng, bytes: &mut Vec<u8>, tokens: &[&[u8]]) {
    for _ in 0..dice.usize(1..=4) {
        if bytes.is_empty() {
            bytes.push(dice.u8(..));
        }
        let at = dice.usize(..bytes.len());
        let to = at + dice.usize(..=(bytes.len() - at).min(16));
        match dice.u8(..7) {
            0 => bytes[at] ^= 1 << dice.u8(..8),
            1 => bytes[at] = dice.u8(..),
            2 => drop(bytes.drain(at..to)),
            3 => {
                let some = bytes[at..to].to_vec();
                bytes.splice(at..at, some);
            }
            4 => {
                let some: Vec<u8> = bytes.drain(at..to).collect();
                let at = dice.usize(..=bytes.len());
                bytes.splice(at..at, some);
            }
            5 => bytes.truncate(at),
            _ if tokens.is_empty() => bytes[at..to].fill(0),
            _ => drop(bytes.splice(at..to, tokens[dice.usize(..tokens.len())].iter().copied())),
        }
    }
}
