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
//! If no leader runs there, a connection moves to a loop that has nothing to do. If the kernel does
//! not know where, it has the loop of its number.
//!
//! While the loops are *gathered* (`gather.rs`), all connections move to the first one.
//!
//! The CPU is asked for in every [`TURNS`]th turn, so a connection whose client has no steady CPU
//! costs two system calls in that number of turns.
//!
//! Invariants:
//! 1. A connection is in the set of its loop; while it moves, in two. It enters the new set before
//!    it leaves the old one, and entering reports what is there already: no event is lost. One that
//!    comes twice finds nothing (`served.rs`).
//! 2. Only the thread that serves a connection moves it ([`Place`] is the connection's own).

use super::gather::Gather;
use super::pace::Pace;
use super::ready::Ready;
use platform::clock::now_ns;
use socket2::Socket;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A connection is looked at after this number of turns.
const TURNS: u32 = if cfg!(test) { 2 } else { 16 };
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
}

/// All loops.
pub(super) struct EventLoops {
    all: Box<[EventLoop]>,
    gather: Gather,
}

/// The loop that has a connection.
pub(super) struct Place {
    at: usize,
    turns: u32,
}

impl Place {
    /// The number of the loop.
    pub(super) fn event_loop(&self) -> usize {
        self.at
    }
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
            let (ready, pace) = (Ready::new()?, Pace::new());
            Ok(EventLoop { ready, pace, cpu: AtomicUsize::new(NOWHERE) })
        };
        let all = (0..count.clamp(1, LOOPS_MAX)).map(new).collect::<io::Result<_>>()?;
        Ok(EventLoops { all, gather: Gather::new() })
    }

    pub(super) fn all(&self) -> &[EventLoop] {
        &self.all
    }

    /// The leader of this loop, which calls it, is about to serve.
    pub(super) fn is_here(&self, number: usize) {
        let (own, cpu) = (&self.all[number], platform::cpu::current());
        if own.cpu.load(Relaxed) != cpu {
            own.cpu.store(cpu, Relaxed);
        }
    }

    /// The calling thread serves this loop, and goes on.
    pub(super) fn step(&self, number: usize) {
        let now_ns = now_ns();
        let times = self.all[number].pace.step(now_ns);
        if let Some(times) = times.filter(|_| self.all.len() > 1) {
            self.gather.add(times, now_ns);
        }
    }

    /// Whether the first loop has all connections. A loop that rests has busy neighbours, and may
    /// wait for them; so the loops are spread then, and not all clients wait with it.
    fn are_gathered(&self) -> bool {
        self.gather.is_gathered() && !self.all[0].pace.is_short_of_cpus()
    }

    /// The first place of a connection, which has still to be added there.
    pub(super) fn place(&self, number: u64) -> Place {
        Place { at: if self.are_gathered() { 0 } else { self.nth(number) }, turns: 0 }
    }

    fn nth(&self, number: u64) -> usize {
        (number % self.all.len() as u64) as usize
    }

    /// From now on the loop `first` reports this connection, by its number.
    pub(super) fn add(&self, socket: &Socket, number: u64, first: usize) -> io::Result<()> {
        self.all[first].ready.add(socket, number)
    }

    /// The calling thread serves this connection, and moves it if another loop is nearer to its
    /// client.
    #[inline]
    pub(super) fn settle(&self, place: &mut Place, socket: &Socket, number: u64) {
        if self.all.len() == 1 {
            return;
        }
        place.turns += 1;
        let to = if place.turns >= TURNS {
            place.turns = 0;
            self.better(place.at, number, socket.cpu_affinity().ok())
        } else {
            // A connection gathers at its next turn: 9,900 connections took seconds for 16 turns.
            (place.at != 0 && self.are_gathered()).then_some(0)
        };
        if let Some(to) = to {
            self.move_to(to, place, socket, number);
        }
    }

    /// A loop that should rather have a connection of this one, whose client is on this CPU. A
    /// kernel may not know that, nor of a socket of a file.
    fn better(&self, at: usize, number: u64, cpu: Option<usize>) -> Option<usize> {
        // Of a socket of a file the kernel says -1.
        let cpu = cpu.filter(|cpu| *cpu < platform::cpu::COUNT_MAX);
        let is_near = |it: &EventLoop| Some(it.cpu.load(Relaxed)) == cpu;
        let is_here = is_near(&self.all[at]);
        if let Some(cpu) = cpu {
            self.gather.saw(cpu, is_here);
        }
        let find = |is: &dyn Fn(&EventLoop) -> bool| self.all.iter().position(is);
        let to = match cpu {
            _ if self.are_gathered() => Some(0),
            None => Some(self.nth(number)),
            Some(_) if is_here => None,
            Some(_) => find(&is_near).or_else(|| find(&|it| it.pace.is_paused())),
        };
        to.filter(|to| *to != at)
    }

    fn move_to(&self, to: usize, place: &mut Place, socket: &Socket, number: u64) {
        // Invariant 1. Without memory for it in the kernel, it stays.
        if self.all[to].ready.add(socket, number).is_ok() {
            self.all[place.at].ready.remove(socket);
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
        loops.gather.set(false);
        let number = 4;
        let mut place = loops.place(number);
        loops.add(&socket, number, place.at).unwrap();
        let told = |at: usize| {
            let mut list = Vec::new();
            loops.all()[at].ready.look(&mut list, 8);
            list.iter().any(|(who, _)| *who == number)
        };
        assert_eq!((place.at, told(0), told(1)), (0, true, false));
        client.write_all(b"PING\r\n").unwrap();
        // This event is not asked for before the move.
        let cpu = socket.cpu_affinity().unwrap();
        (0..TURNS).for_each(|_| loops.settle(&mut place, &socket, number));
        assert_eq!(place.at, 0, "no leader is known");
        loops.all[0].cpu.store(cpu + 1, Relaxed);
        loops.all[1].cpu.store(cpu, Relaxed);
        (0..TURNS).for_each(|_| loops.settle(&mut place, &socket, number));
        // Its client may have moved to another CPU meanwhile; then it stays.
        if socket.cpu_affinity().unwrap() == cpu {
            assert_eq!((place.at, told(0), told(1)), (1, false, true));
            client.write_all(b"PING\r\n").unwrap();
            assert_eq!((told(0), told(1)), (false, true));
        }
    }

    #[test]
    fn connections_go_near_their_clients_unless_the_loops_are_gathered() {
        let loops = EventLoops::new(3).unwrap();
        (0..3).for_each(|number| loops.all[number].cpu.store(number, Relaxed));
        // All have something to do.
        for event_loop in &loops.all {
            event_loop.pace.step(now_ns());
            // Other tests may crowd the machine.
            event_loop.pace.set_rests(0);
        }
        let better = |at: usize, cpu: Option<usize>| loops.better(at, 4, cpu);
        let places = || [better(0, Some(2)), better(2, Some(2)), better(2, Some(7)), better(2, None)];
        loops.gather.set(false);
        assert_eq!(loops.place(4).event_loop(), 1);
        assert_eq!(places(), [Some(2), None, None, Some(1)]);
        // One has not.
        loops.all[1].pace.pause();
        assert_eq!(places(), [Some(2), None, Some(1), Some(1)]);
        loops.gather.set(true);
        assert_eq!(loops.place(4).event_loop(), 0);
        assert_eq!(places(), [None, Some(0), Some(0), Some(0)]);
    }

    #[test]
    fn loops_of_a_crowded_machine_are_not_gathered() {
        let loops = EventLoops::new(2).unwrap();
        loops.gather.set(true);
        assert!(loops.are_gathered());
        loops.all[0].pace.set_rests(100);
        assert!(!loops.are_gathered());
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
    fn a_socket_of_a_file_has_a_loop_of_its_number() {
        let loops = EventLoops::new(2).unwrap();
        loops.gather.set(false);
        let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = Socket::from(here);
        let mut place = loops.place(1);
        loops.add(&socket, 1, place.at).unwrap();
        (0..TURNS).for_each(|_| loops.settle(&mut place, &socket, 1));
        assert_eq!(place.at, 1);
        // It does not wait for its turn to be asked for.
        loops.gather.set(true);
        loops.settle(&mut place, &socket, 1);
        assert_eq!((place.at, place.turns < TURNS), (0, true));
        loops.gather.set(false);
        (0..TURNS).for_each(|_| loops.settle(&mut place, &socket, 1));
        assert_eq!(place.at, 1);
    }
}
