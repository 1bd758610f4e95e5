"""RabbitMQ: sixty-four messages to a queue and back, from the first word to the last message.

The server is Erlang's virtual machine. Its schedulers would busy-wait for a while before they sleep, but RabbitMQ's
script turns that off, so there should be nothing to cure. The server is started here, with a node and files of its own,
and ends with this process.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zlib

import pika
import victim

MESSAGES = 64
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
given = victim.options()


def free_ports(count):
    """Different ports that nobody has."""
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in made]
    for one in made:
        one.close()
    return ports


def die_with_parent():
    """A server whose client was killed ends too (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def connect():
    """A connection, once the server listens."""
    for _ in range(1200):
        assert server.poll() is None, "the server ended"
        try:
            return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        except pika.exceptions.AMQPError:
            time.sleep(0.05)
    raise SystemExit("rabbitmq-server does not listen")


folder = tempfile.mkdtemp(prefix="manx-rabbitmq-")
port, of_nodes, of_names = free_ports(3)
environment = {
    **os.environ,
    "HOME": folder,
    "RABBITMQ_NODENAME": f"manx{os.getpid()}@localhost",
    "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
    "RABBITMQ_NODE_PORT": str(port),
    "RABBITMQ_DIST_PORT": str(of_nodes),
    "RABBITMQ_CONFIG_FILE": folder + "/none",
    "RABBITMQ_CONF_ENV_FILE": folder + "/none.sh",
    "RABBITMQ_ENABLED_PLUGINS_FILE": folder + "/plugins",
    "RABBITMQ_MNESIA_BASE": folder + "/data",
    "RABBITMQ_LOG_BASE": folder + "/log",
    "RABBITMQ_PID_FILE": folder + "/pid",
    # The script becomes the server, in place of waiting for it, so the server has this process as its parent.
    "RABBITMQ_ALLOW_INPUT": "1",
    # No daemon that knows all nodes of the machine: there is one node.
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(
        ["-noinput -start_epmd false", f"-erl_epmd_port {of_names} +S {given.threads}"]
    ),
}
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
server = subprocess.Popen([SERVER], cwd=folder, env=environment, preexec_fn=die_with_parent, **quiet)
try:
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("manx")
    messages = [bytes([97 + i % 26]) * 100 for i in range(MESSAGES)]
    arrived = channel.consume("manx", auto_ack=True)

    def operate():
        """All messages are sent, then all come back, in their order."""
        for message in messages:
            channel.basic_publish("", "manx", message)
        got = [next(arrived)[2] for _ in messages]
        assert got == messages, "other messages came back"
        return zlib.crc32(b"".join(got))

    victim.run(given, operate, lambda: victim.cpu_ns(server.pid))
finally:
    server.kill()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)
