#!/usr/bin/env python3
"""frozen.py - processes that are stopped for a while (SIGSTOP, a suspended machine) and go on: a
server holds the time against no client, a load generator against no server. Deadlines count as
before for who really is late."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

STATEKV = os.environ.get("STATEKV_BUILD", "build/dev") + "/tools/statekv"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"health"}'
HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(BODY)
DEADLINE, STOPPED = 2, 5  # seconds
checks = failures = 0


def check(condition, what):
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        print("FAILED", what)


def freeze(process, seconds, meanwhile=lambda: None):
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    meanwhile()
    process.send_signal(signal.SIGCONT)


def answer(peer):
    peer.settimeout(10)
    try:
        return peer.recv(65536)
    except OSError as error:
        return str(error).encode()


with tempfile.TemporaryDirectory() as folder:
    open(folder + "/pairs.tsv", "w").write("616263\t646566\n")
    db = "rocksdb:" + folder + "/data"
    subprocess.run([STATEKV, "import", "--db", db, "ibc", folder + "/pairs.tsv"], check=True,
                   stdout=subprocess.DEVNULL)
    def serve(*options):
        process = subprocess.Popen([STATEKV, "serve", "--db", db, "--laddr", "tcp://127.0.0.1:0",
                                    *options], stdout=subprocess.PIPE)
        return process, process.stdout.readline().decode().split("tcp://")[1].strip()

    server, place = serve(*(word for name in ("header", "body", "idle", "write")
                            for word in ("--set", "query.%s_timeout=%ds" % (name, DEADLINE))))
    host, port = place.split(":")

    def dial(*begin):
        peer = socket.create_connection((host, int(port)))
        for part in begin:
            peer.sendall(part)
            if part == HEAD + BODY:
                check(answer(peer).startswith(b"HTTP/1.1 200"), "an answer before")
        return peer

    # Who is late without any stop is told so.
    late = dial(HEAD[:20])
    start = time.monotonic()
    check(answer(late).startswith(b"HTTP/1.1 408"), "half a header is given up")
    check(time.monotonic() - start > DEADLINE - 1, "but not at once")

    # Each in another phase; all say the rest while the server stands still.
    peers = {"new": (dial(), HEAD + BODY), "idle": (dial(HEAD + BODY), HEAD + BODY),
             "in a header": (dial(HEAD[:20]), HEAD[20:] + BODY),
             "in a body": (dial(HEAD + BODY[:5]), BODY[5:])}
    time.sleep(0.3)
    freeze(server, STOPPED, lambda: [peer.sendall(rest) for peer, rest in peers.values()])
    for name, (peer, _) in peers.items():
        got = answer(peer)
        check(got.startswith(b"HTTP/1.1 200"), "a client %s: %s" % (name, got[:40]))

    server.terminate()
    check(server.wait(20) == 0, "serve ends well")

    # A server that stands still for less than the time-out, and a generator for more than it.
    server, place = serve()
    for frozen, timeout in (("server", STOPPED + 5), ("generator", DEADLINE), ("both", DEADLINE)):
        load = subprocess.Popen([STATEKV, "load", "http://%s/" % place, "-c", "50", "-d",
                                 "%ds" % (STOPPED + 3), "--timeout", "%ds" % timeout, "-b",
                                 BODY.decode()], stdout=subprocess.PIPE)
        time.sleep(1)
        if frozen == "both":
            freeze(load, 0, lambda: freeze(server, STOPPED))
        else:
            freeze(server if frozen == "server" else load, STOPPED)
        text = load.communicate(timeout=60)[0].decode()
        check(load.returncode == 0 and "Error" not in text, "a load, %s stopped: %s" % (frozen, text))
        check(frozen == "server" or "Stood still" in text, "it says so: " + text)
    # One that does not answer in time is still found out.
    load = subprocess.Popen([STATEKV, "load", "http://%s/" % place, "-c", "50", "-d",
                             "%ds" % (STOPPED + 3), "--timeout", "%ds" % DEADLINE, "-b",
                             BODY.decode()], stdout=subprocess.PIPE)
    time.sleep(1)
    freeze(server, STOPPED)
    text = load.communicate(timeout=60)[0].decode()
    check("Stood still" in text or (load.returncode == 1 and "no answer in time" in text),
          "a server that stood still: " + text)
    server.terminate()
    check(server.wait(20) == 0, "serve ends well")

print("%d checks, %d failures" % (checks, failures))
sys.exit(failures > 0)
