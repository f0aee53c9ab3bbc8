#!/usr/bin/env python3
"""checkpoints.py DRIVER - `statekv serve --checkpoints` beside a process that commits and is killed
now and then, also while it writes a checkpoint: every answer is of one version and right, no client
goes back in time, and what was served before is closed and removed."""
import base64
import glob
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("STATEKV_BUILD", "build/dev")
STATEKV, NODE = BUILD + "/tools/statekv", BUILD + "/test/abci_query/example_node"
DRIVER, SECONDS, KILLS = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 12, 8
checks = failures = 0


def check(condition, what):
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        if failures < 20:
            print("FAILED", what)


class Writer:
    def __init__(self, folder):
        self.out = open(folder + "/blocks", "ab")
        self.process = subprocess.Popen([NODE, "%s:%s/data" % (DRIVER, folder), "checkpoints",
                                         folder + "/published"], stdin=subprocess.PIPE,
                                        stdout=self.out)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(30)


class Client:
    """One connection of several, so that requests come to different threads."""

    def __init__(self, place):
        self.connections = [http.client.HTTPConnection(place, timeout=20) for _ in range(8)]

    def ask(self, path, data=None, prove=False):
        connection = random.choice(self.connections)
        params = {} if data is None else {"path": path, "data": data.encode().hex(), "prove": prove}
        connection.request("POST", "/", json.dumps({"jsonrpc": "2.0", "id": 1, "params": params,
                                                    "method": "abci_query" if data else path}))
        answer = json.loads(connection.getresponse().read())
        check("result" in answer, "an answer: %s" % answer)
        return answer.get("result", {})


def hashes(folder):
    """The app hash of each version that was ever committed, as the writer printed it."""
    lines = open(folder + "/blocks").read().split("\n")[:-1]
    return {int(height): digest for height, digest in (line.split() for line in lines)}


def ask_about(client, last):
    """Ask for a value or the app hash; the version that the answer is of."""
    if random.random() < 0.2:
        info = client.ask("abci_info")["response"]
        version = int(info["last_block_height"])
        seen.append((version, base64.b64decode(info["last_block_app_hash"]).hex()))
    else:
        key = random.choice(["height", "account/%d" % random.randrange(100)])
        response = client.ask("/store/bank/key", key, random.random() < 0.3)["response"]
        version = int(response["height"])
        value = base64.b64decode(response["value"] or "").decode()
        check(value == str(version), "%s at %d is %s" % (key, version, value))
    check(version >= last, "from %d back to %d" % (last, version))
    return version


def folders(folder):
    return sorted(os.listdir(folder + "/published"))


with tempfile.TemporaryDirectory() as folder:
    os.environ["TMPDIR"] = folder + "/views"
    os.mkdir(folder + "/views")
    seen, last, answers = [], 0, 0
    db = "%s:%s/published" % (DRIVER, folder)
    early = subprocess.run([STATEKV, "serve", "--db", db, "--checkpoints"], capture_output=True,
                           check=False)
    check(early.returncode == 3 and b"published" in early.stderr, "too early: %s" % early.stderr)
    writer = Writer(folder)
    while not (os.path.isdir(folder + "/published") and any(
            name.isdigit() for name in folders(folder))):
        time.sleep(0.05)
    server = subprocess.Popen([STATEKV, "serve", "--db", db, "--checkpoints", "--laddr",
                               "tcp://127.0.0.1:0", "--set", "query.threads=2"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    client = Client(server.stdout.readline().decode().split("tcp://")[1].strip())
    first = ask_about(client, 0)
    for turn in range(KILLS):
        until = time.monotonic() + SECONDS / KILLS * random.uniform(0.6, 1.2)
        while time.monotonic() < until:
            last = ask_about(client, last)
            answers += 1
        if turn + 1 < KILLS:
            writer.kill()
            writer = Writer(folder)
    check(writer.end() == 0, "the writer ends well")

    # The last checkpoint is found; of what was open before nothing is left open, nor on disk.
    known = hashes(folder)
    until = time.monotonic() + 20
    while last < max(known) and time.monotonic() < until:
        last = ask_about(client, last)
        time.sleep(0.01)
    check(last == max(known), "the newest version, %d, not %d" % (max(known), last))
    check(last > first + KILLS, "it moved on from %d to %d" % (first, last))
    time.sleep(0.5)
    check(all(known.get(version) == digest for version, digest in seen), "app hashes")
    names = folders(folder)
    check(len(names) <= 4 and all(len(name) == 12 for name in names), "folders: %s" % names)
    held = [os.readlink(link) for link in glob.glob("/proc/%d/fd/*" % server.pid)
            if os.path.exists(link) or os.path.islink(link)]
    check(not any("(deleted)" in name and "published" in name for name in held), "files: %s" % held)
    views = os.listdir(folder + "/views")
    check(len(views) == (1 if DRIVER == "leveldb" else 0), "views: %s" % views)
    # A checkpoint that cannot be opened: the one before is served on, and the log says so once.
    broken = "%s/published/%012d" % (folder, int(names[-1]) + 1)
    os.mkdir(broken)
    time.sleep(0.5)
    check(ask_about(client, last) == last, "served on")
    server.send_signal(signal.SIGTERM)
    log = server.communicate(timeout=20)[1].decode()
    check(server.returncode == 0, "serve ends well")
    check(log.count("checkpoint_failed") == log.count(broken) == 1, "the log: " + log)
    check(os.listdir(folder + "/views") == [], "no view is left")
    check(subprocess.run([STATEKV, "verify", "--db", "%s:%s/published/%s" % (DRIVER, folder, names[-1])],
                         stdout=subprocess.DEVNULL, check=False).returncode == 0, "verify")
    print("%d answers of versions %d to %d, %d folders" % (answers, first, last, len(names)))

print("%d checks, %d failures" % (checks, failures))
sys.exit(failures > 0)
