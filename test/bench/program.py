"""What the tests of statekv-bench share: run it, read its results."""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH, WASTEFUL = sys.argv[1:3] if len(sys.argv) > 2 else ("statekv-bench", "")


def run(*arguments, program=None, **more):
    return subprocess.run([program or BENCH, *arguments], capture_output=True, text=True,
                          check=False, timeout=110, **more)


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench-test-")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def path(self, name):
        return os.path.join(self.dir, name)

    def measure(self, *arguments, status=0, program=None):
        """Run a suite; the result document."""
        path = self.path("result-%d.json" % len(os.listdir(self.dir)))
        done = run(*arguments, "--json", path, program=program)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def save(self, name, document):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(document, file)
        return self.path(name)

    @staticmethod
    def row(document, workload):
        return next(row for row in document["rows"] if row["workload"] == workload)

    @staticmethod
    def copy(document):
        return copy.deepcopy(document)


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
