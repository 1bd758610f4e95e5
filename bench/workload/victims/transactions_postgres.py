"""PostgreSQL with a client for each thread: transactions of pgbench, each timed by pgbench.

A transaction updates a row that is drawn, and adds a line to a table. The server's processes meet in the spin locks of
its log and of its buffers. There are too many transactions for a line each, so their latencies are told at the end, as
lines `many NANOSECONDS COUNT`. The server is started here, in a folder of its own, and syncs no file.
"""

import collections
import ctypes
import glob
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time

import victim

NOBODY = 65534
SETTINGS = ["listen_addresses=", "fsync=off", "synchronous_commit=off", "autovacuum=off", "max_connections=200"]
given = victim.options()
folder = tempfile.mkdtemp(prefix="manx-postgres-")
# The shell removes the folder a moment after this script ends, also if the script is killed.
words = ["sh", "-c", 'cat; sleep 1; rm -rf "$0"', folder]
remover = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
# Debian has the server's programs in a folder for each version, and not in PATH.
versions = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: (len(path), path))
environment = {**os.environ, "HOME": folder, "PGHOST": folder, "PGUSER": "postgres"}
environment["PATH"] = ":".join(versions[-1:] + [os.environ["PATH"]])
environment.pop("XDG_CACHE_HOME", None)
quiet = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
server_too = dict(quiet)
if os.geteuid() == 0:
    # The server refuses to run as root.
    os.chown(folder, NOBODY, NOBODY)
    server_too.update(user=NOBODY, group=NOBODY, extra_groups=[])


def end_with_parent():
    """A server whose client was killed ends its processes, too (PR_SET_PDEATHSIG)."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def pgbench(*more):
    """A run of pgbench on all connections."""
    clients = ["-c", str(given.threads), "-j", str(min(given.threads, 2))]
    words = ["pgbench", "-n", "-b", "simple-update", "-M", "prepared", *clients, *more, "postgres"]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL, **quiet)


def finish(process):
    """Waits for a program that must not fail."""
    assert process.wait() == 0, f"{process.args[0]} failed"


def cpu_ns():
    """The CPU time of the server's processes that have ended, and of pgbench."""
    with open(f"/proc/{server.pid}/stat") as file:
        ticks = sum(map(int, file.read().rsplit(")")[-1].split()[11:15]))
    of_clients = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((ticks / os.sysconf("SC_CLK_TCK") + of_clients.ru_utime + of_clients.ru_stime) * 1e9)


finish(subprocess.Popen(["initdb", "-U", "postgres", "--auth=trust", "--no-sync", "-D", "data"], **server_too))
words = ["postgres", "-D", "data", "-k", folder] + [word for setting in SETTINGS for word in ("-c", setting)]
server = subprocess.Popen(words, stderr=subprocess.DEVNULL, preexec_fn=end_with_parent, **server_too)
try:
    while subprocess.call(["pg_isready"], **quiet) != 0:
        assert server.poll() is None, "the server ended"
        time.sleep(0.05)
    finish(subprocess.Popen(["pgbench", "-i", "-q", "postgres"], stderr=subprocess.DEVNULL, **quiet))
    finish(pgbench("-t", "20"))
    print("ready", flush=True)
    sys.stdin.readline()
    cpu = cpu_ns()
    print("begin", time.perf_counter_ns())
    finish(pgbench("-T", str(max(1, round(given.seconds))), "--log", "--log-prefix=log"))
    end = time.perf_counter_ns()
    latencies = collections.Counter()
    for name in glob.glob(folder + "/log.*"):
        with open(name) as file:
            latencies.update(int(line.split()[2]) for line in file)
    for latency_us, count in latencies.items():
        print("many", latency_us * 1000, count)
    # The server counts the time of its processes once they have ended.
    goes_on = pgbench("-T", "3600")
    print("done", end, cpu_ns() - cpu, flush=True)
    select.select([sys.stdin], [], [])
    goes_on.kill()
    goes_on.wait()
finally:
    server.send_signal(signal.SIGQUIT)
    server.wait()
    remover.stdin.close()
    remover.wait()
