//! Java: `java Load.java fork-join|garbage THREADS SECONDS`.

import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.atomic.AtomicLong;

public class Load {
    /// A sum by halves down to 1,000 numbers.
    static class Sum extends RecursiveTask<Long> {
        final int from, to;

        Sum(int from, int to) {
            this.from = from;
            this.to = to;
        }

        protected Long compute() {
            if (to - from <= 1000) {
                long sum = 0;
                for (int i = from; i < to; i++)
                    sum += i ^ 1;
                return sum;
            }
            Sum left = new Sum(from, (from + to) / 2), right = new Sum((from + to) / 2, to);
            left.fork();
            return right.compute() + left.join();
        }
    }

    /// A tree of 32,767 nodes, most of which live until the collector has copied them.
    static Object[] tree(int depth) {
        return depth == 0 ? new Object[4] : new Object[] {tree(depth - 1), tree(depth - 1)};
    }

    static long garbage(int threads, long end) throws InterruptedException {
        AtomicLong count = new AtomicLong();
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            all[i] = new Thread(() -> {
                Object[] kept = new Object[8];
                for (int at = 0; System.nanoTime() < end; at++) {
                    kept[at % kept.length] = tree(14);
                    count.incrementAndGet();
                }
            });
            all[i].start();
        }
        for (Thread thread : all)
            thread.join();
        return count.get();
    }

    public static void main(String[] words) throws InterruptedException {
        int threads = Integer.parseInt(words[1]);
        long begin = System.nanoTime(), end = begin + (long) (Double.parseDouble(words[2]) * 1e9), count = 0;
        if (words[0].equals("fork-join")) {
            ForkJoinPool pool = new ForkJoinPool(threads);
            for (; System.nanoTime() < end; count++)
                pool.invoke(new Sum(0, 100000));
        } else {
            count = garbage(threads, end);
        }
        System.out.println("rate " + count / ((System.nanoTime() - begin) / 1e9));
    }
}
