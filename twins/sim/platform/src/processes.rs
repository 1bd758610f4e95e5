//! Processes: which threads each of them has had.
//!
//! | number | process |
//! | --- | --- |
//! | 1 | the program, as it begins |
//! | from 2 on | neighbours, one for each `[[neighbour]]` of the machine's file |
//! | after these | processes that the program starts |
//!
//! A process is there as long as one of its threads has not ended. Numbers are not used again.

use crate::fair::Id;

/// The number of the process that the program begins as.
pub const FIRST_PROCESS: u32 = 1;

/// All processes that there were.
#[derive(Debug)]
pub struct Processes {
    /// The threads of the process with the number one above the index.
    threads: Vec<Vec<Id>>,
}

impl Default for Processes {
    fn default() -> Processes {
        Processes { threads: vec![Vec::new()] }
    }
}

impl Processes {
    /// A new process without threads.
    pub fn begin(&mut self) -> u32 {
        self.threads.push(Vec::new());
        self.threads.len() as u32
    }

    /// A process of this number has one more thread.
    pub fn add(&mut self, process: u32, id: Id) {
        self.threads[process as usize - 1].push(id);
    }

    /// The threads of a process, those that have ended included; none if there was no such process.
    pub fn threads(&self, process: u32) -> &[Id] {
        let index = (process as usize).checked_sub(1);
        index.and_then(|index| self.threads.get(index)).map_or(&[], Vec::as_slice)
    }

    /// The numbers of all of them.
    pub fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        FIRST_PROCESS..=self.threads.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_threads_that_it_was_given_and_an_unknown_one_has_none() {
        let mut processes = Processes::default();
        processes.add(FIRST_PROCESS, 0);
        let other = processes.begin();
        processes.add(other, 7);
        processes.add(FIRST_PROCESS, 8);
        assert_eq!((processes.threads(FIRST_PROCESS), processes.threads(other)), (&[0, 8][..], &[7][..]));
        assert!(processes.threads(0).is_empty() && processes.threads(other + 1).is_empty());
        assert_eq!(processes.numbers(), 1..=2);
    }
}
