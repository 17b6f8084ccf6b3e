#!/usr/bin/env python3
"""What run_cpu.sh and run_gpu.sh need beside the benchmarks: one process measured whole, and the tables.

report.py process OUT.json COMMAND...   runs COMMAND; writes its wall time and peak memory
report.py cpu FOLDER                    a Markdown table of the JSON files that run_cpu.sh left in FOLDER
report.py gpu FOLDER                    the same for run_gpu.sh
report.py memories FOLDER               the same for run_gpu.sh --memories, and memories.csv in FOLDER
report.py memories FILE.csv             the table of such a file
report.py forms FILE.csv [LIMIT]        of short sequences: time of chunks over time of all pairs, from what crosstalk_forms_benchmark
                                        prints; exits with 1 where the form `automatic` took more than LIMIT times the fastest's
report.py labels                        the labels of a study whose plan is read as JSON
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path


def process(out, command):
    start = time.perf_counter()
    status = subprocess.run(command, stdout=sys.stderr).returncode
    wall = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # kilobytes on Linux
    Path(out).write_text(json.dumps({"command": command, "status": status, "wall_s": wall, "peak_bytes": peak}))
    return status


def load(folder, pattern):
    """Contents of the JSON files that a pattern finds; a benchmark that failed has left none, or an empty one."""
    found = []
    for path in sorted(Path(folder).glob(pattern)):
        if path.stat().st_size > 0:
            found.append(json.loads(path.read_text()))
    return found


def by_model(files):
    """(model, variant) -> results of all files."""
    groups = {}
    for file in files:
        for result in file["results"]:
            groups.setdefault((result["model"], result["variant"]), []).append(result)
    order = ["linear", "DPFP-1 delta", "softmax"]
    place = {key: [key[0].startswith(name) for name in order].index(True) for key in groups}
    return {key: groups[key] for key in sorted(groups, key=place.get)}


def number(x):
    return "-" if x is None else f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def pool(results, field):
    """Median of all repeats of all rounds."""
    values = [v for r in results for v in r[field]]
    return statistics.median(values) if values else None


def spread(results, field="repeats"):
    values = [v for r in results for v in r[field]]
    return f"{number(min(values))} to {number(max(values))}" if values else "-"


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "|".join(["---"] + ["--:"] * (len(header) - 1)) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def bench_name(row):
    """The case of benchmarks/README.md that a row of `crosstalk bench` is."""
    load_ = row["config"]["task.associations"]
    if row["label"] == "dpfp1_delta":
        return f"DPFP-1 delta S={load_} (L={2 * load_})"
    return f"{row['label']} S={load_}"


def ours_of(folder, pattern):
    """Rows of `crosstalk bench` as results of a peer."""
    rows = [row for file in load(folder, pattern) for row in file["rows"] if not row["problem"]]
    return {"results": [{"model": bench_name(row), "variant": "crosstalk", "flop_per_step": row["flop_per_step"],
                         "repeats": [row["model_steps_per_second"]]} for row in rows]}


def cpu_table(files):
    groups = by_model(files)
    models = list(dict.fromkeys(model for model, _ in groups))
    rows = []
    for model in models:
        ours = groups.get((model, "crosstalk"), [])
        peers = {v: groups.get((model, f"pytorch {v}"), []) for v in ("original", "expert")}
        rate = pool(ours, "repeats")
        rates = {v: pool(results, "repeats") for v, results in peers.items()}
        best = rates["expert"]
        rows.append(
            [
                model,
                number(rate),
                spread(ours),
                number(rates["original"]),
                number(best),
                "-" if not (rate and best) else f"{rate / best:.1f}",
                f"{ours[0]['flop_per_step'] * 1e-6:.1f} M" if ours else "-",
            ]
        )
    header = ["model", "Crosstalk, steps/s", "lowest to highest", "PyTorch original", "PyTorch expert"]
    table(header + ["Crosstalk / expert", "FLOP a step"], rows)


def choices(files):
    seen = {}
    for (model, variant), results in by_model(files).items():
        if variant == "pytorch expert":
            r = results[0]
            parts = [f"{r['threads']} thread" + ("s" if r["threads"] > 1 else "")]
            parts.append("compiled" if r.get("compiled") else "eager")
            if r.get("chunk"):
                parts.append(f"chunks of {r['chunk']}")
            seen[model] = ", ".join(parts)
            for note in r.get("notes", []):
                seen[model] += f" ({note})"
    if seen:
        print("The expert's PyTorch ran: " + "; ".join(f"{m}: {t}" for m, t in seen.items()) + ".\n")


def cpu(folder):
    peers = load(folder, "one.*.json")
    ours, side_by_side = ours_of(folder, "ours.one.*.json"), ours_of(folder, "ours.many.*.json")
    if not ours["results"]:
        sys.exit(f"{folder}: no results of crosstalk bench")
    one, many = peers + [ours], load(folder, "many.*.json") + [side_by_side]
    print((Path(folder) / "version.txt").read_text().strip())
    machine = next(iter(load(folder, "machine.json")), {})
    print(f"on {machine.get('cpu', 'an unknown CPU')}.")
    if peers:
        print("Peers: " + ", ".join(f"{name} {v}" for name, v in peers[0]["versions"].items()) + ".")
    load_average = machine.get("load_average", 0)
    if load_average > 0.5:
        print(f"\n**Others used this machine (load average {load_average:.1f} at the start): these numbers do not count.**")
    print("\nOne model on all threads (the faster of one and all, for each program):\n")
    cpu_table(one)
    choices(one)
    if side_by_side["results"]:
        print("As many models as threads side by side, one thread each, steps/s of all together:\n")
        cpu_table(many)
    for run in load(folder, "quickstart.json"):
        if run["status"] != 0:
            print(f"`crosstalk run experiments/quickstart.toml` ended with status {run['status']}.")
            continue
        print(f"`crosstalk run experiments/quickstart.toml`: {run['wall_s']:.1f} s,", end=" ")
        print(f"peak host memory {run['peak_bytes'] / 2**20:.0f} MiB.")


def gpu(folder):
    """One row a model and number of replicas: ours, JAX with the products it chooses, JAX in full fp32."""
    jax = load(folder, "jax.*.json")
    rates, choices, ours = {}, {}, {}
    for file in jax:
        for r in file["results"]:
            key = (r["model"], r["replicas"])
            rates.setdefault(key + (file["precision"],), []).extend(r["repeats"])
            choices[key + (file["precision"],)] = r["choice"]
    for file in load(folder, "crosstalk.*.json"):
        for r in file["rows"]:
            if r["problem"]:
                print(f"Crosstalk, {r['label']} with {r['replicas']} replicas: {r['problem']}\n")
                continue
            ours.setdefault((bench_name(r), r["replicas"]), []).append(r)
    if not ours and not jax:
        sys.exit(f"{folder}: no results")
    if jax:
        versions = jax[0]["versions"]
        print(f"JAX {versions['jax']}, optax {versions['optax']}, on {jax[0]['device']}.\n")
    rows = []
    models = ["linear S=100", "linear S=600", "DPFP-1 delta S=100 (L=200)"]
    keys = sorted({*ours, *(k[:2] for k in rates)}, key=lambda key: (models.index(key[0]), key[1]))
    for key in keys:
        mine = statistics.median(r["model_steps_per_second"] for r in ours[key]) if key in ours else None
        floor = [r["share_of_floor"] for r in ours.get(key, []) if r["share_of_floor"]]
        theirs = [statistics.median(rates[key + (p,)]) if key + (p,) in rates else None for p in ("default", "highest")]
        best = max((x for x in theirs if x), default=None)
        rows.append([
            key[0], str(key[1]), number(mine), f"{100 * statistics.median(floor):.1f} %" if floor else "-",
            number(theirs[0]), number(theirs[1]), f"{mine / best:.1f}" if mine and best else "-",
        ])
    table(["model", "R", "Crosstalk, model-steps/s", "share of 50 TFLOP/s", "JAX, its own products", "JAX, fp32 products",
           "Crosstalk / best JAX"], rows)
    for file in jax:
        for failure in file["failed"]:
            print(f"{failure['model']} with {failure['replicas']} replicas failed: {failure['error'].splitlines()[0]}")


def rows_of(folder):
    """Rows of memories.csv from what run_gpu.sh --memories left in a folder."""
    rows = []
    for path in sorted(Path(folder).glob("memory.*.json")):
        _, name, width, _ = path.name.split(".")
        row = {"memory": name, "width": int(width), "steps": "", "ms": "", "problem": ""}
        text = path.read_text()
        if not text:
            row["problem"] = "not done in time"
        for found in json.loads(text or '{"rows": []}')["rows"]:
            if found["problem"] or not found["model_steps_per_second"]:
                row["problem"] = found["problem"] or "too few steps to tell"
            else:
                row["steps"], row["ms"] = found["steps"], f"{1000 / found['model_steps_per_second']:.4g}"
        rows.append(row)
    return rows


def memories(source):
    """One row a memory, fastest first, its milliseconds a training step at each width. Of a folder it writes memories.csv there."""
    if Path(source).is_dir():
        rows = rows_of(source)
        if not rows:
            sys.exit(f"{source}: no results")
        with open(Path(source) / "memories.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    else:
        with open(source, newline="") as file:
            rows = list(csv.DictReader(file))
    times, why = {}, {}
    for row in rows:
        times.setdefault(row["memory"], {})[int(row["width"])] = float(row["ms"]) if row["ms"] else None
        if row["problem"]:
            why.setdefault(row["problem"], []).append(f"`{row['memory']}` {row['width']}")
    widths = sorted({width for row in times.values() for width in row})
    last = float("inf")
    order = sorted(times, key=lambda name: ([times[name].get(width) or last for width in widths], name))
    table(["memory"] + [f"width {width}, ms" for width in widths],
          [[f"`{name}`"] + [number(times[name].get(width)) for width in widths] for name in order])
    for problem, where in sorted(why.items()):
        print(f"{problem[0].upper()}{problem[1:]} (memory and width): {', '.join(where)}.\n")


def forms(source, limit=None):
    """Ratios by memory, format and size of a head, the largest of all numbers of tokens; `automatic` is held against the fastest form."""
    cases, slow = {}, False
    with open(source, newline="") as file:
        for row in csv.DictReader(file):
            at = row["memory"], row["format"], row["B"], int(row["T"]), row["D"]
            cases.setdefault(at, {})[row["form"]] = float(row["both_us"])
    ratios = {}
    for (memory, products, B, T, size), us in cases.items():
        if {"chunk", "parallel"} <= us.keys():
            of = ratios.setdefault((memory, products, size), {})
            of[T] = max(of.get(T, 0), us["chunk"] / us["parallel"])
        if limit and us.get("automatic", 0) > limit * min(us.values()):
            slow = True
            print(f"{memory}, {products}, B = {B}, T = {T}, K = V = {size}: the automatic form takes {us['automatic']:.0f} us, "
                  f"the fastest {min(us.values()):.0f}")
    lengths = sorted({T for of in ratios.values() for T in of})
    table(["memory", "products", "K = V"] + [f"T = {T}" for T in lengths],
          [[f"`{memory}`", products, size] + [f"{of[T]:.2f}" if T in of else "-" for T in lengths]
           for (memory, products, size), of in ratios.items()])
    return 1 if slow else 0


def labels():
    """Labels of a plan's runs, each once, in its order: one label a memory, the first that stands for its configuration."""
    runs = json.load(sys.stdin)["runs"]
    print("\n".join(dict.fromkeys(run["label"] for run in runs)))


def main(arguments):
    if len(arguments) >= 3 and arguments[0] == "process":
        return process(arguments[1], arguments[2:])
    if len(arguments) == 2 and arguments[0] in ("cpu", "gpu", "memories"):
        return {"cpu": cpu, "gpu": gpu, "memories": memories}[arguments[0]](arguments[1])
    if len(arguments) in (2, 3) and arguments[0] == "forms":
        return forms(arguments[1], *map(float, arguments[2:]))
    if arguments == ["labels"]:
        return labels()
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
