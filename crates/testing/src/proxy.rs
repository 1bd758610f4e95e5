//! A connection between a client and a server that a test can hold or cut.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What passes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Answers,
}

/// Passes on what comes to a port of its own.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What is held.
    held: Option<Way>,
    /// The number of messages, or parts of some, that were held since then.
    count: usize,
    connections: Vec<TcpStream>,
    is_over: bool,
}

impl Proxy {
    /// Before the server with this port here.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if its.state().is_over {
                    return;
                }
                its.serve(client, server);
            }
        });
        Proxy { port, shared }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Holds what passes this way from now on, and passes the rest on.
    pub fn hold(&self, way: Way) {
        let mut state = self.shared.state();
        (state.held, state.count) = (Some(way), 0);
    }

    /// How many messages, or parts of some, are held.
    pub fn held(&self) -> usize {
        self.shared.state().count
    }

    /// Passes everything on again.
    pub fn release(&self) {
        self.shared.state().held = None;
        self.shared.changed.notify_all();
    }

    /// Ends all connections; what is held is lost.
    pub fn cut(&self) {
        for connection in self.shared.state().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        // The thread that listens looks at the state then.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(self: &Arc<Shared>, client: TcpStream, server: u16) {
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
        let again = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        self.state().connections.extend([again(&client), again(&server)]);
        for (way, from, to) in
            [(Way::Requests, again(&client), again(&server)), (Way::Answers, again(&server), again(&client))]
        {
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pass(way, from, to));
        }
    }

    fn pass(&self, way: Way, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let mut state = self.state();
            state.count += usize::from(state.held == Some(way));
            while state.held == Some(way) && !state.is_over {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}
