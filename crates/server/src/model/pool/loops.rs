//! The event loops, and which one has a connection.
//!
//! Each loop is a set of epoll with a leader (`watch.rs`) that serves its connections. There are as
//! many loops as workers, so that each CPU may serve. A worker that answers wakes the client's
//! thread, or makes the kernel send a packet. That costs several microseconds more if it concerns
//! another CPU: an interrupt there, which a virtual machine's host has to deliver. So a connection
//! *moves* to the loop whose leader runs on the CPU where the kernel receives what the client sends
//! (`SO_INCOMING_CPU`): for a client on this machine the CPU on which it runs, for another one the
//! CPU of the network card's queue. Threads are not bound to CPUs: where the kernel puts a leader,
//! there its connections go.
//!
//! If no leader runs there, a connection moves to a loop that has nothing to do.
//!
//! The connections of a loop that is *merged* (`company.rs`) move to the earlier loop on its CPU.
//!
//! The CPU is asked for in every [`TURNS`]th turn, so a connection whose client has no steady CPU
//! costs two system calls in that number of turns.
//!
//! Invariants:
//! 1. A connection is in the set of its loop; while it moves, in two. It enters the new set before
//!    it leaves the old one, and entering reports what is there already: no event is lost. One that
//!    comes twice finds nothing (`served.rs`).
//! 2. Only the thread that serves a connection moves it ([`Place`] is the connection's own).

use super::company::Company;
use super::pace::Pace;
use super::ready::Ready;
use platform::clock::now_ns;
use socket2::Socket;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A connection is looked at after this number of turns.
const TURNS: u32 = if cfg!(test) { 1 } else { 16 };
/// The maximum number of loops.
const LOOPS_MAX: usize = 16;
/// Not a CPU: the leader has not begun.
const NOWHERE: usize = usize::MAX - 1;
/// A loop.
pub(super) struct EventLoop {
    pub(super) ready: Ready,
    pub(super) pace: Pace,
    /// Where its leader was when it last served. Relaxed, as all that follows: a hint.
    cpu: AtomicUsize,
    company: Company,
}

/// All loops.
pub(super) struct EventLoops(Box<[EventLoop]>);

/// The loop that has a connection.
pub(super) struct Place {
    at: usize,
    turns: u32,
}

impl EventLoop {
    /// Whether its leader last served on the CPU that the calling thread runs on.
    pub(super) fn is_on_this_cpu(&self) -> bool {
        self.cpu.load(Relaxed) == platform::cpu::current()
    }
}

impl EventLoops {
    /// This number of loops, but not more than there may be.
    pub(super) fn new(count: usize) -> io::Result<EventLoops> {
        let new = |_| {
            let (ready, pace, company) = (Ready::new()?, Pace::new(), Company::default());
            Ok(EventLoop { ready, pace, cpu: AtomicUsize::new(NOWHERE), company })
        };
        (0..count.clamp(1, LOOPS_MAX)).map(new).collect::<io::Result<_>>().map(EventLoops)
    }

    pub(super) fn all(&self) -> &[EventLoop] {
        &self.0
    }

    /// The leader of this loop, which calls it, is about to serve.
    pub(super) fn is_here(&self, number: usize) {
        let (own, cpu) = (&self.0[number], platform::cpu::current());
        if own.cpu.load(Relaxed) != cpu {
            own.cpu.store(cpu, Relaxed);
        }
        // No loop is earlier than the first one, so that one never merges.
        let shares = self.0[..number].iter().any(|earlier| earlier.cpu.load(Relaxed) == cpu);
        own.company.count(shares, now_ns);
    }

    /// The first place of a connection, which has still to be added there.
    pub(super) fn place(&self, number: u64) -> Place {
        Place { at: (number % self.0.len() as u64) as usize, turns: 0 }
    }

    /// Reports this connection from now on, by its number.
    pub(super) fn add(&self, socket: &Socket, number: u64) -> io::Result<()> {
        self.0[self.place(number).at].ready.add(socket, number)
    }

    /// The calling thread serves this connection, and moves it if another loop is nearer to its
    /// client.
    #[inline]
    pub(super) fn settle(&self, place: &mut Place, socket: &Socket, number: u64) {
        place.turns += 1;
        if place.turns >= TURNS {
            place.turns = 0;
            if self.0.len() > 1
                && let Some(to) = self.better(place.at, || socket.cpu_affinity().ok())
            {
                self.move_to(to, place, socket, number);
            }
        }
    }

    /// A loop that should rather have a connection of this one, whose client's CPU is asked for. A
    /// kernel may not know that, nor of a socket of a file: then the connection stays.
    fn better(&self, at: usize, cpu: impl FnOnce() -> Option<usize>) -> Option<usize> {
        let now_ns = now_ns();
        let find = |is: &dyn Fn(&EventLoop) -> bool| {
            self.0.iter().position(|it| !it.company.is_merged(now_ns) && is(it))
        };
        let near = |cpu: usize| move |it: &EventLoop| it.cpu.load(Relaxed) == cpu;
        if self.0[at].company.is_merged(now_ns) {
            return find(&near(self.0[at].cpu.load(Relaxed))).or(Some(0));
        }
        // Of a socket of a file the kernel says -1.
        let is_near = near(cpu().filter(|cpu| *cpu < platform::cpu::COUNT_MAX)?);
        if is_near(&self.0[at]) {
            return None;
        }
        find(&is_near).or_else(|| find(&|it| it.pace.is_paused())).filter(|to| *to != at)
    }

    fn move_to(&self, to: usize, place: &mut Place, socket: &Socket, number: u64) {
        // Invariant 1. Without memory for it in the kernel, it stays.
        if self.0[to].ready.add(socket, number).is_ok() {
            self.0[place.at].ready.remove(socket);
            place.at = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn a_connection_moves_to_the_loop_near_its_client_and_loses_no_event() {
        let loops = EventLoops::new(2).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::from(listener.accept().unwrap().0);
        let number = 4;
        let mut place = loops.place(number);
        loops.add(&socket, number).unwrap();
        let told = |at: usize| {
            let mut list = Vec::new();
            loops.all()[at].ready.look(&mut list, 8);
            list.iter().any(|(who, _)| *who == number)
        };
        assert_eq!((place.at, told(0), told(1)), (0, true, false));
        client.write_all(b"PING\r\n").unwrap();
        // This event is not asked for before the move.
        let cpu = socket.cpu_affinity().unwrap();
        loops.settle(&mut place, &socket, number);
        assert_eq!(place.at, 0, "no leader is known");
        loops.0[0].cpu.store(cpu + 1, Relaxed);
        loops.0[1].cpu.store(cpu, Relaxed);
        loops.settle(&mut place, &socket, number);
        // Its client may have moved to another CPU meanwhile; then it stays.
        if socket.cpu_affinity().unwrap() == cpu {
            assert_eq!((place.at, told(0), told(1)), (1, false, true));
            client.write_all(b"PING\r\n").unwrap();
            assert_eq!((told(0), told(1)), (false, true));
        }
    }

    #[test]
    fn connections_leave_a_merged_loop_and_come_back() {
        let loops = EventLoops::new(3).unwrap();
        let at = |number: usize, cpu: usize| loops.0[number].cpu.store(cpu, Relaxed);
        (0..3).for_each(|number| at(number, number));
        // All have something to do.
        loops.0.iter().for_each(|event_loop| event_loop.pace.step());
        let better = |number: usize, cpu: Option<usize>| loops.better(number, || cpu);
        assert_eq!(
            [better(0, Some(2)), better(2, Some(2)), better(2, Some(7)), better(1, None)],
            [Some(2), None, None, None]
        );
        at(2, 1);
        loops.0[2].company.merge_until(u64::MAX);
        assert_eq!([better(2, Some(2)), better(0, Some(1)), better(0, Some(2))], [Some(1), Some(1), None]);
        // Where the earlier one was meanwhile, there is none.
        at(1, 3);
        assert_eq!(better(2, Some(2)), Some(0));
        // It takes part again, and has nothing to do.
        loops.0[2].company.merge_until(1);
        loops.0[2].pace.pause();
        assert_eq!([better(0, Some(7)), better(0, Some(3)), better(1, Some(3))], [Some(2), Some(1), None]);
    }

    #[test]
    fn a_loop_is_where_its_leader_served() {
        let of_test = std::thread::spawn(|| {
            let loops = EventLoops::new(1).unwrap();
            let one = &loops.all()[0];
            assert!(!one.is_on_this_cpu(), "no leader is known");
            platform::cpu::restrict(1);
            loops.is_here(0);
            assert!(one.is_on_this_cpu());
        });
        of_test.join().unwrap();
    }

    #[test]
    fn a_socket_of_a_file_stays() {
        let loops = EventLoops::new(2).unwrap();
        let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = Socket::from(here);
        let mut place = loops.place(1);
        loops.add(&socket, 1).unwrap();
        loops.settle(&mut place, &socket, 1);
        assert_eq!(place.at, 1);
    }
}
