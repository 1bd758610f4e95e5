//! A command that takes long, and clients that wait meanwhile.

mod support;

use server::Model;
use server::resp::Reply::{Array, Simple};
use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};
use support::*;

const KEYS: usize = 2_000;

/// Returns how many commands of this kind take about this time, by what one takes.
fn commands_for(it: &mut Client, time: Duration) -> usize {
    let began = Instant::now();
    const TIMES: u32 = 20;
    (0..TIMES).for_each(|_| it.expect("KEYS *none", Array(vec![])));
    (time.as_nanos() / (began.elapsed() / TIMES).as_nanos().max(1)) as usize + 1
}

/// No client was served for a while, so only the thread that waits for work looks whether there is
/// some; and when it comes, it takes long.
#[test]
fn others_are_served_during_a_long_command_after_a_silence() {
    let server = start(options(Model::Pool));
    let (it, other) = (&mut Client::to(&server), &mut Client::to(&server));
    for n in 0..KEYS {
        other.expect_ok(&format!("SET k{n} v"));
    }
    let count = commands_for(other, Duration::from_secs(3));
    it.expect_ok("MULTI");
    it.send(&b"KEYS *none\r\n".repeat(count));
    (0..count).for_each(|_| assert_eq!(it.next(), Some(queued())));
    // Also while it is done there is a silence, which is longer than any follower watches in vain.
    let silence = Duration::from_millis(300);
    std::thread::sleep(silence);
    it.send(b"EXEC\r\n");
    std::thread::sleep(silence);
    other.expect("PING", Simple("PONG".into()));
    it.stream.set_nonblocking(true).unwrap();
    let received = it.stream.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(
        received,
        Err(ErrorKind::WouldBlock),
        "the long command had ended before another one was answered"
    );
    it.stream.set_nonblocking(false).unwrap();
    let Some(Array(parts)) = it.next() else { panic!() };
    assert_eq!(parts.len(), count);
}
