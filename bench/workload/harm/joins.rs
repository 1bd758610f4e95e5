//! Joins by rayon: sums of 100,000 numbers on a pool of THREADS threads, for SECONDS.

use rayon::prelude::*;
use std::time::Instant;

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<f64>().expect("a number"));
    let (threads, seconds) = (words.next().expect("THREADS"), words.next().expect("SECONDS"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build().expect("a pool");
    let numbers: Vec<u64> = (0..100_000).collect();
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed().as_secs_f64() < seconds {
        let sum: u64 = pool.install(|| numbers.par_iter().with_max_len(1000).map(|number| number ^ 1).sum());
        assert_eq!(sum, 4_999_950_000);
        count += 1;
    }
    println!("rate {}", f64::from(count) / begin.elapsed().as_secs_f64());
}
