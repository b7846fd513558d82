#!/usr/bin/env python3
"""Checks result files of the GPU benchmarks and prints how their targets came out.

usage: check_results.py [--strict] [--stamp HASH] FILE_OR_FOLDER…

Every statistic in a file is recomputed from the raw samples in it. Exit status: 0; 1 if a file is malformed, lacks
something or says something that its samples do not; 2 with --strict if a target was missed.
"""
import argparse
import json
import math
import pathlib
import sys

BENCHMARKS = ("decode_graph", "switching", "drain", "producer_variants")
ENVIRONMENT = ("gpu", "gpu_uuid", "driver", "driver_cuda", "runtime_cuda", "compiler", "stamp", "command", "date")
DECODE_ROWS = (1, 8, 64, 256)
DECODE_VARIANTS = ("inline_on", "inline_on_header_drain", "soft_off", "node_off", "removed", "never_instrumented",
                   "toggled_4_of_36", "specialised_4_of_36", "specialised_4_of_36_header_drain")
DECODE_CAPTURES = 7
# Targets that a full run has to have, by the measure or the rows/variant/base that they are of.
TARGETS = {
    "decode_graph": [f"{rows}/inline_on/removed" for rows in DECODE_ROWS]
                    + [f"{rows}/removed/never_instrumented" for rows in DECODE_ROWS]
                    + ["1/specialised_4_of_36/removed", "1/specialised_4_of_36_header_drain/removed",
                       "1/inline_on_header_drain/inline_on"],
    "switching": ["set_swap_1_graphs", "set_swap_24_graphs", "host_step_0_hooks_net", "host_step_4_hooks_net",
                  "host_step_36_hooks_net"],
    "drain": [],
    "producer_variants": [],
}
# Measures that a full run has to have.
MEASURES = {
    "switching": ["apply_now_36_nodes", "catch_up_36_nodes_extra", "specialise_330_nodes", "specialise_2500_nodes",
                  "exec_memory_330_nodes", "exec_memory_2500_nodes", "launch_alone",
                  "launch_while_specialising_330_nodes", "launch_while_specialising_2500_nodes"],
    "drain": ["plain_copy_64_mib_chunks", "plain_copy_2_mib_chunks", "small_copy_model_alone",
              "small_copy_during_drain"] + [f"sustained_decode_{rows}_rows" for rows in DECODE_ROWS],
}


class Malformed(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Malformed(why)


def numbers(value, what):
    need(isinstance(value, list) and value, f"{what}: no samples")
    for x in value:
        need(isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x), f"{what}: not a number: {x}")
    return value


def quantile(samples, q):
    ordered = sorted(samples)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


STATISTICS = {"median": 0.5, "p25": 0.25, "p75": 0.75, "p99": 0.99, "min": 0.0, "max": 1.0}


def same(entry, key, value, what):
    need(key in entry, f"{what}: lacks {key}")
    need(isinstance(entry[key], (int, float)) and not isinstance(entry[key], bool), f"{what}: {key} is no number")
    need(math.isclose(entry[key], value, rel_tol=1e-6, abs_tol=1e-6),
         f"{what}: {key} is {entry[key]}, its samples say {value}")


def paired(left, right, what, operation):
    need(len(left) == len(right), f"{what}: {len(left)} samples against {len(right)}")
    return [operation(a, b) for a, b in zip(left, right)]


def measure_samples(entry, what):
    derived = entry.get("derived")
    if derived is None:
        return numbers(entry.get("samples"), what)
    left = numbers(entry.get("left_samples"), what)
    right = numbers(entry.get("right_samples"), what)
    need(derived in ("difference", "ratio"), f"{what}: derived is {derived}")
    need(derived != "ratio" or all(right), f"{what}: a ratio to zero")
    return paired(left, right, what, (lambda a, b: a - b) if derived == "difference" else (lambda a, b: a / b))


def check_variant(entry, table):
    what = f"{entry.get('rows')} rows, {entry.get('variant')}"
    samples = numbers(entry.get("samples"), what)
    base = table.get((entry["rows"], entry.get("base")))
    need(base is not None, f"{what}: its base {entry.get('base')} is not there")
    base_samples = numbers(base.get("samples"), what)
    delta = paired(samples, base_samples, what, lambda a, b: a - b)
    need(isinstance(entry.get("hooks"), int) and entry["hooks"] > 0, f"{what}: lacks hooks")
    same(entry, "us", quantile(samples, 0.5), what)
    same(entry, "base_us", quantile(base_samples, 0.5), what)
    same(entry, "delta_us", quantile(delta, 0.5), what)
    same(entry, "delta_p25_us", quantile(delta, 0.25), what)
    same(entry, "delta_p75_us", quantile(delta, 0.75), what)
    same(entry, "per_hook_us", quantile(delta, 0.5) / entry["hooks"], what)
    need(len(samples) == entry.get("captures", 0) * entry.get("rounds", 0),
         f"{what}: {len(samples)} samples are not captures × rounds")


def check_accounts(counts, what):
    for key in ("planned", "delivered", "missing", "shed"):
        need(isinstance(counts.get(key), int) and counts[key] >= 0, f"{what}: lacks {key}")
    need(counts["planned"] == counts["delivered"] + counts["missing"] + counts["shed"],
         f"{what}: planned is not delivered + missing + shed")
    need(counts["missing"] == 0, f"{what}: records are missing")
    if "sink_records" in counts:
        need(counts["sink_records"] == counts["delivered"], f"{what}: the sink counted other records")
        need(counts["sink_gaps"] == counts["shed"] + counts["missing"], f"{what}: the sink counted other gaps")


def target_value(target, table, measures):
    of, statistic = target.get("of"), target.get("statistic")
    if of in measures:
        need(statistic in STATISTICS, f"target {of}: unknown statistic {statistic}")
        return quantile(measures[of], STATISTICS[statistic])
    parts = str(of).split("/")
    need(len(parts) == 3 and parts[0].isdigit(), f"a target is of {of}, which is not there")
    row, base = (table.get((int(parts[0]), name)) for name in parts[1:])
    need(row and base, f"a target is of {of}, which is not there")
    need(statistic in ("delta", "per_hook"), f"target {of}: unknown statistic {statistic}")
    delta = quantile(paired(row["samples"], base["samples"], str(of), lambda a, b: a - b), 0.5)
    return delta if statistic == "delta" else delta / row["hooks"]


def check_complete(data, name, table, measures):
    """What a run that is not a smoke run has to hold."""
    of = [target["of"] for target in data["targets"]]
    for wanted in TARGETS[name]:
        need(wanted in of, f"no target is of {wanted}")
    for wanted in MEASURES.get(name, []):
        need(wanted in measures, f"lacks {wanted}")
    if name == "decode_graph":
        for rows in DECODE_ROWS:
            for variant in DECODE_VARIANTS:
                entry = table.get((rows, variant))
                need(entry, f"lacks {variant} at {rows} rows")
                need(entry["captures"] >= DECODE_CAPTURES, f"{variant} at {rows} rows: {entry['captures']} captures")


def check_file(data, stamp=None):
    """The file's targets as (name, pass, text); raises Malformed."""
    need(isinstance(data, dict), "not an object")
    name = data.get("benchmark")
    need(name in BENCHMARKS, f"unknown benchmark {name}")
    need("error" not in data, f"the run failed: {data.get('error')}")
    environment = data.get("environment")
    need(isinstance(environment, dict), "lacks environment")
    for key in ENVIRONMENT:
        need(environment.get(key) not in (None, ""), f"environment lacks {key}")
    need(isinstance(environment.get("quick"), bool), "environment lacks quick")
    need(stamp is None or environment["stamp"] == stamp, f"its stamp is {environment['stamp']}, not {stamp}")
    results, targets = data.get("results"), data.get("targets")
    need(isinstance(results, list) and results, "lacks results")
    need(isinstance(targets, list), "lacks targets")

    table, measures = {}, {}
    for entry in results:
        need(isinstance(entry, dict), "a result is not an object")
        if "variant" in entry:
            need(isinstance(entry.get("rows"), int), f"{entry['variant']}: lacks rows")
            key = (entry["rows"], entry["variant"])
            need(key not in table, f"{key} is there twice")
            table[key] = entry
        else:
            key = entry.get("name")
            need(isinstance(key, str) and isinstance(entry.get("unit"), str), "a measure lacks its name or unit")
            need(key not in measures, f"{key} is there twice")
            measures[key] = measure_samples(entry, key)
            for statistic, q in STATISTICS.items():
                same(entry, statistic, quantile(measures[key], q), key)
    for entry in table.values():
        check_variant(entry, table)
        if "records" in entry:
            check_accounts(entry["records"], f"{entry['rows']} rows, {entry['variant']}")
    for key, counts in data.get("records", {}).items():
        check_accounts(counts, key)

    outcome = []
    for target in targets:
        need(isinstance(target, dict) and isinstance(target.get("name"), str), "a target lacks its name")
        value = target_value(target, table, measures)
        same(target, "value", value, target["name"])
        need(isinstance(target.get("limit"), (int, float)), f"{target['name']}: lacks limit")
        passed = value >= target["limit"] if target.get("at_least") else value <= target["limit"]
        need(target.get("pass") == passed, f"{target['name']}: pass is {target.get('pass')}")
        sign = ">=" if target.get("at_least") else "<="
        outcome.append((target["name"], passed, f"{value:.3f} {sign} {target['limit']:g} {target.get('unit', '')}"))
    if not environment["quick"]:
        check_complete(data, name, table, measures)
    return outcome


def files_in(paths):
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            found = [path / f"{name}.json" for name in BENCHMARKS if (path / f"{name}.json").exists()]
            if not found:
                yield path, None
            yield from ((file, file) for file in found)
        else:
            yield path, path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strict", action="store_true", help="exit with 2 if a target was missed")
    parser.add_argument("--stamp", help="the stamp that the files must have")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    malformed = missed = False
    for path, file in files_in(arguments.paths):
        try:
            need(file is not None, "holds no result file")
            data = json.loads(file.read_text(encoding="utf-8"))
            outcome = check_file(data, arguments.stamp)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, Malformed) as error:
            print(f"{path}: malformed: {error}")
            malformed = True
            continue
        smoke = " (a smoke run: its numbers mean nothing)" if data["environment"]["quick"] else ""
        print(f"{path}: ok, {len(data['results'])} results, {data['environment']['gpu']}{smoke}")
        for name, passed, text in outcome:
            print(f"  {'PASS' if passed else 'MISS'}  {name}: {text}")
            missed = missed or not passed
    return 1 if malformed else 2 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
