//! The thread pools of known runtimes in a process, and what sets how many threads each starts.

use crate::evidence::Evidence;
use crate::evidence::modules::RUNTIMES;
use std::collections::BTreeSet;

/// A runtime that starts threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// The file's name
    pub(super) library: String,
    /// The setting of its number of threads, which stands behind it
    pub(super) variable: &'static str,
    /// How many threads were seen running in it
    pub(super) threads: usize,
}

impl Pool {
    /// The setting of this number of threads. A value of several words is quoted, as for a shell.
    fn setting(&self, threads: usize) -> String {
        match self.variable.split_once('=') {
            Some((name, start)) if start.contains(' ') => format!("{name}='{start}{threads}'"),
            _ => format!("{}{threads}", self.variable),
        }
    }
}

/// The pools of a process; one for each variable, of the library in which most threads were seen.
pub(super) fn of(evidence: &Evidence) -> Vec<Pool> {
    let mut found: Vec<Pool> = Vec::new();
    for library in &evidence.modules {
        let Some((_, variable)) = RUNTIMES.iter().find(|(name, _)| library.starts_with(name)) else {
            continue;
        };
        let places = evidence.places.iter().filter(|place| place.module == *library);
        let threads = places.flat_map(|place| place.threads.keys()).collect::<BTreeSet<_>>().len();
        let pool = Pool { library: library.clone(), variable, threads };
        match found.iter_mut().find(|known| known.variable == *variable) {
            Some(known) if known.threads >= threads => {}
            Some(known) => *known = pool,
            None => found.push(pool),
        }
    }
    found
}

/// The advice to start no more than this number of threads.
pub(super) fn advice(pools: &[Pool], threads: usize) -> String {
    match pools {
        [] => format!("set the program's own number of threads to {threads}; `manx cpus` lists variables"),
        [one] => format!("{} starts the threads: set {}", one.library, one.setting(threads)),
        more => {
            let set: Vec<String> = more.iter().map(|pool| pool.setting(threads)).collect();
            format!("set {}: each is of another pool of threads", set.join(" "))
        }
    }
}

/// What is said of several pools in one process.
pub(super) fn words(pools: &[Pool]) -> Option<String> {
    let each = |pool: &Pool| {
        let variable = pool.variable.trim_end_matches(['=', ' ']);
        match pool.threads {
            0 => format!("{} ({variable})", pool.library),
            threads => format!("{} ({variable}; {threads} threads were seen in it)", pool.library),
        }
    };
    let several = pools.len() > 1;
    several.then(|| {
        let each: Vec<String> = pools.iter().map(each).collect();
        format!("{} pools of threads in one process: {}", pools.len(), each.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::code::Place;

    #[test]
    fn each_variable_is_a_pool_and_the_library_that_runs_is_named() {
        let place = Place {
            module: "libscipy_openblas64_-32a4.so".into(),
            threads: [(7, 30), (8, 2)].into(),
            ..Place::default()
        };
        let modules = ["libgomp.so.1", "libopenblas.so.0", "libscipy_openblas64_-32a4.so", "libc.so.6"];
        let modules: Vec<String> = modules.map(String::from).into();
        let evidence = Evidence { modules, places: vec![place], ..Evidence::default() };
        let pools = of(&evidence);
        assert_eq!(
            words(&pools).unwrap(),
            "2 pools of threads in one process: libgomp.so.1 (OMP_NUM_THREADS), \
             libscipy_openblas64_-32a4.so (OPENBLAS_NUM_THREADS; 2 threads were seen in it)"
        );
        assert_eq!(
            advice(&pools, 2),
            "set OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2: each is of another pool of threads"
        );
        assert_eq!((words(&pools[..1]), words(&[])), (None, None));
        assert_eq!(advice(&pools[..1], 1), "libgomp.so.1 starts the threads: set OMP_NUM_THREADS=1");
        assert!(advice(&[], 1).contains("manx cpus"));
        let of = |name: &str| of(&Evidence { modules: vec![name.into()], ..Evidence::default() });
        assert!(advice(&of("beam.smp"), 1).ends_with("set ERL_FLAGS='+S 1'"));
        assert!(advice(&of("redis-server"), 2).ends_with("set --io-threads 2"));
    }
}
