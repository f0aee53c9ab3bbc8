#!/usr/bin/env python3
"""files.py - a server that may open few files keeps some for the store: connections beyond the rest
are told 503, those it has are answered, from tables that are yet to be opened too."""
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile

STATEKV = os.environ.get("STATEKV_BUILD", "build/dev") + "/tools/statekv"
FILES, KEPT, PAIRS = 600, 256, 4000
checks = failures = 0


def check(condition, what):
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        print("FAILED", what)


with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/pairs.tsv", "w") as out:
        for i in range(PAIRS):
            out.write("6b%04x\t%s\n" % (i, "%08x" % i * 500))
    db = "leveldb:" + folder + "/data"  # many small tables
    small = ["--set", "kv.leveldb.table_size=1MiB", "--set", "kv.leveldb.compression=none"]
    subprocess.run([STATEKV, "import", "--db", db, *small, "ibc", folder + "/pairs.tsv"], check=True,
                   stdout=subprocess.DEVNULL)
    server = subprocess.Popen(["prlimit", "--nofile=%d:%d" % (FILES, FILES), STATEKV, "serve", "--db",
                               db, *small, "--laddr", "tcp://127.0.0.1:0", "--log-level", "none",
                               "--set", "query.header_timeout=100s"],
                              stdout=subprocess.PIPE)
    host, port = server.stdout.readline().decode().split("tcp://")[1].strip().split(":")
    good = http.client.HTTPConnection(host, int(port), timeout=20)
    good.connect()
    peers = []
    for _ in range(FILES + 100):
        peers.append(socket.create_connection((host, int(port)), timeout=20))
    held = refused = 0
    for peer in peers:
        try:
            peer.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            got = peer.recv(4096)
        except OSError:
            got = b""
        held += got.startswith(b"HTTP/1.1 200")
        refused += got.startswith(b"HTTP/1.1 503") or got == b""
    check(held == FILES - KEPT - 1, "%d connections served, not %d" % (held, FILES - KEPT - 1))
    check(held + refused == len(peers), "the others are turned away: %d" % refused)
    for i in range(0, PAIRS, 7):
        good.request("POST", "/", json.dumps({"jsonrpc": "2.0", "id": i, "method": "abci_query",
                                              "params": {"path": "/store/ibc/key",
                                                         "data": "6b%04x" % i}}))
        answer = json.loads(good.getresponse().read())
        check(answer.get("result", {}).get("response", {}).get("value"), "key %d: %s" % (i, answer))
    server.terminate()
    check(server.wait(20) == 0, "serve ends well")

print("%d checks, %d failures" % (checks, failures))
sys.exit(failures > 0)
