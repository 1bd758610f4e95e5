//! The count of a gate under loom: every order of steps that the memory model allows. A worker that
//! is never called blocks for ever, and loom reports it.

mod common;

use common::{check, join};
use loom::sync::Arc;
use loom::thread;
use manx_loom::pool::gate::{Gate, Rank, Stay};
use platform::atomic::{AtomicUsize, Ordering};

/// A worker that comes to a check, and says whether it parked.
fn worker(gate: &Arc<Gate>, rank: Rank) -> thread::JoinHandle<bool> {
    let gate = gate.clone();
    thread::spawn(move || {
        let parks = gate.try_park();
        if parks {
            assert_eq!(gate.stay(rank, None), Stay::Called);
        }
        parks
    })
}

#[test]
fn no_worker_sleeps_through_its_call() {
    check(3, || {
        let gate = Arc::new(Gate::new(3));
        let missing = gate.set_active(1);
        assert_eq!(missing, 2);
        let workers = [worker(&gate, Rank::Free), worker(&gate, Rank::Urgent)];
        gate.set_active(2);
        gate.set_active(3);
        join(workers);
        assert_eq!((gate.active(), gate.parked()), (3, 0));
    });
}

#[test]
fn as_many_stay_as_are_too_many() {
    check(3, || {
        let gate = Arc::new(Gate::new(3));
        gate.set_active(1);
        let workers = [worker(&gate, Rank::Free), worker(&gate, Rank::Free)];
        gate.set_active(2);
        // One may be parked still; closing lets it go.
        assert!(gate.parked() <= 2);
        gate.close();
        join(workers);
        assert_eq!(gate.parked(), 0);
        assert!(!gate.try_park());
    });
}

#[test]
fn closing_races_with_lowering() {
    check(3, || {
        let gate = Arc::new(Gate::new(2));
        let lowering = {
            let gate = gate.clone();
            thread::spawn(move || gate.set_active(1))
        };
        let worker = worker(&gate, Rank::Free);
        gate.close();
        lowering.join().unwrap();
        worker.join().unwrap();
        assert_eq!(gate.parked(), 0);
        assert!(!gate.try_park());
    });
}

/// A number that is lowered while a check that was sent before comes to its end: one of the two
/// sees that a worker is missing.
#[test]
fn a_check_and_a_lowering_do_not_miss_each_other() {
    check(3, || {
        let gate = Arc::new(Gate::new(2));
        // One check is on its way, as for the gate of tokio.
        let queued = Arc::new(AtomicUsize::new(1));
        let checking = {
            let (gate, queued) = (gate.clone(), queued.clone());
            thread::spawn(move || {
                queued.fetch_sub(1, Ordering::SeqCst);
                gate.try_park()
            })
        };
        let missing = gate.set_active(1);
        let sends = missing > queued.fetch_add(0, Ordering::SeqCst);
        let parked = checking.join().unwrap();
        assert!(parked || sends, "nobody parks, and no check is sent");
    });
}

#[test]
fn a_worker_that_gives_up_is_told_to_look() {
    check(3, || {
        let gate = Arc::new(Gate::new(2));
        gate.set_active(1);
        let over = Arc::new(AtomicUsize::new(0));
        let staying = {
            let (gate, over) = (gate.clone(), over.clone());
            thread::spawn(move || {
                assert!(gate.try_park());
                let stay = gate.stay_unless(Rank::Free, None, || over.load(Ordering::Relaxed) == 1);
                assert_eq!(stay, Stay::TimedOut);
                gate.step_out();
            })
        };
        over.store(1, Ordering::Relaxed);
        gate.nudge();
        staying.join().unwrap();
        assert_eq!(gate.parked(), 0);
        assert!(gate.try_park(), "in its place");
    });
}
