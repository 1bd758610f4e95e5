//! The victims: which driver, under which loads, and the settings of its own that help it most.

use crate::error::Error;

/// What a driver is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// A Python program, and the module that it cannot do without
    Python(&'static str, &'static str),
    /// A Python program beside this program, which it starts
    Beside(&'static str, &'static str),
    /// The same of the machine's own Python, which has the module from its distribution
    OfMachine(&'static str, &'static str),
    /// A program in Erlang
    Erlang(&'static str),
    /// A C program, and what the compiler is told beside
    C(&'static str, &'static [&'static str]),
    /// A C program that is linked with ggml
    Ggml(&'static str),
    /// A C program of an MPI, started by its `mpirun`
    Mpi(&'static str, Mpi),
}

/// A library for programs of many processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// The machine's Open MPI
    Open,
    /// Open MPI 5, from the Python packages
    OpenFive,
    /// MPICH
    Ch,
}

/// A setting of the program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What tables call it
    pub name: &'static str,
    /// Variables of the environment
    pub variables: &'static [(&'static str, &'static str)],
    /// Further options of the driver
    pub arguments: &'static [&'static str],
    /// Further options of what launches the driver
    pub launcher: &'static [&'static str],
}

const fn variable(name: &'static str, variables: &'static [(&'static str, &'static str)]) -> Setting {
    Setting { name, variables, arguments: &[], launcher: &[] }
}

const fn argument(name: &'static str, arguments: &'static [&'static str]) -> Setting {
    Setting { name, variables: &[], arguments, launcher: &[] }
}

const PASSIVE: &[Setting] = &[variable("passive", &[("OMP_WAIT_POLICY", "passive")])];
const OPENBLAS: &[Setting] = &[
    variable("one thread", &[("OPENBLAS_NUM_THREADS", "1")]),
    variable("timeout 1", &[("OPENBLAS_THREAD_TIMEOUT", "1")]),
];
const OPENBLAS_ONE: &[Setting] = &[variable("one thread", &[("OPENBLAS_NUM_THREADS", "1")])];
const BLIS_ONE: &[Setting] = &[variable("one thread", &[("BLIS_NUM_THREADS", "1")])];
const MKL: &[Setting] = &[
    variable("one thread", &[("MKL_NUM_THREADS", "1")]),
    variable("block time 0", &[("KMP_BLOCKTIME", "0")]),
];
const ERLANG: &[Setting] =
    &[variable("no busy wait", &[("ERL_FLAGS", "+sbwt none +sbwtdcpu none +sbwtdio none")])];
const OPENMP_ONE: &[Setting] = &[variable("one thread", &[("OMP_NUM_THREADS", "1")])];
const ONE_THREAD: &[Setting] = &[argument("one thread", &["--threads=1"])];
const TWO_THREADS: &[Setting] = &[argument("two threads", &["--threads=2"])];
const NO_SPINNING: &[Setting] = &[argument("no spinning", &["--spinning=0"])];
const YIELD: &[Setting] = &[Setting {
    name: "yield when idle",
    variables: &[],
    arguments: &[],
    launcher: &["--mca", "mpi_yield_when_idle", "1"],
}];

/// A number of copies, each with a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What cases call it
    pub name: &'static str,
    /// Copies side by side
    pub copies: usize,
    /// Threads of each
    pub threads: usize,
    /// The quota of all copies together, in hundredths of a CPU, if they have one
    pub quota_percent: Option<u32>,
    /// Busy loops beside them
    pub neighbours: usize,
    /// The settings that may help under this load
    pub settings: &'static [Setting],
}

const fn pair(settings: &'static [Setting]) -> Load {
    Load { copies: 2, ..many("pair", 2, settings) }
}

const fn many(name: &'static str, threads: usize, settings: &'static [Setting]) -> Load {
    Load { name, copies: 1, threads, quota_percent: None, neighbours: 0, settings }
}

const fn quota(name: &'static str, percent: u32, threads: usize, settings: &'static [Setting]) -> Load {
    Load { quota_percent: Some(percent), ..many(name, threads, settings) }
}

const fn beside(name: &'static str, threads: usize, settings: &'static [Setting]) -> Load {
    Load { neighbours: 1, ..many(name, threads, settings) }
}

/// The loads of a program that knows nothing of its quota.
const fn quotas(settings: &'static [Setting]) -> [Load; 5] {
    [
        quota("quota 1, 2 threads", 100, 2, settings),
        quota("quota 1, 8 threads", 100, 8, settings),
        quota("quota 1.5, 2 threads", 150, 2, settings),
        quota("quota 1.5, 8 threads", 150, 8, settings),
        quota("quota 0.5, 2 threads", 50, 2, settings),
    ]
}

/// Both lists, one after the other.
const fn joined<const N: usize>(first: &[Load], second: &[Load]) -> [Load; N] {
    assert!(first.len() + second.len() == N);
    let mut all = [first[0]; N];
    let mut i = 1;
    while i < N {
        all[i] = if i < first.len() { first[i] } else { second[i - first.len()] };
        i += 1;
    }
    all
}

/// Two threads on two CPUs: nothing to cure.
pub const ALONE: &str = "alone";

const fn alone(settings: &'static [Setting]) -> Load {
    many(ALONE, 2, settings)
}

/// A program, what it does again and again, and under which loads.
#[derive(Debug, PartialEq)]
pub struct Victim {
    /// By which the user and the targets name it
    pub name: &'static str,
    /// What an operation is
    pub words: &'static str,
    /// What does it
    pub driver: Driver,
    /// Of the driver, always
    pub arguments: &'static [&'static str],
    /// A run has at least this number of operations
    pub operations: usize,
    /// and lasts for at least this time
    pub seconds: f64,
    /// The loads
    pub loads: &'static [Load],
}

const QUOTA_OPENMP: [Load; 5] = quotas(OPENMP_ONE);
const SCIKIT: [Load; 7] = joined(&[pair(PASSIVE), alone(PASSIVE)], &QUOTA_OPENMP);
const PYTORCH: [Load; 8] =
    joined(&[pair(PASSIVE), many("16 threads", 16, PASSIVE), alone(PASSIVE)], &QUOTA_OPENMP);
const NUMPY: [Load; 7] = joined(&[pair(OPENBLAS), alone(OPENBLAS)], &quotas(OPENBLAS_ONE));
const ONNX: [Load; 9] = joined(
    &[
        pair(NO_SPINNING),
        many("4 threads", 4, NO_SPINNING),
        many("16 threads", 16, NO_SPINNING),
        alone(NO_SPINNING),
    ],
    &quotas(ONE_THREAD),
);

/// Debian's OpenBLAS with threads of its own, also where the system prefers another one; elsewhere,
/// where there are no such folders, the library of this name.
const OPENBLAS_FLAGS: &[&str] = &[
    "-I/usr/include/x86_64-linux-gnu/openblas-pthread",
    "-L/usr/lib/x86_64-linux-gnu/openblas-pthread",
    "-Wl,-rpath=/usr/lib/x86_64-linux-gnu/openblas-pthread",
    "-lopenblas",
];

/// The same of Debian's BLIS.
const BLIS_FLAGS: &[&str] = &[
    "-I/usr/include/x86_64-linux-gnu/blis-pthread",
    "-L/usr/lib/x86_64-linux-gnu/blis-pthread",
    "-Wl,-rpath=/usr/lib/x86_64-linux-gnu/blis-pthread",
    "-lblis",
];

/// All of them, in the order in which they are measured.
pub const VICTIMS: [Victim; 29] = [
    Victim {
        name: "gang",
        words: "C with libgomp: twenty parallel regions of 20 µs",
        driver: Driver::C("gang", &["-fopenmp"]),
        arguments: &[],
        operations: 30,
        seconds: 1.0,
        loads: &[pair(PASSIVE), alone(PASSIVE)],
    },
    Victim {
        name: "spin-lock",
        words: "C: pthread_spin_lock, held for 1 µs",
        driver: Driver::C("spin_lock", &[]),
        arguments: &[],
        operations: 1,
        seconds: 2.0,
        loads: &[many("16 threads", 16, &[]), alone(&[])],
    },
    Victim {
        name: "ggml",
        words: "ggml without OpenMP: 200 products of 64 x 64",
        driver: Driver::Ggml("graph_ggml"),
        arguments: &[],
        operations: 8,
        seconds: 1.0,
        loads: &[
            pair(ONE_THREAD),
            many("4 threads", 4, TWO_THREADS),
            many("8 threads", 8, TWO_THREADS),
            alone(&[]),
        ],
    },
    Victim {
        name: "scikit-learn",
        words: "a fit of histogram boosting, 3000 x 10, 60 rounds",
        driver: Driver::Python("fit_scikit", "sklearn"),
        arguments: &[],
        operations: 24,
        seconds: 0.0,
        loads: &SCIKIT,
    },
    Victim {
        name: "kmeans",
        words: "a fit of KMeans, 4000 x 16: OpenMP's threads and OpenBLAS's",
        driver: Driver::Python("fit_kmeans", "sklearn"),
        arguments: &[],
        operations: 50,
        seconds: 2.0,
        loads: &[pair(OPENMP_ONE), many("8 threads", 8, OPENMP_ONE), alone(OPENMP_ONE)],
    },
    Victim {
        name: "joblib",
        words: "eight products of 150 x 150 in threads of joblib, each in OpenBLAS's",
        driver: Driver::Python("products_joblib", "joblib"),
        arguments: &[],
        operations: 50,
        seconds: 2.0,
        loads: &[pair(OPENBLAS_ONE), many("8 threads", 8, OPENBLAS_ONE), alone(OPENBLAS_ONE)],
    },
    Victim {
        name: "pytorch",
        words: "a step of training, three layers of 256 x 512 x 512 x 10, 128 rows",
        driver: Driver::OfMachine("step_pytorch", "torch"),
        arguments: &[],
        operations: 100,
        seconds: 3.0,
        loads: &PYTORCH,
    },
    Victim {
        name: "pytorch-convolution",
        words: "a step of training, two convolutions over 16 images of 32 x 32",
        driver: Driver::OfMachine("step_pytorch", "torch"),
        arguments: &["--layers=convolution"],
        operations: 50,
        seconds: 2.0,
        loads: &[pair(PASSIVE), many("8 threads", 8, PASSIVE), QUOTA_OPENMP[0], alone(PASSIVE)],
    },
    Victim {
        name: "pytorch-loader",
        words: "a batch from a DataLoader with a worker for each thread, and a step of training",
        driver: Driver::OfMachine("loader_pytorch", "torch"),
        arguments: &[],
        operations: 50,
        seconds: 2.0,
        loads: &[pair(PASSIVE), many("8 threads", 8, PASSIVE), QUOTA_OPENMP[0], alone(PASSIVE)],
    },
    Victim {
        name: "xgboost",
        words: "twenty rounds, 3000 x 10",
        driver: Driver::Python("fit_xgboost", "xgboost"),
        arguments: &[],
        operations: 24,
        seconds: 1.0,
        loads: &[pair(PASSIVE), alone(PASSIVE)],
    },
    Victim {
        name: "lightgbm",
        words: "twenty rounds, 3000 x 10",
        driver: Driver::Python("fit_lightgbm", "lightgbm"),
        arguments: &[],
        operations: 24,
        seconds: 2.0,
        loads: &[pair(PASSIVE), alone(PASSIVE)],
    },
    Victim {
        name: "numpy-64",
        words: "a product of 64 x 64",
        driver: Driver::Python("product_numpy", "numpy"),
        arguments: &["--size=64"],
        operations: 100,
        seconds: 1.0,
        loads: &[pair(OPENBLAS), alone(OPENBLAS)],
    },
    Victim {
        name: "numpy-150",
        words: "a product of 150 x 150",
        driver: Driver::Python("product_numpy", "numpy"),
        arguments: &["--size=150"],
        operations: 100,
        seconds: 2.0,
        loads: &[pair(OPENBLAS), alone(OPENBLAS)],
    },
    Victim {
        name: "numpy-600",
        words: "a product of 600 x 600",
        driver: Driver::Python("product_numpy", "numpy"),
        arguments: &["--size=600"],
        operations: 100,
        seconds: 3.0,
        loads: &NUMPY,
    },
    Victim {
        name: "mkl",
        words: "a product of 150 x 150 by MKL, with Intel's OpenMP",
        driver: Driver::Python("product_mkl", "mkl"),
        arguments: &[],
        operations: 100,
        seconds: 2.0,
        loads: &[pair(MKL), many("8 threads", 8, MKL), quota("quota 1, 2 threads", 100, 2, MKL), alone(MKL)],
    },
    Victim {
        name: "numba-omp",
        words: "a parallel loop, layer omp",
        driver: Driver::Python("loop_numba", "numba"),
        arguments: &["--layer=omp"],
        operations: 200,
        seconds: 2.0,
        loads: &[pair(PASSIVE), alone(PASSIVE)],
    },
    Victim {
        name: "numba-tbb",
        words: "a parallel loop, layer tbb",
        driver: Driver::Python("loop_numba", "tbb"),
        arguments: &["--layer=tbb"],
        operations: 200,
        seconds: 2.0,
        loads: &[pair(ONE_THREAD), alone(ONE_THREAD)],
    },
    Victim {
        name: "numba-workqueue",
        words: "a parallel loop, layer workqueue",
        driver: Driver::Python("loop_numba", "numba"),
        arguments: &["--layer=workqueue"],
        operations: 200,
        seconds: 2.0,
        loads: &[pair(ONE_THREAD), alone(ONE_THREAD)],
    },
    Victim {
        name: "onnxruntime",
        words: "twelve layers of 64 x 512 by 512 x 512",
        driver: Driver::Python("layers_onnxruntime", "onnxruntime"),
        arguments: &[],
        operations: 100,
        seconds: 2.0,
        loads: &ONNX,
    },
    Victim {
        name: "openmpi",
        words: "twenty sums over all ranks",
        driver: Driver::Mpi("ring_mpi", Mpi::Open),
        arguments: &[],
        operations: 12,
        seconds: 1.0,
        loads: &[many("5 ranks", 5, YIELD), alone(YIELD)],
    },
    Victim {
        name: "openmpi-5",
        words: "the same by Open MPI 5",
        driver: Driver::Mpi("ring_mpi", Mpi::OpenFive),
        arguments: &[],
        operations: 12,
        seconds: 1.0,
        loads: &[many("3 ranks", 3, YIELD), many("5 ranks", 5, YIELD), alone(YIELD)],
    },
    Victim {
        name: "mpich",
        words: "the same by MPICH",
        driver: Driver::Mpi("ring_mpi", Mpi::Ch),
        arguments: &[],
        operations: 12,
        seconds: 1.0,
        loads: &[many("3 ranks", 3, &[]), many("5 ranks", 5, &[]), alone(&[])],
    },
    Victim {
        name: "broadcast",
        words: "twenty words from one process to others, which wait by sched_yield",
        driver: Driver::Beside("broadcast_yield", "python3"),
        arguments: &[],
        operations: 12,
        seconds: 2.0,
        loads: &[pair(&[]), many("5 processes", 5, &[]), alone(&[])],
    },
    Victim {
        name: "redis",
        words: "a batch over 32 connections to a server with io-threads",
        driver: Driver::Beside("batch_redis", "redis-server"),
        arguments: &[],
        operations: 100,
        seconds: 2.0,
        loads: &[
            many("4 io-threads", 4, ONE_THREAD),
            quota("quota 1, 4 io-threads", 100, 4, ONE_THREAD),
            quota("quota 1.5, 4 io-threads", 150, 4, ONE_THREAD),
            alone(ONE_THREAD),
        ],
    },
    Victim {
        name: "postgres",
        words: "transactions of pgbench that update a row",
        driver: Driver::Beside("transactions_postgres", "initdb"),
        arguments: &[],
        operations: 1,
        seconds: 2.0,
        loads: &[many("64 clients", 64, &[]), beside("64 clients beside a busy loop", 64, &[]), alone(&[])],
    },
    Victim {
        name: "erlang",
        words: "Erlang: twenty rounds of messages to eight processes",
        driver: Driver::Erlang("messages_erlang"),
        arguments: &[],
        operations: 100,
        seconds: 2.0,
        loads: &[pair(ERLANG), beside("beside a busy loop", 2, ERLANG), alone(ERLANG)],
    },
    Victim {
        name: "rabbitmq",
        words: "RabbitMQ: sixty-four messages to a queue and back",
        driver: Driver::Beside("messages_rabbitmq", "rabbitmq-server"),
        arguments: &[],
        operations: 50,
        seconds: 2.0,
        loads: &[pair(&[]), beside("beside a busy loop", 2, &[]), alone(&[])],
    },
    Victim {
        name: "openblas",
        words: "C with Debian's OpenBLAS: a product of 150 x 150",
        driver: Driver::C("product_openblas", OPENBLAS_FLAGS),
        arguments: &[],
        operations: 100,
        seconds: 2.0,
        loads: &[pair(OPENBLAS), alone(OPENBLAS)],
    },
    Victim {
        name: "blis",
        words: "C with Debian's BLIS: the same product",
        driver: Driver::C("product_openblas", BLIS_FLAGS),
        arguments: &[],
        operations: 100,
        seconds: 2.0,
        loads: &[pair(BLIS_ONE), quota("quota 1, 2 threads", 100, 2, BLIS_ONE), alone(BLIS_ONE)],
    },
];

/// The victims of a smoke check: they need a C compiler and nothing else.
pub const QUICK: [&str; 2] = ["gang", "spin-lock"];

/// Returns the victims of these names, in the catalogue's order; all of them if there are no names.
///
/// # Errors
/// If there is none of a name.
pub fn choose<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static Victim>, Error> {
    let known = |name: &&S| VICTIMS.iter().any(|victim| victim.name == name.as_ref());
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(Error::request(
            format!("'{}': there is no such victim", unknown.as_ref()),
            format!("choose from {}", VICTIMS.each_ref().map(|victim| victim.name).join(", ")),
        ));
    }
    let chosen = |victim: &&Victim| names.is_empty() || names.iter().any(|name| name.as_ref() == victim.name);
    Ok(VICTIMS.iter().filter(chosen).collect())
}

impl Victim {
    /// The name of a case.
    pub fn case(&self, load: &Load) -> String {
        format!("{}, {}", self.name, load.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_an_unknown_one_is_refused_with_the_list() {
        assert_eq!(choose::<&str>(&[]).unwrap().len(), VICTIMS.len());
        let names: Vec<&str> =
            choose(&["numpy-64", "ggml"]).unwrap().iter().map(|victim| victim.name).collect();
        assert_eq!(names, ["ggml", "numpy-64"]);
        let error = choose(&["excel"]).unwrap_err().to_string();
        assert!(error.contains("'excel'") && error.contains("scikit-learn, kmeans"), "{error}");
        assert_eq!(choose(&QUICK).unwrap().len(), QUICK.len());
    }

    #[test]
    fn each_case_has_a_name_of_its_own_and_each_victim_is_measured_alone_too() {
        let cases = || VICTIMS.iter().flat_map(|victim| victim.loads.iter().map(|load| victim.case(load)));
        let mut names: Vec<String> = cases().collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cases().count());
        for victim in &VICTIMS {
            let alone: Vec<&Load> = victim.loads.iter().filter(|load| load.name == ALONE).collect();
            assert_eq!(alone.iter().map(|load| (load.copies, load.threads)).collect::<Vec<_>>(), [(1, 2)]);
        }
    }
}
