#!/usr/bin/env python3
"""Counts what a ctest run did: every GoogleTest case, and every other test as one.

usage: count_results.py FOLDER            the counts
       count_results.py FOLDER PREFIX     what the tests whose names begin so printed, less GoogleTest's own lines
FOLDER holds junit.xml (ctest --output-junit), tests.json (ctest --show-only=json-v1) and the *.xml that the
GoogleTest binaries wrote (GTEST_OUTPUT=xml:FOLDER/). Prints "passed failed skipped", then a line for each failure.
A binary that failed without a failed case (a crash, a time limit, a leak at its end) counts as one failure.
"""
import collections
import json
import os
import re
import sys
import xml.etree.ElementTree as ET


def gtest_cases(path):
    """(name, outcome, message) of each case in one GoogleTest report."""
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failure = case.find("failure")
        if failure is not None:
            yield name, "failed", failure.get("message") or ""
        elif case.get("status") == "notrun":
            continue  # filtered out or disabled: it was never meant to run
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            yield name, "skipped", ""
        else:
            yield name, "passed", ""


def programs(folder):
    """ctest name → the base name of the program that it runs."""
    with open(os.path.join(folder, "tests.json"), encoding="utf-8") as file:
        tests = json.load(file)["tests"]
    return {t["name"]: os.path.basename(t["command"][0]) if t.get("command") else "" for t in tests}


def main(folder):
    program_of = programs(folder)
    ctest = collections.defaultdict(list)  # program → [(ctest name, outcome, detail)]
    for case in ET.parse(os.path.join(folder, "junit.xml")).getroot().iter("testcase"):
        failure = case.find("failure")
        status = case.get("status")
        outcome = {"run": "passed", "disabled": "skipped"}.get(status, "failed")
        if status == "notrun" and case.find("skipped") is not None:
            # A skip by return code is one; a program that is not there is not.
            outcome = "skipped" if "SKIP" in (case.find("skipped").get("message") or "").upper() else "failed"
        said = [line for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
        detail = (failure.get("message") if failure is not None else status) or "failed"
        ctest[program_of.get(case.get("name"), "")].append(
            (case.get("name"), outcome, f"{detail}: {said[-1]}" if said else detail))

    count = collections.Counter()
    failures = []
    for program, entries in sorted(ctest.items()):
        report = re.compile(re.escape(program) + r"(_\d+)?\.xml$")
        paths = [p for p in sorted(os.listdir(folder)) if program and report.match(p)]
        reports_with_failures = 0
        for path in paths:
            outcomes = list(gtest_cases(os.path.join(folder, path)))
            count.update(outcome for _, outcome, _ in outcomes)
            failed = [f"{program}: {name}: {text.splitlines()[0] if text else ''}"
                      for name, outcome, text in outcomes if outcome == "failed"]
            failures += failed
            reports_with_failures += bool(failed)
        failed_entries = [e for e in entries if e[1] == "failed"]
        # A failed program whose report has no failed case, or that wrote no report.
        for name, _, detail in failed_entries[reports_with_failures:]:
            count["failed"] += 1
            failures.append(f"{name}: {detail}")
        if not paths:
            count.update(outcome for _, outcome, _ in entries if outcome != "failed")
    print(count["passed"], count["failed"], count["skipped"])
    for line in failures:
        print(line)


def show_output(folder, prefix):
    for case in ET.parse(os.path.join(folder, "junit.xml")).getroot().iter("testcase"):
        if case.get("name").startswith(prefix):
            for line in (case.findtext("system-out") or "").splitlines():
                if line.strip() and not re.match(r"\[[ =\-]|Running main|Note: ", line):
                    print(f"{case.get('name')}: {line}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        show_output(*sys.argv[1:3])
    else:
        main(sys.argv[1])
