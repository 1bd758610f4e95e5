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
//! The CPU is asked for in every [`TURNS`]th turn, so a connection whose client has no steady CPU
//! costs two system calls in that number of turns.
//!
//! Invariants:
//! 1. A connection is in the set of its loop; while it moves, in two. It enters the new set before
//!    it leaves the old one, and entering reports what is there already: no event is lost. One that
//!    comes twice finds nothing (`served.rs`).
//! 2. Only the thread that serves a connection moves it ([`Place`] is the connection's own).

use super::pace::Pace;
use super::ready::Ready;
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
    /// Where its leader was when it last served. Relaxed: a hint.
    cpu: AtomicUsize,
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

    /// The leader, which calls it, is about to serve.
    pub(super) fn is_here(&self) {
        let cpu = platform::cpu::current();
        if self.cpu.load(Relaxed) != cpu {
            self.cpu.store(cpu, Relaxed);
        }
    }
}

impl EventLoops {
    /// This number of loops, but not more than there may be.
    pub(super) fn new(count: usize) -> io::Result<EventLoops> {
        let new =
            |_| Ok(EventLoop { ready: Ready::new()?, pace: Pace::new(), cpu: AtomicUsize::new(NOWHERE) });
        (0..count.clamp(1, LOOPS_MAX)).map(new).collect::<io::Result<_>>().map(EventLoops)
    }

    pub(super) fn all(&self) -> &[EventLoop] {
        &self.0
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
            if self.0.len() > 1 {
                self.move_near(place, socket, number);
            }
        }
    }

    fn move_near(&self, place: &mut Place, socket: &Socket, number: u64) {
        // A kernel that does not know, or a socket of a file: then it stays.
        let Ok(cpu) = socket.cpu_affinity() else { return };
        let is_near = |event_loop: &EventLoop| event_loop.cpu.load(Relaxed) == cpu;
        if is_near(&self.0[place.at]) {
            return;
        }
        let Some(to) = self.0.iter().position(is_near) else { return };
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
    fn a_loop_is_where_its_leader_served() {
        let of_test = std::thread::spawn(|| {
            let loops = EventLoops::new(1).unwrap();
            let one = &loops.all()[0];
            assert!(!one.is_on_this_cpu(), "no leader is known");
            platform::cpu::restrict(1);
            one.is_here();
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
