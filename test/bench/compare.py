"""The rules of compare, on results that are changed on purpose."""
import program
from program import BENCH, WASTEFUL, BenchTest, run


class Compare(BenchTest):
    @classmethod
    def scaled(cls, document, workload, metric, factor, noise=None):
        """The document with one metric of one row `factor` times what it was."""
        changed = cls.copy(document)
        entry = cls.row(changed, workload)["metrics"][metric]
        entry["mean"] *= factor
        entry["samples"] = [[sample * factor for sample in fork] for fork in entry["samples"]]
        if noise is not None:
            entry["error"] = entry["mean"] * noise
        return changed

    def steady(self):
        """A result with every error small, so that only the rules decide."""
        document = self.measure("self", "empty", "allocate", "--quick", "--forks", "2")
        for row in document["rows"]:
            for metric in row["metrics"].values():
                metric["samples"] = [[metric["mean"]] * len(fork) for fork in metric["samples"]]
                metric["error"] = metric["mean"] * 0.001
        return document

    def check(self, base, new, status, *expected, force=False):
        done = run("compare", self.save("base.json", base), self.save("new.json", new),
                   *(["--force"] if force else []))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for text in expected:
            self.assertIn(text, done.stdout + done.stderr)

    def test_the_same_is_no_change(self):
        base = self.steady()
        self.check(base, base, 0, "no change in 2 rows")

    def test_counters_are_gated_at_two_percent(self):
        base = self.steady()
        more = self.scaled(base, "allocate", "allocations", 1.03)
        self.check(base, more, 1, "WORSE", "self.allocate", "allocations")
        self.check(more, base, 0, "better")
        self.check(base, self.scaled(base, "allocate", "allocations", 1.015), 0, "no change")
        # A metric of the suite's own, and one that is only context.
        self.check(base, self.scaled(base, "allocate", "turns", 1.5), 1, "turns")
        self.check(base, self.scaled(base, "allocate", "cpu_ns", 2.0), 0, "no change")

    def test_throughput_must_change_enough_and_clearly(self):
        base = self.steady()
        self.check(base, self.scaled(base, "empty", "throughput", 0.85), 1, "WORSE",
                   "self.empty", "throughput")
        self.check(base, self.scaled(base, "empty", "throughput", 1.2), 0, "better")
        self.check(base, self.scaled(base, "empty", "throughput", 0.92), 0, "no change")
        self.check(base, self.scaled(base, "empty", "throughput", 0.85, noise=0.3), 0,
                   "no change")

    def test_one_process_in_common_is_no_change(self):
        base = self.steady()
        new = self.scaled(base, "empty", "throughput", 0.8)
        entry = self.row(new, "empty")["metrics"]["throughput"]
        entry["samples"][0] = list(self.row(base, "empty")["metrics"]["throughput"]
                                   ["samples"][0])
        self.check(base, new, 0, "no change")

    def test_rows_must_be_there_and_good(self):
        base = self.steady()
        fewer = self.copy(base)
        fewer["rows"] = [row for row in fewer["rows"] if row["workload"] != "empty"]
        self.check(base, fewer, 1, "MISSING", "self.empty")
        self.check(fewer, base, 0, "new row")
        failed = self.copy(base)
        row = self.row(failed, "empty")
        del row["metrics"]
        row["error"] = "wrong answer"
        self.check(base, failed, 1, "FAILED", "wrong answer")
        self.check(failed, base, 0, "works now")
        other = self.copy(base)
        self.row(other, "empty")["parameters"]["count"] = "7"
        self.check(base, other, 1, "MISSING")
        nothing = self.copy(base)
        nothing["rows"] = []
        self.check(nothing, base, 2, "no rows")

    def test_unlike_machines_are_refused_unless_forced(self):
        base = self.steady()
        for part, name, value in (("machine", "kernel", "1.0"), ("machine", "cores", 64),
                                  ("program", "flags", "-O0"), ("plan", "seed", 7)):
            other = self.copy(base)
            other[part][name] = value
            self.check(base, other, 2, name)
            self.check(base, other, 0, "no change", force=True)
        other = self.copy(base)
        other["program"]["commit"] = "another"
        self.check(base, other, 0, "no change")
        other["databases"][0]["options"]["kv.x.y"] = 1
        self.check(base, other, 2, "options")

    def test_what_is_no_result_is_refused(self):
        base = self.save("base.json", self.steady())
        for text in ("", "{", "[]", "{}", '{"format": "statekv-bench", "format_version": 9}'):
            with open(self.path("bad.json"), "w", encoding="utf-8") as file:
                file.write(text)
            done = run("compare", base, self.path("bad.json"))
            self.assertEqual(done.returncode, 2, text)
            self.assertIn("bad.json", done.stderr)
        self.assertEqual(run("compare", base).returncode, 2)
        self.assertEqual(run("compare", base, self.path("absent.json")).returncode, 2)

    GETS = ("kv", "readrandom", "--quick", "--count", "500", "--db", "memory:", "--db",
            "rocksdb:")

    def test_an_allocation_more_per_get_is_found(self):
        base = self.measure(*self.GETS)
        worse = self.measure(*self.GETS, program=WASTEFUL)
        self.check(base, worse, 1, "WORSE", "kv.readrandom memory", "kv.readrandom rocksdb",
                   "allocations")
        self.check(base, self.measure(*self.GETS), 0, "no change")

    def test_pairs_are_run_in_turn_and_judged(self):
        gets = (*self.GETS[:-2], "--forks", "1")
        command = " ".join((BENCH, *gets))
        wasteful = " ".join((WASTEFUL, *gets))
        done = run("compare", "--run", command, command, "--pairs", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no change in 1 row", done.stdout)
        done = run("compare", "--run", command, wasteful, "--pairs", "3")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("kv.readrandom memory", done.stdout)
        self.assertIn("allocations", done.stdout)
        self.assertEqual(run("compare", "--run", command, "false").returncode, 2)


if __name__ == "__main__":
    program.main()
