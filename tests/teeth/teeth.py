#!/usr/bin/env python3
"""Builds each deliberate bug and checks that its suite notices. See run_teeth.sh for the usage.

A bug is compiled into the objects that mention it and nothing else: they are built beside the finished build,
with the commands of that build and the bug's macro, and the test binary is linked again with them in front
of the library. So one bug costs a file or two and a link.
"""
import argparse
import concurrent.futures
import dataclasses
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MACRO = re.compile(r"\bGRAPHTAP_BUG_([A-Za-z0-9_]+)")
SOURCE_FOLDERS = ("src", "include", "adapters")
SHORTEST_LIMIT_S = 60


class Problem(Exception):
    """Something about one bug that is wrong; the message is for the report."""


@dataclasses.dataclass
class Suite:
    binary: str
    gtest_filter: str = "*"


def bugs_in_sources():
    """Bug name → the files (absolute) that mention it."""
    found = {}
    for folder in SOURCE_FOLDERS:
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if not name.endswith((".cpp", ".hpp", ".h", ".in")):
                    continue
                file = os.path.join(path, name)
                with open(file, encoding="utf-8") as text:
                    for bug in set(MACRO.findall(text.read())):
                        found.setdefault(bug, []).append(file)
    return found


def bugs_in_list(path):
    suites = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) not in (2, 3) or words[0] in suites:
                sys.exit(f"{path}:{number}: expected a new bug, a binary and a filter: {line.strip()}")
            suites[words[0]] = Suite(*words[1:])
    return suites


class Build:
    """What a finished ninja build knows about itself."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
            self.commands = json.load(file)
        self.tests = {t["name"]: t for t in json.loads(self.run(["ctest", "--show-only=json-v1"]))["tests"]}
        self.dependents = self._dependents()
        self.archives = {os.path.basename(line.split(":")[0])
                         for line in self.run(["ninja", "-t", "targets", "all"]).splitlines()
                         if line.split(":")[0].endswith(".a")}

    def run(self, command):
        return subprocess.run(command, cwd=self.folder, check=True, text=True, capture_output=True).stdout

    def _dependents(self):
        """Header (absolute) → the objects that include it, from what the compiler reported."""
        dependents = {}
        target = None
        for line in self.run(["ninja", "-t", "deps"]).splitlines():
            if line.startswith(" "):
                path = os.path.normpath(os.path.join(self.folder, line.strip()))
                if path.startswith(ROOT):
                    dependents.setdefault(path, set()).add(target)
            elif line.strip():
                target = line.split(":")[0]
        return dependents

    @staticmethod
    def object_of(words):
        return words[words.index("-o") + 1]

    def library_of(self, target):
        """The archive that an object of <folder>CMakeFiles/<name>.dir/ ends up in: its own, the whole library for a
        component's, or none for another program's."""
        folder, name = re.match("(.*)CMakeFiles/([^/]+)[.]dir/", target).groups()
        own = f"lib{name}.a"
        if own in self.archives:
            return own
        return "libgraphtap.a" if folder == "" and name.startswith("gt_") else None

    def compilations(self, files):
        """(object, command words) of everything that has to be compiled again for a bug in these files."""
        for entry in self.commands:
            words = shlex.split(entry["command"])
            target = self.object_of(words)
            source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            if any(f == source or target in self.dependents.get(f, ()) for f in files):
                yield target, words

    def link(self, binary):
        """(path of the binary, its link command as words)."""
        test = self.tests.get(binary)
        if not test or not test.get("command"):
            raise Problem(f"there is no test {binary} in {self.folder}")
        path = os.path.relpath(test["command"][0], self.folder)
        command = self.run(["ninja", "-t", "commands", "-s", path]).strip()
        parts = [p.strip() for p in command.split("&&")]
        links = [p for p in parts if f"-o {path}" in p]
        if len(links) != 1:
            raise Problem(f"cannot read the link command of {binary}: {command}")
        return path, shlex.split(links[0])

    def test_settings(self, binary):
        """Arguments, environment and working folder that ctest gives the binary."""
        test = self.tests[binary]
        environment, folder = dict(os.environ), self.folder
        for item in test.get("properties", []):
            if item["name"] == "ENVIRONMENT":
                environment.update(v.split("=", 1) for v in item["value"])
            elif item["name"] == "WORKING_DIRECTORY":
                folder = item["value"]
        environment.pop("GTEST_OUTPUT", None)
        environment.setdefault("GRAPHTAP_SEEDS", "2000")  # a bug that takes more schedules to show is hardly caught
        return test["command"][1:], environment, folder


class Teeth:
    def __init__(self, build, work):
        self.build = build
        self.work = work
        self.baselines = {}
        self.lock = threading.Lock()

    def execute(self, program, suite, folder, limit):
        """Runs a suite: (exit code or None after the limit, cases run, seconds, first failed case)."""
        arguments, environment, where = self.build.test_settings(suite.binary)
        report = os.path.join(folder, "report.json")
        command = [program, *arguments, f"--gtest_filter={suite.gtest_filter}", "--gtest_brief=1",
                   "--gtest_fail_fast", f"--gtest_output=json:{report}"]
        began = time.monotonic()
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, cwd=where, env=environment, stdout=log, stderr=log)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = None
        cases, first = 0, ""
        if os.path.exists(report):
            with open(report, encoding="utf-8") as file:
                data = json.load(file)
            for group in data["testsuites"]:
                for case in group["testsuite"]:
                    cases += case["status"] == "RUN" and case.get("result") != "SKIPPED"
                    if case.get("failures") and not first:
                        first = f"{group['name']}.{case['name']}"
        return code, cases, time.monotonic() - began, first

    def baseline(self, suite):
        """Seconds that the suite takes without a bug; it must run something and pass."""
        key = (suite.binary, suite.gtest_filter)
        with self.lock:
            entry = self.baselines.setdefault(key, {"lock": threading.Lock()})
        with entry["lock"]:
            if "seconds" not in entry:
                folder = os.path.join(self.work, f"baseline-{len(self.baselines)}-{suite.binary}")
                os.makedirs(folder, exist_ok=True)
                path, _ = self.build.link(suite.binary)
                code, cases, seconds, first = self.execute(
                    os.path.join(self.build.folder, path), suite, folder, 600)
                entry["seconds"] = seconds
                if code != 0:
                    entry["problem"] = f"{suite.binary} {suite.gtest_filter} fails without a bug: {first}"
                elif cases == 0:
                    entry["problem"] = f"{suite.binary} {suite.gtest_filter} runs no test"
        if "problem" in entry:
            raise Problem(entry["problem"])
        return entry["seconds"]

    def build_bug(self, bug, files, suite, folder):
        path, link = self.build.link(suite.binary)
        program = os.path.join(folder, os.path.basename(path))
        replaced, extra = {}, []
        for number, (target, words) in enumerate(self.build.compilations(files)):
            in_library = self.build.library_of(target) in map(os.path.basename, link)
            if target not in link and not in_library:
                continue  # another program's
            new = os.path.join(folder, f"{number}.o")
            words = list(words)
            words[words.index("-o") + 1] = new
            words.insert(words.index("-c"), f"-DGRAPHTAP_BUG_{bug}=1")
            result = subprocess.run(words, cwd=self.build.folder, text=True, capture_output=True, check=False)
            if result.returncode != 0:
                raise Problem(f"does not compile: {' '.join(result.stderr.split())[:400]}")
            if target in link:
                replaced[target] = new
            else:
                extra.append(new)
        if not replaced and not extra:
            raise Problem(f"nothing that {suite.binary} is linked from contains it")
        # In front of the library, whose own object of that name is then not taken.
        words = [replaced.get(word, word) for word in link]
        place = words.index("-o")
        words[place:place + 2] = [*extra, "-o", program]
        result = subprocess.run(words, cwd=self.build.folder, text=True, capture_output=True, check=False)
        if result.returncode != 0:
            raise Problem(f"does not link: {' '.join(result.stderr.split())[:400]}")
        return program

    def bite(self, bug, files, suite):
        """How the bug was caught; raises Problem if it was not."""
        seconds = self.baseline(suite)
        folder = os.path.join(self.work, bug)
        os.makedirs(folder, exist_ok=True)
        program = self.build_bug(bug, files, suite, folder)
        limit = max(SHORTEST_LIMIT_S, 10 * seconds)
        code, _, seconds, first = self.execute(program, suite, folder, limit)
        os.remove(program)
        if code == 0:
            raise Problem(f"{suite.binary} {suite.gtest_filter} passes with it")
        how = first or ("ran into the time limit" if code is None else f"ended with {code}")
        return f"{suite.binary}: {how} ({seconds:.1f} s)"


def main():
    parser = argparse.ArgumentParser(usage="see run_teeth.sh")
    parser.add_argument("--build", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--report", default="")
    options = parser.parse_args()

    sources = bugs_in_sources()
    suites = bugs_in_list(os.path.join(ROOT, "tests/teeth/bugs.txt"))
    names = sorted(set(sources) | set(suites))
    if options.only:
        unknown = set(options.only) - set(names)
        if unknown:
            sys.exit(f"unknown bugs: {', '.join(sorted(unknown))}")
        names = options.only

    build = Build(options.build)
    work = os.path.join(build.folder, "teeth")
    in_use = open(work + ".lock", "w", encoding="utf-8")  # held until we end: two runs would share the folder
    fcntl.flock(in_use, fcntl.LOCK_EX)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    teeth = Teeth(build, work)

    def judge(bug):
        try:
            if bug not in suites:
                raise Problem("tests/teeth/bugs.txt names no suite for it")
            if bug not in sources:
                raise Problem("no source has this bug")
            return bug, True, teeth.bite(bug, sources[bug], suites[bug])
        except Problem as problem:
            return bug, False, str(problem)

    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(judge, bug) for bug in names]):
            bug, caught, text = done.result()
            passed += caught
            failed += not caught
            print(f"   {'caught' if caught else 'FAILED'} {bug}: {text}", flush=True)
    print(f"   {passed} of {passed + failed} deliberate bugs caught", flush=True)
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            file.write(f"{passed} {failed}\n")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
