"""The harness on workloads whose figures are known beforehand."""
import json
import math
import os
import signal
import statistics
import subprocess
import time

import program
from program import BENCH, BenchTest, run


class Counters(BenchTest):
    def mean(self, document, workload, metric):
        return self.row(document, workload)["metrics"][metric]["mean"]

    def test_counters_are_exact(self):
        for threads in ("1", "3"):
            document = self.measure("self", "empty", "allocate", "write", "--quick",
                                    "--threads", threads)
            for metric, wanted in (("allocations", 0), ("writes", 0), ("turns", 0)):
                self.assertEqual(self.mean(document, "empty", metric), wanted, metric)
            for metric, wanted in (("allocations", 1), ("allocated_bytes", 100), ("writes", 0),
                                   ("turns", 2)):
                self.assertEqual(self.mean(document, "allocate", metric), wanted, metric)
            for metric, wanted in (("writes", 1), ("written_bytes", 4096), ("fdatasyncs", 1),
                                   ("fsyncs", 0), ("allocations", 0)):
                self.assertEqual(self.mean(document, "write", metric), wanted, metric)

    def test_the_engines_calls_are_counted(self):
        document = self.measure("kv", "fillsync", "--quick", "--count", "200", "--db",
                                "rocksdb:", "--db", "leveldb:", "--db", "memory:")
        for row in document["rows"]:
            durable = row["backend"] != "memory"
            metrics = {name: metric["mean"] for name, metric in row["metrics"].items()}
            synced = metrics["fsyncs"] + metrics["fdatasyncs"]
            self.assertEqual(synced >= 1, durable, row["backend"])
            self.assertEqual(metrics["writes"] >= 1, durable, row["backend"])
            self.assertEqual(metrics["written_bytes"] > 120, durable, row["backend"])
            self.assertGreater(metrics["allocations"], 0)

    def test_a_row_is_mean_and_error_of_its_samples(self):
        document = self.measure("self", "sleep", "--count", "20", "--forks", "2", "--warmup",
                                "1", "--iterations", "5")
        metric = self.row(document, "sleep")["metrics"]["throughput"]
        samples = [sample for fork in metric["samples"] for sample in fork]
        self.assertEqual([len(fork) for fork in metric["samples"]], [5, 5])
        self.assertEqual(metric["n"], 10)
        self.assertAlmostEqual(metric["mean"] / statistics.mean(samples), 1, places=6)
        error = 4.781 * statistics.stdev(samples) / math.sqrt(10)
        self.assertAlmostEqual(metric["error"] / error, 1, places=3)
        latency = self.row(document, "sleep")["latency_ns"]
        self.assertEqual(latency["count"], 200)
        self.assertGreaterEqual(latency["p50"], 1000000)
        ordered = [latency[name] for name in ("p50", "p90", "p99", "p99.9", "max")]
        self.assertEqual(ordered, sorted(ordered))

    def test_what_fails_is_no_result(self):
        document = self.measure("self", "empty", "fail", "die", "--faults", "1", "--quick",
                                status=1)
        self.assertIn("metrics", self.row(document, "empty"))
        self.assertIn("wrong answer", self.row(document, "fail")["error"])
        self.assertIn("died", self.row(document, "die")["error"])
        for workload in ("fail", "die"):
            self.assertNotIn("metrics", self.row(document, workload))
        self.assertIn("FAILED", run("self", "fail", "--faults", "1", "--quick").stdout)

    def test_look_ups_are_counted(self):
        document = self.measure("kv", "readrandom", "readmissing", "--quick", "--count", "100",
                                "--db", "memory:")
        for workload, found in (("readrandom", 300), ("readmissing", 0)):
            row = self.row(document, workload)
            self.assertEqual((row["found"], row["asked"]), (found, 300))
        self.assertIn("found 300 of 300", run("kv", "readrandom", "--quick", "--count", "100",
                                              "--db", "memory:").stdout)

    def test_the_header_names_what_was_measured(self):
        document = self.measure("kv", "scan", "--quick", "--db", "leveldb:" + self.dir)
        self.assertEqual(document["format"], "statekv-bench")
        for part, names in (("program", ("commit", "compiler", "flags", "engines")),
                            ("machine", ("kernel", "cpu", "cores"))):
            for name in names:
                self.assertTrue(document[part][name], name)
        database = document["databases"][0]
        self.assertIn("kv.leveldb.block_cache", database["options"])
        self.assertTrue(database["folder"]["filesystem"])
        self.assertGreater(database["folder"]["fsync_probe"]["p50_us"], 0)
        if os.path.isdir("/dev/shm"):
            done = run("kv", "scan", "--quick", "--db", "leveldb:/dev/shm")
            self.assertIn("volatile", done.stdout)

    def test_wrong_usage_is_2_and_leaves_nothing(self):
        for arguments in (("nosuch",), ("kv", "nosuch"), ("kv", "--count", "many"),
                          ("kv", "--count", "1,,2"), ("kv", "--layer", "other"),
                          ("kv", "--threads", "0"), ("kv", "--db", "nosuch:x"),
                          ("kv", "--set", "kv.rocksdb.nosuch=1", "--db", "rocksdb:"),
                          ("self", "--forks", "0"), ()):
            done = run(*arguments, "--quick") if arguments else run()
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertTrue(done.stderr, arguments)

    def interrupted(self, wait):
        """The result of a run that was interrupted after `wait` seconds."""
        path = self.path("partial.json")
        with subprocess.Popen([BENCH, "self", "sleep", "--count", "5", "--warmup",
                               "0", "--iterations", "10000", "--json", path],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            time.sleep(wait)
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=20)
            self.assertEqual(child.returncode, 130)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertTrue(document["interrupted"])
        return document

    def test_an_interrupt_ends_cleanly_with_what_there_is(self):
        os.environ["TMPDIR"] = self.path("scratch")
        os.mkdir(self.path("scratch"))
        self.addCleanup(os.environ.pop, "TMPDIR")
        document = {"rows": []}
        for wait in (2, 8, 24):  # a busy machine may not have begun
            if not document["rows"]:
                document = self.interrupted(wait)
        samples = self.row(document, "sleep")["metrics"]["throughput"]["n"]
        self.assertTrue(1 <= samples < 10000, samples)
        self.assertEqual(os.listdir(self.path("scratch")), [])


if __name__ == "__main__":
    program.main()
