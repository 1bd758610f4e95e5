"""Redis with io-threads: a batch over 32 connections, from the first request to the last reply.

The server is started here, on a socket in a folder of its own, without a file for its data.
"""

import ctypes
import shutil
import socket
import subprocess
import tempfile
import time
import zlib

import victim

CONNECTIONS, EACH = 32, 8
given = victim.options()


def die_with_parent():
    """A server whose client was killed ends too (PR_SET_PDEATHSIG, SIGKILL)."""
    ctypes.CDLL(None).prctl(1, 9)


def connect():
    """A connection, once the server listens."""
    for _ in range(500):
        try:
            made = socket.socket(socket.AF_UNIX)
            made.connect(path)
            return made
        except OSError:
            made.close()
            time.sleep(0.02)
    raise SystemExit("redis-server does not listen")


def command(*words):
    """As the protocol has it."""
    return f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


folder = tempfile.mkdtemp(prefix="manx-redis-")
path = folder + "/socket"
server = subprocess.Popen(
    ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", folder]
    + ["--io-threads", str(given.threads), "--io-threads-do-reads", "yes"],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    preexec_fn=die_with_parent,
)
try:
    connections = [connect() for _ in range(CONNECTIONS)]
    value = bytes(range(97, 123)) * 4
    requests, replies = [], []
    for i in range(CONNECTIONS):
        pairs = [(command(b"SET", b"k%d-%d" % (i, j), value), command(b"GET", b"k%d-%d" % (i, j))) for j in range(EACH)]
        requests.append(b"".join(a + b for a, b in pairs))
        replies.append((b"+OK\r\n$%d\r\n%s\r\n" % (len(value), value)) * EACH)

    def operate():
        """All connections ask, then all are answered, and each reply is compared."""
        for connection, request in zip(connections, requests):
            connection.sendall(request)
        for connection, reply in zip(connections, replies):
            got = b""
            while len(got) < len(reply):
                part = connection.recv(65536)
                assert part, "the server closed a connection"
                got += part
            assert got == reply, "a wrong reply"
        return zlib.crc32(reply)

    victim.run(given, operate, lambda: victim.cpu_ns(server.pid))
finally:
    server.kill()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)
