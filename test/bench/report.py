"""The report, looked at in a real browser."""
import json
import os
import re
import shutil
import subprocess
import sys

import program
from program import BenchTest, run

CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--enable-logging=stderr", "--log-level=0")


class Report(BenchTest):
    def test_it_renders_alone_and_without_complaint(self):
        result = self.path("kv.json")
        done = run("kv", "fillseq", "readrandom", "--quick", "--count", "100,1000", "--db",
                   "memory:", "--db", "leveldb:", "--json", result)
        self.assertEqual(done.returncode, 0, done.stderr)
        html, pictures = self.path("report.html"), self.path("pictures")
        done = run("report", result, "-o", html, "--pictures", pictures)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(html, encoding="utf-8") as file:
            text = file.read()
        # Two of bars, and per workload one of percentiles and one of sizes.
        self.assertEqual(text.count("<svg"), 6)
        self.assertEqual(sorted(os.listdir(pictures)), ["%02d.svg" % i for i in range(1, 7)])

        log = self.path("net.json")
        done = subprocess.run([*CHROMIUM, "--user-data-dir=" + self.path("profile"),
                               "--log-net-log=" + log, "--dump-dom", "file://" + html],
                              capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        dom = done.stdout
        self.assertEqual(dom.count("<svg"), 6)
        for wanted in ("readrandom", "leveldb", "cost of one operation", "99.9"):
            self.assertIn(wanted, dom)
        self.assertNotIn("CONSOLE", done.stderr)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(self.requests(file.read()), [])

    @staticmethod
    def requests(log):
        """What pages asked of the network; the browser's own errands are its makers'."""
        urls = re.findall(r'"url":"((?:https?|wss?)://[^"]*)"', log)
        own = ("google", "gstatic", "gvt1", "doubleclick", "chrome")
        return [url for url in urls if not any(name in url for name in own)]

    def test_a_report_of_nothing_is_refused(self):
        bad = self.path("bad.json")
        with open(bad, "w", encoding="utf-8") as file:
            json.dump({"format": "other"}, file)
        done = run("report", bad, "-o", self.path("report.html"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("bad.json", done.stderr)
        self.assertEqual(run("report", "-o", self.path("report.html")).returncode, 2)

    def test_names_from_a_file_are_never_commands_or_markup(self):
        result = self.path("self.json")
        self.assertEqual(run("self", "empty", "--quick", "--json", result).returncode, 0)
        with open(result, encoding="utf-8") as file:
            document = json.load(file)
        trap = self.path("trap")
        name = "<script>alert(1)</script>\"; system 'touch %s'; \"" % trap
        document["rows"][0]["backend"] = document["rows"][0]["workload"] = name
        document["program"]["commit"] = name
        with open(result, "w", encoding="utf-8") as file:
            json.dump(document, file)
        html = self.path("report.html")
        self.assertEqual(run("report", result, "-o", html).returncode, 0)
        with open(html, encoding="utf-8") as file:
            self.assertNotIn("<script", file.read())
        self.assertFalse(os.path.exists(trap))


if __name__ == "__main__":
    if shutil.which("chromium") is None or shutil.which("gnuplot") is None:
        print("chromium or gnuplot is not installed: skipped")
        sys.exit(77)
    program.main()
