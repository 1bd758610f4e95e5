//! tokio's workers behind a gate: they park and resume, and a parked worker keeps no task, timer or
//! socket.

#[path = "common/gate.rs"]
mod gate;

use gate::{Together, WORKERS};
use manx::pool::gate::tokio::TokioGate;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testing::{LONG, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

fn runtime() -> (Runtime, TokioGate) {
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().expect("threads");
    let gate = TokioGate::new(runtime.handle());
    (runtime, gate)
}

/// Waits for a task that must end.
fn end<T>(runtime: &Runtime, what: &str, task: impl Future<Output = T>) -> T {
    runtime
        .block_on(async { tokio::time::timeout(LONG, task).await })
        .unwrap_or_else(|_| panic!("{what} does not end"))
}

/// Returns when `count` tasks are polled at the same time.
fn run_at_once(runtime: &Runtime, count: usize) {
    let here = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let here = Arc::clone(&here);
            runtime.spawn(async move {
                here.fetch_add(1, SeqCst);
                until("all workers at once", || here.load(SeqCst) >= count);
            })
        })
        .collect();
    for task in tasks {
        end(runtime, "tasks at once", task).expect("no panic");
    }
}

/// How many tasks were polled at the same time, at most, of many.
fn most_at_once(runtime: &Runtime) -> usize {
    let together = Arc::new(Together::default());
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let together = Arc::clone(&together);
            runtime.spawn(async move {
                together.work();
                tokio::task::yield_now().await;
                together.work();
            })
        })
        .collect();
    for task in tasks {
        end(runtime, "work", task).expect("no panic");
    }
    together.most.load(SeqCst)
}

#[test]
fn workers_above_the_limit_park_and_resume() {
    let (runtime, gate) = runtime();
    run_at_once(&runtime, WORKERS);
    for active in [1, 2, 3, 1, 4, 2] {
        gate.set_active(active);
        until("parked", || gate.gate().parked() == WORKERS - active);
        // A worker that parks may have lost its place to another thread for a moment, until its
        // canary tells it so: not each round has to be within the limit.
        until("few at once", || most_at_once(&runtime) <= active);
        run_at_once(&runtime, active);
    }
    gate.set_active(WORKERS);
    run_at_once(&runtime, WORKERS);
    assert_eq!(gate.gate().parked(), 0);
}

/// Tasks that a worker could take along when it parks: that yield, that were just woken, that are
/// queued behind others.
#[test]
fn a_worker_that_parks_keeps_no_task() {
    let (runtime, gate) = runtime();
    for round in 0..200 {
        gate.set_active(WORKERS);
        let began = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..32)
            .map(|_| {
                let began = Arc::clone(&began);
                runtime.spawn(async move {
                    began.fetch_add(1, SeqCst);
                    for _ in 0..50 {
                        tokio::task::yield_now().await;
                    }
                    // A pair that wakes each other in turn, by way of the slot.
                    let (to, mut from) = mpsc::channel::<u32>(1);
                    let (back, mut answers) = mpsc::channel::<u32>(1);
                    tokio::spawn(async move {
                        while let Some(number) = from.recv().await {
                            back.send(number + 1).await.expect("a receiver");
                        }
                    });
                    for number in 0..20 {
                        to.send(number).await.expect("a receiver");
                        assert_eq!(answers.recv().await, Some(number + 1));
                    }
                })
            })
            .collect();
        until("begun", || began.load(SeqCst) > round % 32);
        gate.set_active(1);
        for task in tasks {
            end(&runtime, "a task", task).expect("no panic");
        }
    }
}

#[test]
fn timers_sockets_and_tasks_continue_while_the_limit_changes() {
    let (runtime, gate) = runtime();
    let gate = Arc::new(gate);
    let stop = Arc::new(AtomicBool::new(false));
    let changer = std::thread::spawn({
        let (gate, stop) = (Arc::clone(&gate), Arc::clone(&stop));
        move || {
            let mut changes = 0;
            while !stop.load(SeqCst) {
                gate.set_active(1 + changes * 7 % 4);
                changes += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            changes
        }
    });
    let [ticks, echoes, yields] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for period_ms in [1, 2, 5] {
        let (stop, ticks) = (Arc::clone(&stop), Arc::clone(&ticks));
        tasks.push(runtime.spawn(async move {
            let mut interval = tokio::time::interval(Duration::from_millis(period_ms));
            while !stop.load(SeqCst) {
                interval.tick().await;
                ticks.fetch_add(1, SeqCst);
            }
        }));
    }
    let listener = end(&runtime, "binding", TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("its own");
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    stream.write_all(&bytes[..count]).await.expect("a reader");
                }
            });
        }
    });
    for _ in 0..4 {
        let (stop, echoes) = (Arc::clone(&stop), Arc::clone(&echoes));
        tasks.push(runtime.spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            while !stop.load(SeqCst) {
                stream.write_all(b"manx").await.expect("sent");
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).await.expect("an answer");
                assert_eq!(&bytes, b"manx");
                echoes.fetch_add(1, SeqCst);
            }
        }));
    }
    for _ in 0..4 {
        let (stop, yields) = (Arc::clone(&stop), Arc::clone(&yields));
        tasks.push(runtime.spawn(async move {
            while !stop.load(SeqCst) {
                tokio::task::yield_now().await;
                yields.fetch_add(1, SeqCst);
            }
        }));
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let before = [&ticks, &echoes, &yields].map(|count| count.load(SeqCst));
        until("all go on", || {
            [&ticks, &echoes, &yields].iter().zip(before).all(|(count, before)| count.load(SeqCst) > before)
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, SeqCst);
    let changes = changer.join().expect("no panic");
    gate.set_active(1);
    for task in tasks {
        end(&runtime, "a task", task).expect("no panic");
    }
    println!("{ticks:?} ticks, {echoes:?} echoes, {yields:?} yields, {changes} changes");
    assert!(changes > 10);
    gate.set_active(WORKERS);
    run_at_once(&runtime, WORKERS);
}

#[test]
fn tasks_that_panic_or_block_leave_the_gate_unchanged() {
    let (runtime, gate) = runtime();
    for round in 0..40 {
        gate.set_active(1 + round % WORKERS);
        let panicking = runtime.spawn(async { panic!("a task that panics, in a test") });
        let blocking = runtime.spawn(async { tokio::task::block_in_place(std::thread::yield_now) });
        assert!(end(&runtime, "a panic", panicking).is_err_and(|error| error.is_panic()));
        end(&runtime, "a block", blocking).expect("no panic");
    }
    gate.set_active(WORKERS);
    run_at_once(&runtime, WORKERS);
}

#[test]
fn runtimes_end_at_any_number_of_active_workers() {
    for active in 1..=WORKERS {
        for gate_first in [false, true] {
            let (runtime, gate) = runtime();
            gate.set_active(active);
            if active % 2 == 0 {
                until("parked", || gate.gate().parked() == WORKERS - active);
            }
            let (done, is_done) = std::sync::mpsc::channel();
            let dropper = std::thread::spawn(move || {
                if gate_first {
                    drop(gate);
                    drop(runtime);
                } else {
                    drop(runtime);
                    assert!(gate.gate().is_closed());
                    gate.set_active(1);
                }
                done.send(()).expect("waited for");
            });
            is_done.recv_timeout(LONG).expect("the runtime ends");
            dropper.join().expect("no panic");
        }
    }
}

#[test]
fn a_runtime_of_one_thread_never_parks() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let gate = TokioGate::new(runtime.handle());
    gate.set_active(0);
    assert_eq!(end(&runtime, "a task", async { tokio::spawn(async { 7 }).await }).expect("no panic"), 7);
    assert_eq!((gate.gate().workers(), gate.gate().parked()), (1, 0));
}

#[test]
fn a_runtime_follows_the_budget() {
    let (runtime, gate) = runtime();
    let follower = gate.follow_budget().expect("a thread");
    let budget = manx::cpu::CpuBudget::now().count(manx::cpu::Rounding::Floor).min(WORKERS);
    assert_eq!(gate.gate().active(), budget);
    until("parked", || gate.gate().parked() == WORKERS - budget);
    assert_eq!(end(&runtime, "a task", runtime.spawn(async { 7 })).expect("no panic"), 7);
    drop(follower);
}
