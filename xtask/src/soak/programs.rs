//! The programs: shell scripts that work for a few seconds and print a result that is the same each
//! time.
//!
//! A script runs in a folder of its own. `$BIN` has the compiled drivers, `$VICTIMS` the drivers in
//! Python, `$PYTHON` is the Python of `cargo xtask setup victims`, `$MANY` is a number of threads
//! that is more than the CPUs under `manx run` and 1 as it is, and `drive` runs a driver of `manx
//! bench victims` and prints the checksums that it came to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Result;
use crate::process::capture;
use crate::setup::{find, open_mpi};
use crate::workspace::root;

/// What every script begins with.
const PRELUDE: &str = r#"
set -e
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 PYTHONDONTWRITEBYTECODE=1
drive() { echo go | "$@" > driven; awk '/^op/ {print $4}' driven | sort -u; grep -q '^done' driven; }
"#;

/// What a program needs.
enum Need {
    /// A program in PATH
    Program(&'static str),
    /// A C source of the benchmarks, and the flags to compile it with
    Source(&'static str, &'static [&'static str]),
    /// The same by Open MPI's compiler, for its `mpirun`
    Mpi(&'static str),
    /// The same with ggml
    Ggml(&'static str),
    /// The virtual environment
    Environment,
}
use Need::{Environment, Ggml, Mpi, Program, Source};

/// A program, what it needs, and its script.
struct Entry {
    name: &'static str,
    needs: &'static [Need],
    script: &'static str,
}

/// A program that can be run here.
pub struct Prepared {
    /// What it is called
    pub name: &'static str,
    /// Its script, whole
    pub script: String,
}

impl Prepared {
    /// A program of these lines alone.
    #[cfg(test)]
    pub fn of(name: &'static str, script: &str) -> Prepared {
        Prepared { name, script: script.into() }
    }
}

const fn entry(name: &'static str, needs: &'static [Need], script: &'static str) -> Entry {
    Entry { name, needs, script }
}

/// Debian's OpenBLAS with threads of its own, also where the system prefers another one; elsewhere,
/// where there are no such folders, the library of this name.
const OPENBLAS: &[&str] = &[
    "-I/usr/include/x86_64-linux-gnu/openblas-pthread",
    "-L/usr/lib/x86_64-linux-gnu/openblas-pthread",
    "-Wl,-rpath=/usr/lib/x86_64-linux-gnu/openblas-pthread",
    "-lopenblas",
];

const ENTRIES: &[Entry] = &[
    entry("gang", &[Source("gang", &["-fopenmp"])], r#"drive "$BIN/gang" --operations=200 --threads=4"#),
    entry(
        "spin-lock",
        &[Source("spin_lock", &[])],
        r#"drive "$BIN/spin_lock" --seconds=2 --threads=8; echo ok"#,
    ),
    entry(
        "openblas",
        &[Source("product_openblas", OPENBLAS)],
        r#"drive "$BIN/product_openblas" --operations=1000"#,
    ),
    entry("ggml", &[Ggml("graph_ggml")], r#"drive "$BIN/graph_ggml" --operations=50 --threads=$MANY"#),
    entry(
        "openmpi",
        &[Mpi("ring_mpi")],
        r#"
        [ "$(id -u)" = 0 ] && root=--allow-run-as-root
        drive $(command -v mpirun.openmpi || echo mpirun) $root --host localhost:2 -n 2 "$BIN/ring_mpi" --operations=10"#,
    ),
    entry(
        "redis",
        &[Program("redis-server"), Program("python3")],
        r#"drive python3 "$VICTIMS/batch_redis.py" --operations=200 --threads=$MANY"#,
    ),
    entry("scikit-learn", &[Environment], r#"drive "$PYTHON" "$VICTIMS/fit_scikit.py" --operations=4"#),
    entry("xgboost", &[Environment], r#"drive "$PYTHON" "$VICTIMS/fit_xgboost.py" --operations=8"#),
    entry("lightgbm", &[Environment], r#"drive "$PYTHON" "$VICTIMS/fit_lightgbm.py" --operations=8"#),
    entry("numpy", &[Environment], r#"drive "$PYTHON" "$VICTIMS/product_numpy.py" --operations=500"#),
    entry(
        "numba",
        &[Environment],
        r#"for layer in omp tbb workqueue; do
            drive "$PYTHON" "$VICTIMS/loop_numba.py" --layer=$layer --operations=500
        done"#,
    ),
    entry(
        "onnxruntime",
        &[Environment],
        r#"drive "$PYTHON" "$VICTIMS/layers_onnxruntime.py" --threads=4 --operations=100"#,
    ),
    entry(
        "leveldb",
        &[Source("leveldb", &["-lleveldb"])],
        // It checks what it wrote by itself.
        r#""$BIN/leveldb" --mode=mixed --threads=8 --seconds=2 --home=db > said; grep -q '"errors": *0' said; echo ok"#,
    ),
    entry(
        "mariadb",
        &[Program("mariadbd"), Program("mariadb-install-db"), Program("mariadb-admin"), Program("sysbench")],
        r#"
        user=$(id -un)
        mariadb-install-db --no-defaults --user=$user --datadir="$PWD/data" --auth-root-authentication-method=normal \
            > made 2>&1
        mariadbd --no-defaults --user=$user --datadir="$PWD/data" --socket=s --skip-networking --pid-file=p \
            --innodb-flush-log-at-trx-commit=0 2> log &
        sql() { mariadb --no-defaults --socket=data/s --user=root --batch --skip-column-names "$@"; }
        for i in $(seq 1200); do
            mariadb-admin --no-defaults --socket=data/s --user=root ping > /dev/null 2>&1 && break
            sleep 0.1
        done
        sql -e 'create database sbtest'
        load() {
            sysbench oltp_read_write --db-driver=mysql --mysql-socket=data/s --mysql-user=root --tables=2 \
                --table-size=500 --threads=8 --events=300 --time=0 --mysql-ignore-errors=1213,1020,1205 "$@"
        }
        load prepare > prepared
        load run > ran
        # A deleted entry of an index may stay behind when a rollback and the purge meet (MDEV-29823): rubbish that no reader sees.
        sql sbtest -e 'select count(*) from sbtest1; select count(*) from sbtest2; check table sbtest1, sbtest2 extended' |
            grep -v 'Warning.InnoDB: Clustered index record not found .*(info_bits=32,'
        mariadb-admin --no-defaults --socket=data/s --user=root shutdown
        wait"#,
    ),
    entry(
        "git",
        &[Program("git")],
        r#"
        export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        export GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000'
        git init -q repository
        cd repository
        git config gc.auto 0
        git config pack.threads 4
        for i in $(seq 20); do
            for j in 1 2 3; do seq $((i * j)) $((i * j + 3000)) > file$((i * j % 17)); done
            git add .
            git commit -qm "$i"
        done
        git repack -adfq
        git fsck --strict 2>&1
        git rev-parse HEAD"#,
    ),
    entry(
        "sqlite",
        &[Program("sqlite3")],
        r#"
        sqlite3 x.db 'pragma journal_mode=wal; create table t(a integer primary key, b text)' > made
        for writer in 1 2 3; do
            for i in $(seq 15); do
                sqlite3 -cmd '.timeout 300000' x.db "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
                    insert into t(b) select hex(zeroblob(i % 50)) from n"
            done &
            writers="$writers $!"
        done
        for writer in $writers; do wait $writer; done
        sqlite3 x.db 'select count(*), sum(length(b)) from t; pragma integrity_check'"#,
    ),
    entry(
        "java",
        &[Program("java"), Program("javac")],
        r#"
        cat > Soak.java <<'END'
import java.util.concurrent.*;
import java.util.stream.*;

class Soak {
    public static void main(String[] arguments) throws Exception {
        var map = new ConcurrentHashMap<Integer, Long>();
        IntStream.range(0, 2_000_000).parallel().forEach(i -> map.merge(i % 1000, (long) i, Long::sum));
        var pool = Executors.newFixedThreadPool(8);
        var queue = new ArrayBlockingQueue<Integer>(16);
        for (int t = 0; t < 4; t++) pool.submit(() -> { for (int i = 0; i < 20_000; i++) queue.put(i); return null; });
        long sum = 0;
        for (int i = 0; i < 80_000; i++) sum += queue.take();
        pool.shutdown();
        System.out.println(map.values().stream().mapToLong(x -> x).sum() + " " + sum);
    }
}
END
        java Soak.java"#,
    ),
    entry(
        "node",
        &[Program("node")],
        r#"
        cat > soak.js <<'END'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
if (isMainThread) {
    const shared = new Int32Array(new SharedArrayBuffer(4));
    const hashes = [];
    for (let i = 0; i < 16; i++)
        crypto.pbkdf2('manx', 'salt' + i, 5000, 32, 'sha256', (error, key) => { hashes[i] = key.toString('hex'); });
    const done = [1, 2, 3, 4].map(() => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: shared });
        worker.on('error', reject);
        worker.on('exit', resolve);
    }));
    Promise.all(done).then(() => process.on('exit', () => console.log(shared[0], crypto.createHash('md5').update(hashes.join()).digest('hex'))));
} else {
    for (let i = 0; i < 200000; i++) Atomics.add(workerData, 0, 1);
    parentPort.close();
}
END
        node soak.js"#,
    ),
    entry(
        "python",
        &[Program("python3")],
        r#"
        cat > soak.py <<'END'
import concurrent.futures, hashlib, queue, threading

inbox, outbox = queue.Queue(8), queue.Queue(8)

def work():
    while (item := inbox.get()) is not None:
        outbox.put(hashlib.sha256(bytes(20000) + str(item).encode()).digest()[0])

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()

def feed():
    for item in range(4000):
        inbox.put(item)
    for _ in threads:
        inbox.put(None)

feeder = threading.Thread(target=feed)
feeder.start()
total = sum(outbox.get() for _ in range(4000))
for thread in threads + [feeder]:
    thread.join()
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(total, sum(pool.map(lambda i: i * i, range(5000))))
END
        python3 soak.py"#,
    ),
    entry(
        "compressors",
        &[Program("xz"), Program("sort")],
        r#"
        seq 300000 > numbers
        xz -T4 --block-size=200KiB -2 -c numbers > numbers.xz
        xz -T4 -dc numbers.xz | cmp - numbers
        sort --parallel=4 -S 8M -R --random-source=numbers numbers | sort --parallel=4 -S 8M -n | cmp - numbers
        cksum < numbers"#,
    ),
];

/// Compiles what is needed into `scratch`. Returns what can be run, and why the rest cannot.
///
/// # Errors
/// If there is no program of a name in `only`, or `scratch` cannot be written.
pub fn prepare(target: &Path, scratch: &Path, only: &[String]) -> Result<(Vec<Prepared>, Vec<String>)> {
    if let Some(unknown) = only.iter().find(|name| !ENTRIES.iter().any(|entry| entry.name == **name)) {
        let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        return Err(format!("there is no program `{unknown}`; there are {}", names.join(", ")));
    }
    let bin = scratch.join("bin");
    fs::create_dir_all(&bin).map_err(|why| format!("{}: {why}", bin.display()))?;
    let (mut prepared, mut left_out) = (Vec::new(), Vec::new());
    for entry in ENTRIES {
        if !only.is_empty() && !only.iter().any(|name| name == entry.name) {
            continue;
        }
        match entry.needs.iter().try_for_each(|need| need.meet(target, &bin)) {
            Ok(()) => {
                let places = format!(
                    "BIN='{}' VICTIMS='{}' PYTHON='{}'\n",
                    bin.display(),
                    root().join("bench/workload/victims").display(),
                    target.join("victims/env/bin/python").display(),
                );
                let script = [&places, PRELUDE, entry.script].concat();
                prepared.push(Prepared { name: entry.name, script });
            }
            Err(why) => left_out.push(format!("{}: {}", entry.name, why.lines().next().unwrap_or_default())),
        }
    }
    Ok((prepared, left_out))
}

impl Need {
    /// Whether it is there; compiles it if it is a source.
    fn meet(&self, target: &Path, bin: &Path) -> Result {
        let ggml = target.join("victims/ggml");
        let beside = |there: bool, what: &str| {
            if there { Ok(()) } else { Err(format!("{what}: `cargo xtask setup victims` brings it")) }
        };
        match *self {
            Program(name) => find(name).map(drop).ok_or_else(|| format!("{name} is not installed")),
            Environment => beside(target.join("victims/env/made").exists(), "there is no Python environment"),
            Source(name, flags) => compile(&cc()?, name, flags, bin),
            Mpi(name) => {
                open_mpi("mpirun")?;
                compile(&open_mpi("mpicc")?, name, &[], bin)
            }
            Ggml(name) => {
                beside(ggml.join("made").exists(), "ggml is not built")?;
                let lib = |name: &str| ggml.join("lib").join(name).display().to_string();
                let (include, libs) = (
                    format!("-I{}", ggml.join("include").display()),
                    ["libggml.a", "libggml-cpu.a", "libggml-base.a"].map(lib),
                );
                let mut flags = vec![include.as_str()];
                flags.extend(libs.iter().map(String::as_str));
                flags.push("-lstdc++");
                compile(&cc()?, name, &flags, bin)
            }
        }
    }
}

fn cc() -> Result<PathBuf> {
    find("cc").ok_or_else(|| "cc is not installed".into())
}

fn compile(compiler: &Path, name: &str, flags: &[&str], bin: &Path) -> Result {
    let folders = ["bench/workload/victims", "bench/engines"].map(|folder| root().join(folder));
    let file = format!("{name}.c");
    let source = folders.iter().map(|folder| folder.join(&file)).find(|source| source.exists());
    let source = source.ok_or_else(|| format!("there is no {file}"))?;
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O2", "-pthread"]);
    for folder in &folders {
        command.arg("-I").arg(folder);
    }
    command.arg(source).arg("-o").arg(bin.join(name)).args(flags).args(["-lm", "-ldl"]);
    let refused = |why: String| {
        let mut lines = why.lines().filter(|line| line.contains("error") || line.contains("cannot find"));
        let why = lines.next().unwrap_or_default();
        format!("{file} does not compile here with {} {}: {why}", compiler.display(), flags.join(" "))
    };
    capture(&mut command).map(drop).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_dozen_and_each_has_a_name_of_its_own() {
        let mut names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() >= 12 && names.len() == ENTRIES.len());
    }

    #[test]
    fn scripts_are_shell_and_an_unknown_program_is_refused() {
        for entry in ENTRIES {
            let script = [PRELUDE, entry.script].concat();
            let status = Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
            assert!(status.success(), "{}", entry.name);
        }
        let folder = tempfile::tempdir().unwrap();
        let refused = prepare(folder.path(), folder.path(), &["excel".into()]).err().unwrap();
        assert!(refused.contains("`excel`") && refused.contains("sqlite"), "{refused}");
    }

    #[test]
    fn a_program_that_is_not_set_up_is_left_out_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let only = ["scikit-learn".to_owned(), "ggml".to_owned()];
        let (prepared, left_out) = prepare(folder.path(), folder.path(), &only).unwrap();
        assert!(prepared.is_empty());
        assert!(
            left_out.len() == 2 && left_out.iter().all(|why| why.contains("setup victims")),
            "{left_out:?}"
        );
    }
}
