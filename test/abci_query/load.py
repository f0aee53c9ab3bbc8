#!/usr/bin/env python3
"""load.py - `statekv load` and `statekv replay` against servers that misbehave: what fails
is never counted as a success."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

STATEKV = os.environ.get("STATEKV_BUILD", "build/dev") + "/tools/statekv"
checks = failures = 0


def check(condition, what):
    global checks, failures
    checks += 1
    if not condition:
        failures += 1
        print("FAILED", what)


class Server:
    """Answers each request by `behave(count, body)`: (status, body), None to close, or a delay."""

    def __init__(self, behave, close_at_once=False):
        self.behave, self.close_at_once, self.count = behave, close_at_once, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d/" % self.listener.getsockname()[1]
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            if self.close_at_once:
                peer.close()
            else:
                threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = peer.recv(65536)
                if not more:
                    return
                data += more
            head, data = data.split(b"\r\n\r\n", 1)
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            while len(data) < length:
                data += peer.recv(65536)
            body, data = data[:length], data[length:]
            with self.lock:
                self.count += 1
                count = self.count
            answer = self.behave(count, body)
            if answer is None:
                peer.close()
                return
            status, text = answer
            peer.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(text)) + text)


def run(*arguments):
    done = subprocess.run([STATEKV, *arguments], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


BODY = '{"jsonrpc":"2.0","id":7,"method":"health"}'
GOOD = b'{"jsonrpc":"2.0","id":7,"result":{}}'


def load(url, *more):
    code, out, err = run("load", "--json", url, "-c", "4", "-n", "200", "-b", BODY, *more)
    check("NaN" not in out and "nan" not in out, "a figure that is none: " + out)
    return code, json.loads(out) if out.strip() else {}, err


def bad(name, behave, kind, **more):
    code, report, _ = load(Server(behave, **more).url)
    check(code == 1, name + ": exit status")
    check(report["Summary"]["Good"] == 0 and report["Summary"]["RPS"] == 0, name + ": successes")
    check(report["Summary"]["Count"] >= 200, name + ": count %d" % report["Summary"]["Count"])
    check(any(kind in text for text in report["Error"]), "%s: %s" % (name, report["Error"]))
    check(report["Percentiles"] == {}, name + ": percentiles of nothing")


code, report, _ = load(Server(lambda n, b: (200, GOOD)).url)
check(code == 0 and report["Summary"]["Good"] == 200 and report["Error"] == {}, "a good server")
check(report["Summary"]["Served"] == 4 and "P99.99" in report["Percentiles"], "served")
check(sum(count for _, count in report["Histograms"]) == 200, "the histogram holds all")

bad("404", lambda n, b: (404, b"no"), "status 404")
bad("a JSON-RPC error", lambda n, b: (200, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,'
                                           b'"message":"Internal error","data":"boom"}}'), "boom")
bad("closing after accept", lambda n, b: None, "closed", close_at_once=True)
bad("closing after the request", lambda n, b: None, "closed")
bad("another id", lambda n, b: (200, GOOD.replace(b"7", b"8")), "another id")
bad("no JSON", lambda n, b: (200, b"hello"), "no JSON")
bad("no result", lambda n, b: (200, b'{"jsonrpc":"2.0","id":7}'), "no result")
bad("a pruned version", lambda n, b: (200, b'{"jsonrpc":"2.0","id":7,"result":{"response":{"code":0,'
                                           b'"log":"version does not exist"}}}'), "version does not exist")
bad("a refused query", lambda n, b: (200, b'{"jsonrpc":"2.0","id":7,"result":{"response":{"code":26,'
                                          b'"log":"too old"}}}'), "too old")
code, report, _ = load(Server(lambda n, b: (500, b"") if n % 100 == 0 else (200, GOOD)).url)
check(code == 1 and report["Summary"]["Good"] == 198, "one in a hundred")
check(report["Error"] == {"status 500": 2}, "and its kind")
code, _, _ = load(Server(lambda n, b: (500, b"") if n % 100 == 0 else (200, GOOD)).url,
                  "--max-errors", "2")
check(code == 0, "within --max-errors")
closed = socket.create_server(("127.0.0.1", 0))
port = closed.getsockname()[1]
closed.close()
code, report, _ = load("http://127.0.0.1:%d/" % port, "-d", "2s")
check(code == 1 and report["Summary"]["Good"] == 0, "a refused connection")
check(any("refused" in text for text in report["Error"]), "says so: %s" % report["Error"])
code, report, _ = load(Server(lambda n, b: (200, GOOD)).url, "--expect", "nonsense")
check(code == 1 and "the answer lacks the expected text" in report["Error"], "--expect")

# An open loop times from when a request was due: 50 a second against 20 answers a second.
gate = threading.Lock()


def slow(n, b):
    with gate:
        threading.Event().wait(0.05)
    return 200, GOOD


code, out, err = run("load", "--json", Server(slow).url, "-c", "2", "-n", "60", "--rate", "50",
                     "-b", BODY)
worst = json.loads(out)["Statistics"]["Latency"]["Max"]
check(worst.endswith("s") and not worst.endswith("ms") and float(worst[:-1]) > 1.2,
      "the wait for a free connection counts: " + worst)
code, out, err = run("load", Server(lambda n, b: (200, GOOD)).url, "-n", "100", "-b", BODY)
for block in ("Summary:", "Elapsed", "Statistics", "StdDev", "Latency Percentile:", "P99.99",
              "Latency Histogram:", "RPS"):
    check(block in out, "plow's block " + block)
for wrong in (["load"], ["load", "ftp://x"], ["load", "http://h/", "-c", "0"],
              ["load", "http://h/", "-d", "5x"], ["load", "http://h/", "-b", "@/nowhere"],
              ["replay"], ["replay", "/nowhere.gor", "--to", "http://127.0.0.1:1/"]):
    code, out, err = run(*wrong)
    check(code == 2 and err.count("\n") <= 2 and err, "%s: %d %s" % (wrong, code, err))

# Recording and replaying, through a real server.
SEPARATOR = "\n🐵🙈🙉\n"
with tempfile.TemporaryDirectory() as folder:
    db = "memory:"
    pairs = folder + "/pairs.tsv"
    open(pairs, "w").write("616263\t646566\n")
    db = "rocksdb:" + folder + "/data"
    check(run("import", "--db", db, "ibc", pairs)[0] == 0, "import")
    for name in ("traffic.gor", "traffic.gor.gz"):
        recording = folder + "/" + name
        server = subprocess.Popen([STATEKV, "serve", "--db", db, "--laddr", "tcp://127.0.0.1:0",
                                   "--record", recording], stdout=subprocess.PIPE)
        url = "http://" + server.stdout.readline().decode().split("tcp://")[1].strip() + "/"
        query = ('{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"/store/ibc/key",'
                 '"data":"616263"}}')
        check(run("load", url, "-n", "50", "-c", "3", "-b", query)[0] == 0, "load")
        check(run("load", url + "abci_query?path=%22/store/ibc/key%22&data=0x616263", "-n", "10")[0]
              == 0, "load by URI")
        server.terminate()
        check(server.wait(20) == 0, "serve ends well")
        server = subprocess.Popen([STATEKV, "serve", "--db", db, "--laddr", "tcp://127.0.0.1:0"],
                                  stdout=subprocess.PIPE)
        url = "http://" + server.stdout.readline().decode().split("tcp://")[1].strip() + "/"
        code, out, err = run("replay", recording, "--to", url, "--speed", "0", "--json")
        report = json.loads(out)
        check(code == 0 and report["requests"] == 60 and report["compared"] == 60 and
              report["different"] == 0, "replayed %s: %s %s" % (name, out, err))
        code, out, err = run("replay", recording, "--dry-run")
        check(code == 0 and "Requests   60" in out and "Answers    60" in out, "dry run: " + out)

        # Three fields, a torn end, junk between; and an answer that changed.
        old = folder + "/old.gor"
        request = "POST / HTTP/1.1\r\nHost: elsewhere\r\nContent-Length: %d\r\n\r\n%s" % (
            len(query), query)
        open(old, "w", newline="").write(
            "1 aa 1000000000\n" + request + SEPARATOR + "junk" + SEPARATOR +
            "1 bb 1300000000\n" + request)
        code, out, err = run("replay", old, "--to", url, "--json")
        report = json.loads(out)
        check(code == 0 and report["requests"] == 2 and report["torn"] == 1 and
              report["malformed"] == 1, "an old recording: %s %s" % (out, err))
        elapsed = report["report"]["Summary"]["Elapsed"]
        check(elapsed.endswith("ms") and float(elapsed[:-2]) >= 300, "at its pace: " + elapsed)
        open(old, "w", newline="").write(
            "1 aa 1000000000 -1\n" + request + SEPARATOR +
            "2 aa 1000000001 5\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + SEPARATOR)
        code, out, err = run("replay", old, "--to", url, "--json")
        check(code == 1 and json.loads(out)["different"] == 1, "another answer: " + out)
        server.terminate()
        check(server.wait(20) == 0, "serve ends well again")

print("%d checks, %d failures" % (checks, failures))
sys.exit(failures > 0)
