//! Node's workers: each answers messages, and waits by `Atomics.wait` now and then. `node workers.js WORKERS SECONDS`

const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

if (isMainThread) {
    const [count, seconds] = process.argv.slice(2).map(Number);
    const shared = new SharedArrayBuffer(8);
    const begin = process.hrtime.bigint();
    let answers = 0, open = count;
    for (let i = 0; i < count; i++) {
        const worker = new Worker(__filename, { workerData: shared });
        worker.on('message', (sum) => {
            answers++;
            const elapsed = Number(process.hrtime.bigint() - begin) / 1e9;
            if (elapsed < seconds) {
                worker.postMessage(sum % 1000);
                return;
            }
            worker.terminate();
            if (--open === 0)
                console.log(`rate ${answers / elapsed}`);
        });
        worker.postMessage(i);
    }
} else {
    const shared = new Int32Array(workerData);
    parentPort.on('message', (seed) => {
        let sum = seed;
        for (let i = 0; i < 10000; i++)
            sum = (sum * 31 + i) | 0;
        Atomics.add(shared, 0, 1);
        Atomics.notify(shared, 0);
        Atomics.wait(shared, 1, 0, 0.05);
        parentPort.postMessage(sum >>> 0);
    });
}
