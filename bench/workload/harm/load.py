"""Python: `python load.py WAY THREADS SECONDS`, where WAY is a function of this file."""

import concurrent.futures
import multiprocessing
import queue
import sys
import threading
import time

WAYS = {}


def way(function):
    WAYS[function.__name__.replace("_", "-")] = function
    return function


def each(threads, work):
    """Runs `work` in each of the threads; the sum of what they return."""
    counts = []
    all_threads = [threading.Thread(target=lambda: counts.append(work())) for _ in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return sum(counts)


@way
def locks(threads, end):
    """Threads that take one lock and wake one another by a condition."""
    condition = threading.Condition()
    turn = 0

    def work():
        nonlocal turn
        count = 0
        while time.perf_counter() < end:
            with condition:
                turn += 1
                condition.notify()
            count += 1
        return count

    return each(threads, work)


@way
def queues(threads, end):
    """Half of the threads put, the others get, from a short queue."""
    items = queue.Queue(16)

    def put():
        while time.perf_counter() < end:
            items.put(1)
        items.put(None)
        return 0

    def get():
        count = 0
        while items.get() is not None:
            count += 1
        return count

    roles = [put, get] * (threads // 2)
    return each(len(roles), lambda: roles.pop()())


def square(number):
    """The job of both pools."""
    return sum(i * i for i in range(number))


def batches(pool, end):
    """Batches of a hundred jobs."""
    count = 0
    while time.perf_counter() < end:
        count += len(list(pool.map(square, [100] * 100)))
    return count


@way
def thread_pool(threads, end):
    """A pool of threads."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return batches(pool, end)


@way
def process_pool(threads, end):
    """A pool of processes."""
    with multiprocessing.Pool(threads) as pool:
        return batches(pool, end)


@way
def groups_polars(threads, end):
    """Sums of groups by polars, which takes its number of threads from POLARS_MAX_THREADS."""
    import polars

    frame = polars.DataFrame({"key": [i % 100 for i in range(100_000)], "value": list(range(100_000))})
    count = 0
    while time.perf_counter() < end:
        frame.group_by("key").agg(polars.col("value").sum())
        count += 1
    return count


@way
def groups_duckdb(threads, end):
    """The same by duckdb."""
    import duckdb

    base = duckdb.connect(config={"threads": threads})
    base.execute("create table t as select i % 100 as key, i as value from range(1000000) r(i)")
    count = 0
    while time.perf_counter() < end:
        base.execute("select key, sum(value) from t group by key").fetchall()
        count += 1
    return count


if __name__ == "__main__":
    given, workers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    begin = time.perf_counter()
    done = WAYS[given](workers, begin + seconds)
    print("rate", done / (time.perf_counter() - begin))
