#!/usr/bin/env python3
"""check_results.py accepts what the benchmarks write and refuses what their samples do not say. Needs no GPU."""
import copy
import unittest

import check_results
from check_results import Malformed, check_file, quantile


def variant(rows, name, base, samples, base_samples, hooks):
    delta = [a - b for a, b in zip(samples, base_samples)]
    return {"rows": rows, "variant": name, "base": base, "hooks": hooks, "samples": samples,
            "us": quantile(samples, 0.5), "base_us": quantile(base_samples, 0.5), "delta_us": quantile(delta, 0.5),
            "delta_p25_us": quantile(delta, 0.25), "delta_p75_us": quantile(delta, 0.75),
            "per_hook_us": quantile(delta, 0.5) / hooks, "captures": 7, "rounds": 1}


def measure(name, samples, **more):
    return {"name": name, "unit": "us", **{s: quantile(samples, q) for s, q in check_results.STATISTICS.items()},
            **(more or {"samples": samples})}


def target(of, statistic, value, limit):
    return {"name": of, "of": of, "statistic": statistic, "value": value, "limit": limit, "at_least": False,
            "unit": "us", "pass": value <= limit}


def file_of(name, results, targets):
    environment = {key: "x" for key in check_results.ENVIRONMENT}
    return {"benchmark": name, "environment": {**environment, "quick": False}, "results": results, "targets": targets}


def decode_graph():
    rows_samples = {}
    results = []
    for rows in check_results.DECODE_ROWS:
        for i, name in enumerate(check_results.DECODE_VARIANTS):
            rows_samples[rows, name] = [700.0 + 10 * i + k + 0.1 * ((i * k) % 3) for k in range(7)]
        for name in check_results.DECODE_VARIANTS:
            base = "never_instrumented" if name == "removed" else "removed"
            results.append(variant(rows, name, base, rows_samples[rows, name], rows_samples[rows, base],
                                   4 if "4_of_36" in name else 36))
    targets = []
    for of in check_results.TARGETS["decode_graph"]:
        rows, name, base = of.split("/")
        pairs = zip(rows_samples[int(rows), name], rows_samples[int(rows), base])
        targets.append(target(of, "delta", quantile([a - b for a, b in pairs], 0.5), 100))
    data = file_of("decode_graph", results, targets)
    results[1]["records"] = {"planned": 5, "delivered": 3, "missing": 0, "shed": 2}
    return data


def switching():
    names = check_results.MEASURES["switching"] + check_results.TARGETS["switching"]
    results = [measure(name, [1.0, 2.0, 4.0, 8.0]) for name in names]
    results.append(measure("net", [1.0, -1.0, 0.5], derived="difference", left_samples=[3.0, 2.0, 1.0],
                           right_samples=[2.0, 3.0, 0.5]))
    targets = [target(of, "median", 3.0, 1) for of in check_results.TARGETS["switching"]]
    return file_of("switching", results, targets)


class Accepts(unittest.TestCase):
    def test_whole_files(self):
        self.assertTrue(all(passed for _, passed, _ in check_file(decode_graph())))
        self.assertFalse(any(passed for _, passed, _ in check_file(switching())))

    def test_the_stamp(self):
        check_file(switching(), "x")
        with self.assertRaises(Malformed):
            check_file(switching(), "y")

    def test_a_smoke_run_may_be_incomplete(self):
        data = switching()
        data["results"], data["targets"] = data["results"][:1], []
        data["environment"]["quick"] = True
        check_file(data)


def set_at(path, value):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value
    return change


def drop(path):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]
    return change


class Refuses(unittest.TestCase):
    def refused(self, make, changes):
        for number, change in enumerate(changes):
            data = copy.deepcopy(make())
            change(data)
            with self.subTest(number), self.assertRaises(Malformed):
                check_file(data)

    def test_decode_graph(self):
        self.refused(decode_graph, [
            set_at(("results", 0, "samples", 3), 900.0),
            set_at(("results", 0, "per_hook_us"), 0.1),
            set_at(("results", 0, "base_us"), 700.0),
            set_at(("results", 0, "samples", 0), None),
            set_at(("results", 0, "rounds"), 2),
            set_at(("results", 0, "base"), "nothing"),
            set_at(("results", 1, "records", "shed"), 1),
            set_at(("targets", 0, "pass"), False),
            set_at(("targets", 0, "value"), 0.0),
            set_at(("targets", 0, "of"), "2/inline_on/removed"),
            drop(("results", 2)),
            drop(("targets", 8)),
            drop(("environment", "gpu_uuid")),
            set_at(("environment", "stamp"), ""),
            set_at(("benchmark",), "other"),
        ])

    def test_switching(self):
        self.refused(switching, [
            set_at(("results", 0, "median"), 2.0),
            set_at(("results", 0, "p99"), 8.0),
            set_at(("results", -1, "left_samples", 0), 9.0),
            set_at(("results", -1, "right_samples"), [1.0]),
            set_at(("results", -1, "derived"), "sum"),
            set_at(("results", 0, "name"), "another"),
            set_at(("targets", 0, "statistic"), "mean"),
            set_at(("results",), []),
            set_at(("error",), "out of memory"),
        ])


if __name__ == "__main__":
    unittest.main()
