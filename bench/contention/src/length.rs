//! How long epochs are: all alike, two lengths mixed, or another length in each phase of a run.
//!
//! A length is a factor by which a section's time is multiplied. Where cores differ, long epochs of
//! a mixture are longer by NOPs, at which little cores are less slow, as in the paper. Each thread
//! draws random numbers from a generator of its own; the seeds are the same in every run.

/// How long the epochs of a run are.
#[derive(Clone, Debug)]
pub enum Length {
    /// Each epoch has this number of times the usual length.
    Times(u64),
    /// Some of them are longer.
    Mixed {
        /// How many of a hundred are long.
        long_percent: u64,
        /// How many times as long.
        times: u64,
    },
    /// Each phase of the measured time has its lengths; the warm-up has those of the first phase.
    Phases(&'static [Phase]),
}

/// A phase of the measured time.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// The share of the measured time after which it ends; the last phase ends with the run.
    pub until: f64,
    /// The shortest and the longest length; all lengths between are equally frequent.
    pub times: (u64, u64),
}

impl Length {
    /// The length of the next epoch, which begins after this share of the measured time.
    pub fn next(&self, share: impl FnOnce() -> f64, dice: &mut Dice) -> u64 {
        match self {
            Length::Times(times) => *times,
            Length::Mixed { long_percent, times } => {
                if dice.below(100) < *long_percent {
                    *times
                } else {
                    1
                }
            }
            Length::Phases(phases) => {
                let (least, most) = phases[phase(phases, share())].times;
                least + dice.below(most - least + 1)
            }
        }
    }

    /// The phases; a run without phases has none.
    pub fn phases(&self) -> &'static [Phase] {
        match self {
            Length::Phases(phases) => phases,
            _ => &[],
        }
    }
}

/// The index of the phase at this share of the time.
pub fn phase(phases: &[Phase], share: f64) -> usize {
    let over = phases.iter().take_while(|phase| phase.until <= share).count();
    over.min(phases.len() - 1)
}

/// A thread's random numbers.
#[derive(Debug)]
pub struct Dice(fastrand::Rng);

impl Dice {
    /// Those of the thread with this index.
    pub fn of_thread(index: usize) -> Dice {
        Dice(fastrand::Rng::with_seed(index as u64))
    }

    /// A number below this one.
    fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: &[Phase] = &[
        Phase { name: "short", until: 0.5, times: (1, 1) },
        Phase { name: "any", until: 0.75, times: (2, 9) },
        Phase { name: "long", until: 1.0, times: (100, 100) },
    ];

    #[test]
    fn an_epoch_has_the_length_of_its_phase_and_the_last_phase_has_no_end() {
        let mut dice = Dice::of_thread(0);
        let length = Length::Phases(PHASES);
        let mut at = |share: f64| length.next(|| share, &mut dice);
        assert_eq!((at(0.0), at(0.49), at(0.75), at(0.99), at(1.5)), (1, 1, 100, 100, 100));
        let any: Vec<u64> = (0..1000).map(|_| at(0.5)).collect();
        assert_eq!((any.iter().min(), any.iter().max()), (Some(&2), Some(&9)));
    }

    #[test]
    fn the_percentage_of_long_epochs_is_kept() {
        for (long_percent, least, most) in [(0, 0, 0), (25, 2200, 2800), (100, 10_000, 10_000)] {
            let mut dice = Dice::of_thread(3);
            let length = Length::Mixed { long_percent, times: 7 };
            let long = (0..10_000).filter(|_| length.next(|| 0.0, &mut dice) == 7).count();
            assert!((least..=most).contains(&long), "{long} of 10,000 at {long_percent} %");
        }
    }
}
