#!/usr/bin/env python3
"""Tables and sentences of results/published/README.md that no command of the program prints, from the exports beside that page.

    published_numbers.py NAME    prints one of them; run in results/published

README names it in a mark (`made` around a table, `said` within a sentence), and scripts/documents.py compares what stands there.
A statement without a number of its own ("exp stays at chance") is required here: where it no longer holds, nothing is printed.
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import csv
import math
import sys
from statistics import mean, median


def rows(name):
    with open(name, newline="") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def groups(name, keys, column, scale=1):
    """Sorted numbers of a column by the values of `keys`."""
    of = collections.defaultdict(list)
    for row in rows(name):
        if row[column]:
            of[tuple(row[key] for key in keys.split())].append(scale * float(row[column]))
    return {key: sorted(values) for key, values in of.items()}


def require(holds, statement):
    if not holds:
        sys.exit(f"published_numbers: no longer true: {statement}")


def only(values, count):
    require(len(values) == count, f"{count} seeds, not {len(values)}")
    return values


def share(x):
    """.433, 1, 0, -.002"""
    text = f"{x:.3f}"
    return {"0.000": "0", "-0.000": "0", "1.000": "1"}.get(text, text.replace("0.", ".", 1))


def digits(x):
    """.958, 1.000"""
    return f"{x:.3f}".removeprefix("0")


def span(values, text):
    """.910 to .938, or one number."""
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def whole(x):
    return f"{int(x):,}"


def listing(words):
    return " and ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])


def table(head, align, lines):
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(align.split())}|"] + [f"| {' | '.join(line)} |" for line in lines])


# Schlag 2021

MODELS = {"dpfp1_delta": "DPFP-1 delta", "dpfp1_fwm": "DPFP-1 FWM", "dpfp1_sum": "DPFP-1 sum", "dpfp2_delta": "DPFP-2 delta",
          "favor128_delta": "FAVOR+ 128 delta", "favor64_delta": "FAVOR+ 64 delta", "linear_delta": "linear delta",
          "tanh_fwm": "tanh FWM", "dpfp1": "DPFP-1", "dpfp2": "DPFP-2", "dpfp3": "DPFP-3", "favor128": "FAVOR+ 128",
          "favor512": "FAVOR+ 512", "favor64": "FAVOR+ 64", "linear": "linear", "softmax": "softmax"}


def fwm_of_20_keys():
    of = only(groups("schlag2021_updates.csv", "label task.associations", "eval_loss")["dpfp1_fwm", "20"], 5)
    require(of[0] >= 0.025, "no loss is below 0.5 / S")
    return f"all five of ours at {of[0]:.3f} to {of[-1]:.3f}"


def curves_of(name, load):
    """(memory, seed) -> losses by step."""
    runs = {row["id"]: (row["label"], row["seed"]) for row in rows(f"{name}.csv") if row["task.associations"] == load}
    losses = collections.defaultdict(dict)
    for row in rows(f"{name}.curves.csv"):
        if row["id"] in runs and row["metric"] == "eval_loss":
            losses[runs[row["id"]]][float(row["step"])] = float(row["value"])
    return losses


def released_curves():
    lines = []
    for figure, load in (("3", "20"), ("4", "600")):
        ours, released = curves_of("schlag2021_curves", load), curves_of("literature/curves/schlag2021", load)
        for label in MODELS:
            for curve in (curve for (name, _), curve in released.items() if name == label):
                seeds = only([losses for (name, _), losses in ours.items() if name == label], 5)
                at = {step: [losses[max(s for s in losses if s <= step)] for losses in seeds] for step in curve}
                above, below = (sum(1 for step in curve if curve[step] > max(at[step])),
                                sum(1 for step in curve if curve[step] < min(at[step])))
                lines.append([figure, MODELS[label], whole(max(curve)), span([max(losses) for losses in seeds], whole),
                              str(len(curve)), str(above), str(len(curve) - above - below), str(below)])
    return table(["figure", "memory", "its steps", "our steps", "points", "above", "among", "below"],
                 "--- --- --: --: --: --: --: --:", lines)


# Capacity, random keys, every memory, laws

def equal_d_dot():
    losses = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows("ddot_sweep.csv"):
        losses[row["label"], row["d_dot"]][int(row["task.associations"])].append(
            math.inf if row["eval_loss"] in ("", "nan") else float(row["eval_loss"]))
    holds, solves, fails = {}, {}, {}
    for of, loads in losses.items():
        solved = [load for load in loads if median(only(loads[load], 5)) <= 0.002]
        solves[of], fails[of] = max(solved, default=0), min(set(loads) - set(solved), default=math.inf)
        holds[of] = max((load for load in solved if load < fails[of]), default=0)
    dpfp1, dpfp2, linear = ({d: holds.get((label, d)) for d in ("16", "32", "64", "128")} for label in ("dpfp1", "dpfp2", "linear"))
    return (f"at 32 they hold {dpfp1['32']} (DPFP-1), {dpfp2['32']} (DPFP-2), {linear['32']} (linear), at 64 {dpfp1['64']}, "
            f"{dpfp2['64']}, {linear['64']}, at 128 {dpfp1['128']}, {dpfp2['128']}; at 16 they do not: {dpfp1['16']} (DPFP-1), "
            f"{linear['16']} (linear). DPFP-3 at 48 fails first at {fails['dpfp3', '48']} and solves {solves['dpfp3', '48']}")


def delta_rule_error(n, d):
    """Squared error in expectation at beta = 1 (results/numbers/probe_theory.h), mean over the pairs."""
    energy, errors = [0.0], []
    for _ in range(n):
        energy.append(energy[-1] * (1 - 1 / d) + 1)
    for i in range(1, n + 1):
        read = 1.0
        for t in range(i + 1, n + 1):
            read = read * (1 - 2 / d + 2 / (d * (d + 2))) + 1 / d + energy[t - 1] / (d * (d + 2))
        errors.append(1 - 2 * (1 - 1 / d) ** (n - i) + read)
    return mean(errors)


def random_keys():
    d, loads = 64, (16, 48, 64, 128, 256, 384)
    error, right = (groups("probe.csv", "label task.associations model.d_key", what) for what in ("squared_error", "test_accuracy"))
    theory = {"sum": lambda n: (n - 1) / d, "delta": lambda n: delta_rule_error(n, d), "mesa": lambda n: 1 - min(1, d / n)}
    return table(["n / d"] + [f"{rule}: error, theory, recall" for rule in ("sum rule", "delta rule", "least squares")],
                 "--- --- --- ---",
                 [[f"{n / d:g}"] + [f"{median(only(error[label, str(n), str(d)], 3)):.3f}, {of(n):.3f}, "
                                    f"{median(right[label, str(n), str(d)]):.3f}" for label, of in theory.items()] for n in loads])


def diverged():
    status = [row["status"] for row in rows("all_memories.csv")]
    return f"{len(status) - status.count('done')} of the {len(status):,} runs diverged"


def fwm_of_all():
    of = collections.defaultdict(list)
    for row in rows("all_memories.csv"):
        if (row["label"], row["task.name"], row["status"]) == ("fwm", "recall", "done"):
            of[int(row["task.associations"])].append(float(row["test_loss"]))
    loads = (4, 8, 12, 16)
    for load in loads:
        require(0 <= min(of[load]) - 0.5 / load <= 1e-5, f"fwm's best loss of {load} keys is 0.5 / S")
    return f"{listing([f'{min(of[load]):.4f}' for load in loads])} at S = {listing([str(load) for load in loads])}"


LAWS = {"tanh_delta": "tanh of the error, beta in (0, 1)", "tanh_delta2": "tanh of the error, beta in (0, 2)",
        "oja_decay": "Oja, a decay a channel", "momentum": "delta rule with momentum", "delta": "delta rule, beta in (0, 1)",
        "delta2": "delta rule, beta in (0, 2)", "sum": "linear attention"}


def laws():
    loss, right = (groups("rules.csv", "label task.name task.associations", what) for what in ("eval_loss", "eval_accuracy"))
    require({label for label, _, _ in loss} == set(LAWS), "these are the laws of rules.csv")
    middle = lambda *of: median(only(loss[of], 3))
    lost = 0.5 * (1 - math.tanh(1)) ** 2
    for label in LAWS:
        require(loss[label, "recall", "24"][0] > 0.1, f"{label} does not solve 24 associations")
        for load in ("8", "16"):
            require((middle(label, "recall", load) <= 0.002) == (label != "tanh_delta"), f"all but tanh_delta hold {load}: {label}")
            require((middle(label, "reassign", load) <= 0.002) == (label not in ("tanh_delta", "oja_decay", "sum")),
                    f"{label} replaces {load} keys or does not")
    for load in ("8", "16"):
        require(all(abs(x - lost) <= 2e-4 for x in loss["tanh_delta", "recall", load]), "the loss of tanh_delta stays there")
        require(middle("delta", "reassign", load) < middle("oja_decay", "reassign", load) < middle("sum", "reassign", load),
                "Oja's rule lies between linear attention and the delta rule on reassign")
    for keys in ("4", "8", "12"):
        require(right["tanh_delta2", "swap", keys][0] > 0.9995, "with c = 2 every answer is right")
        require((right["momentum", "swap", keys][0] > right["delta", "swap", keys][-1] + 0.1) == (keys != "4"),
                "momentum answers more with 8 and 12 keys, with 4 no more")
    cells = lambda of, label, task, loads, places: ", ".join(f"{median(only(of[label, task, n], 3)):.{places}f}" for n in loads.split())
    return table(["memory", "recall, loss: S = 8, 16, 24", "reassign, loss: S = 8, 16, 24", "swap, accuracy: n = 4, 8, 12", "swap, loss"],
                 "--- --- --- --- ---",
                 [[title, cells(loss, label, "recall", "8 16 24", 4), cells(loss, label, "reassign", "8 16 24", 4),
                   cells(right, label, "swap", "4 8 12", 3), cells(loss, label, "swap", "4 8 12", 4)] for label, title in LAWS.items()])


def stored_by_tanh():
    return f"0.5 (1 - tanh 1)^2 = {0.5 * (1 - math.tanh(1)) ** 2:.4f} on `recall`; the loss stays there"


# Language models

def swaps():
    names = {"deltanet2": "DeltaNet, beta in (0, 2)", "deltaformer_linear": "DeltaFormer, write kernel linear",
             "deltaformer_round": "DeltaFormer, write kernel rounded to two decimals",
             "deltaformer_softmax_read": "DeltaFormer, write kernel rounded, read by softmax",
             "deltaformer_exp": "DeltaFormer, write kernel exp(8 (cos - 1))",
             "deltaformer_exp_linear": "DeltaFormer, write kernel exp(8 (cos - 1))", "deltanet1": "DeltaNet, beta in (0, 1)",
             "attention": "attention"}
    name = "deltaformer2025_tracking.csv"
    accuracy, exact, steps = (groups(name, "label", what) for what in ("test_accuracy", "test_exact", "steps"))
    require({label for label, in accuracy} == set(names), f"these are the memories of {name}")
    reads = {row["label"]: "softmax" if row["label"] == "attention" or (row["memory.kappa2"], row["memory.row_norm2"]) == ("exp", "sum")
             else "linear" for row in rows(name) if row["label"] in ("attention", "deltanet1", "deltanet2") or
             row["memory.kappa2"] == "linear" or (row["memory.kappa2"], row["memory.row_norm2"]) == ("exp", "sum")}
    of = lambda values: "0" if values[-1] == 0 else f"{share(values[1])} ({', '.join(map(share, values))})"
    return table(["memory", "retrieval", "accuracy, median", "sequences with all 256 answers right", "steps"], "--- --- --: --: --:",
                 [[title, reads[label], share(only(accuracy[label,], 3)[1]), of(exact[label,]), span(steps[label,], whole)]
                  for label, title in names.items()])


def signs():
    exact, failed = collections.defaultdict(list), collections.Counter()
    for row in rows("tracking_sign.csv"):
        of = row["label"].removeprefix("deltaformer_"), int(row["task.associations"]), row["model.mlp"]
        if row["status"] == "diverged":
            failed[of] += 1
        else:
            exact[of].append(float(row["test_exact"]))
    require(all(max(exact["exp", n, mlp]) == 0 for n, mlp in ((3, "none"), (3, "gelu"), (4, "none"))), "exp is exact nowhere")
    bare, with_mlp = exact["linear", 3, "none"], exact["linear", 3, "gelu"]
    require(bare == [0], "one run of 3 elements without an MLP stays at chance")
    only(exact["linear", 4, "none"], 3)
    return (f"with 4 elements and no MLP the linear kernel is exact in {span(exact['linear', 4, 'none'], share)} of the sequences and "
            f"exp in none. With 3, exp stays at chance; of the linear kernel, whose keys have any length, {failed['linear', 3, 'none']} "
            f"of {failed['linear', 3, 'none'] + len(bare)} runs without an MLP diverge and {len(bare)} stays at chance, and with one "
            f"({len(with_mlp)} runs) it is exact in {span(with_mlp, share)} of the sequences.")


def words():
    names = {"deltanet1": "DeltaNet, beta in (0, 1)", "deltanet2": "DeltaNet, beta in (0, 2)",
             "kda_unsigned": "KDA, gate in (0, 1), beta in (0, 2)", "kda_signed": "KDA, gate in (-1, 1), beta in (0, 2)",
             "deltaproduct2": "DeltaProduct, two steps, beta in (0, 2)"}
    require(all(float(row["eval_loss"]) <= float(row["chance_loss"]) for row in rows("words.csv")),
            "all runs trained on 32 tokens at the end (a loss above that of guessing has never seen them)")
    of = collections.defaultdict(dict)
    for row in rows("words_figure.csv"):
        of[row["label"], row["task.group"]][int(row["length_factor"])] = float(row["hi"]), float(row["median"])
    lines = []
    for group in ("Z2", "S3", "S4", "A5"):
        for label, title in names.items():
            lengths = of.pop((label, group), None)
            if lengths:
                best, middle = (" / ".join(share(only(lengths, 3)[factor][i]) for factor in sorted(lengths)) for i in (0, 1))
                lines.append([title, f"{group[0]}_{group[1]}" + " (parity)" * (group == "Z2"), best, middle])
    require(not [label for label, _ in of if label in names], "these are the groups of words_figure.csv")
    return table(["memory", "group", "best of 3 seeds", "median"], "--- --- --: --:", lines)


def induction():
    accuracy, exact, steps = (collections.defaultdict(list) for _ in range(3))
    for row in rows("induction.csv"):
        of = row["label"], row["model.layers"], row["model.short_conv"]
        accuracy[of].append(float(row["test_accuracy"]))
        if float(row["test_exact"]) == 1:
            steps[of].append(float(row["steps"]))
    names = {"attention": "attention, no positions", "rope": "attention, rotary positions", "deltanet": "DeltaNet"}
    require({label for label, _, _ in accuracy} == set(names), "these are the memories of induction.csv")

    def cell(of):
        if steps[of]:
            return f"{len(steps[of])} ({span(steps[of], whole)})"
        best = sorted(only(accuracy[of], 3), reverse=True)
        shown = best if best[0] - best[2] >= 0.1 else best[1:2]
        return f"0 ({', '.join(f'{x:.2f}'[1:] for x in shown)})"

    return table(["", "one layer", "one layer, convolution of keys", "two layers", "two layers, convolution of keys"],
                 "--- --: --: --: --:",
                 [[title] + [cell((label, layers, conv)) for layers in "12" for conv in ("none", "k")] for label, title in names.items()]
                 ).replace("|  |", "| |", 1)


def convolution():
    of = groups("deltaformer2025_table1_convolution.csv", "label", "test_accuracy", 100)
    text = lambda label, published: ("100" if only(of[label,], 5)[0] == 100 else
                                     f"{of[label,][2]:.1f} ({of[label,][0]:.1f} to {of[label,][4]:.1f}; published {published})")
    return f"softmax {text('softmax', 99.9)}, ReLU {text('relu', 99.9)}, round {text('round', 91.6)}, linear {text('linear', 85.6)}."


def foreign_arrays():
    lines, accuracies = [], []
    for name, title in (("mad_arrays.csv", "built in"), ("mad_arrays_files.csv", "mad-lab's arrays")):
        accuracy, loss = (only(groups(name, "task.name", what).popitem()[1], 5) for what in ("test_accuracy", "test_loss"))
        lines.append([title] + [f"{values[i]:.3f}" for values in (accuracy, loss) for i in (0, 2, 4)])
        accuracies.append(accuracy)
    require(accuracies[0][0] <= accuracies[1][2] <= accuracies[0][-1], "the ranges of the seeds overlap")
    return table(["source", "accuracy: lowest", "median", "highest", "loss: lowest", "median", "highest"],
                 "--- --: --: --: --: --: --:", lines)


def wrong_in_contexts():
    of = {(row["label"], row["metric"]): float(row["mean"]) for row in rows("cdar_figure.csv") if row["model.layers"] == "1"}
    require(all(of[label, "error_never"] > of[label, "error_other_context"] for label in ("gated_delta", "mamba2")),
            "Gated DeltaNet and Mamba-2 mostly answer with values that the sequence never showed")
    attention, deltanet = (f"{of[label, 'error_other_context']:.2f}"[1:] for label in ("attention", "deltanet"))
    return f"(means: attention {attention}, DeltaNet {deltanet} of all answers, `zone`)"


def chosen(tried):
    """What is shown, by seed, of the values whose median over the seeds that all values have is least."""
    shared = set.intersection(*(set(seeds) for seeds in tried.values()))
    best = min(tried, key=lambda values: (median(tried[values][seed][0] for seed in shared), [float(value) for value in values]))
    return sorted(shown for _, shown in tried[best].values())


def tried_of(name, point, values, shown, by_accuracy):
    """Point -> values of `values` -> seed -> (what is least at the best, what is shown)."""
    of = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows(name):
        at = tuple(row[key] for key in values.split())
        by = -float(row["eval_accuracy"]) if by_accuracy else float(row["eval_loss"] or "inf")
        of[point(row)][at][row["seed"]] = by, float(row[shown] or 0)
    return of


def one_layer_gap():
    of = {what: {key: median(chosen(tried)) for key, tried in
                 tried_of("cdar.csv", lambda row: (row["label"], row["task.query_by"], row["model.layers"]), "train.learning_rate",
                          what, by_accuracy=False).items()} for what in ("context_gap", "test_accuracy")}
    for what, numbers in of.items():
        for (label, by, layers), number in numbers.items():
            require(layers == "1" or (number > 0.94) == (label in ("attention", "deltanet")),
                    f"with two layers DeltaNet and attention solve the task, no other does: {what} of {label}, {by}: {number}")
    most = max(gap for (_, _, layers), gap in of["context_gap"].items() if layers == "1")
    return f"the medians of the gap are at most {share(math.ceil(1000 * most) / 1000)}."


# MAD

MAD = {"attention": "attention", "deltanet": "DeltaNet", "gated_delta": "Gated DeltaNet", "mamba2": "Mamba-2", "gla": "GLA",
       "mesa": "MesaNet"}
MAD_TASKS = ("compression", "fuzzy recall", "in-context recall", "memorisation", "noisy recall", "copying")


def mad_task(row):
    if row["task.name"] == "mad_recall":
        return MAD_TASKS[1] if float(row["task.motif"]) > 1 else MAD_TASKS[4] if float(row["task.noise"]) > 0 else MAD_TASKS[2]
    return {"compression": MAD_TASKS[0], "memorise": MAD_TASKS[3], "selective_copy": MAD_TASKS[5]}[row["task.name"]]


def mad(by_accuracy=True):
    of = tried_of("mad.csv", lambda row: (row["label"], mad_task(row)), "train.learning_rate train.weight_decay", "test_accuracy",
                  by_accuracy)
    require({label for label, _ in of} == set(MAD), "these are the memories of mad.csv")
    return of


def mad_apart():
    of = {key: chosen(tried) for key, tried in mad().items()}
    whole_rows = [label for label in MAD if all((label, task) in of for task in MAD_TASKS)]
    apart = [f"{MAD[label]} {digits(median(of[label, 'fuzzy recall']))} and {digits(median(of[label, 'compression']))}"
             for label in whole_rows]
    least = min(median(of[label, MAD_TASKS[i]]) for label in whole_rows for i in (2, 3, 4))
    copies = [f"{MAD[label]} {digits(of[label, 'copying'][0])} to {digits(of[label, 'copying'][-1])}" for label in whole_rows
              if len(of[label, "copying"]) > 1]
    return (f"Fuzzy recall and compression tell memories apart: {', '.join(apart)}. In-context and noisy recall and memorisation do not: "
            f"the medians of all are {digits(math.floor(least * 1000) / 1000)} or more. Copying tells seeds apart: {', '.join(copies)}.")


def mad_lacks():
    lacking, of = [], mad()
    for label, title in MAD.items():
        seeds = {task: len(chosen(of[label, task])) if (label, task) in of else 0 for task in MAD_TASKS}
        words = [f"{number} of {listing([task for task in MAD_TASKS if seeds[task] == count])}" for count, number in
                 enumerate(("none seeds", "one seed", "two seeds")) if count in seeds.values()]
        untried = [task for task in MAD_TASKS if 0 < len(of.get((label, task), ())) < 6]
        words += [f"not all rates and decays of {listing(untried)}"] if untried else []
        lacking += [f"{title} ({'; '.join(words)})"] if words else []
    return f"All memories have three seeds of all six tasks{', but for ' + ' and '.join(lacking) if lacking else ''}."


def mad_by_loss():
    seed1 = [row for row in rows("mad.csv") if (row["label"], row["seed"]) == ("attention", "1") and mad_task(row) == MAD_TASKS[2]]
    solved = [row for row in seed1 if row["verdict"] == "solved"]
    soonest = min(int(row["steps"]) for row in solved if float(row["train.learning_rate"]) == 1e-4)
    least = min(seed1, key=lambda row: float(row["eval_loss"]))
    require(float(least["train.learning_rate"]) == 1e-3, "the least loss is that of 1e-3")
    of = mad(by_accuracy=False)
    recall, noisy = only(chosen(of["attention", MAD_TASKS[2]]), 3), chosen(of["attention", MAD_TASKS[4]])
    return (f"By the least loss instead, attention's medians are {digits(recall[1])} on in-context recall (seeds "
            f"{listing([digits(x) for x in recall])}) and {digits(median(noisy))} on noisy recall. A run ends when it answers .999 of the "
            f"validation set, and of the runs that do, the least loss has the one that came there last: in-context recall is solved at "
            f"{len(solved)} of {len(seed1)} rates and decays by seed 1, at 1e-4 in {soonest} steps, and the least loss is that of 1e-3 "
            f"({whole(least['steps'])} steps), where training is not stable.")


def mad_mistakes():
    of = collections.defaultdict(dict)
    for row in rows("mad_figure.csv"):
        of[row["label"]][row["metric"]] = float(row["mean"])
    shares = [f"{MAD[label]} {100 * kinds['error_other_value'] / sum(kinds.values()):.0f} %" for label, kinds in of.items()
              if label != "attention"]
    return f"wrong answers are mostly tokens of another key's value: of them {', '.join(shares)}."


def mad_class_accuracy():
    """What is recorded by MAD's own measure; this sentence goes once all runs have it."""
    every = list(rows("mad.csv"))
    scored = [row for row in every if row["test_class_accuracy"]]
    fuzzy = sorted((float(row["test_accuracy"]), float(row["test_class_accuracy"]), row["seed"]) for row in scored
                   if row["label"] == "mesa" and mad_task(row) == MAD_TASKS[1])
    require({row["label"] for row in scored} == {"mesa"}, "of the memories of the three tables no run has test_class_accuracy")
    return (f"MesaNet's seeds {listing([row[2] for row in fuzzy])} have {listing([digits(row[0]) for row in fuzzy])} of fuzzy recall by "
            f"the one and {listing([digits(row[1]) for row in fuzzy])} by the other; {len(scored)} of the {len(every)} runs were trained "
            f"when records had it, and those of no memory of the three tables")


def mad_of_others():
    of = collections.defaultdict(list)
    for name in ("deltanet2024", "linattnbench", "efla2025"):
        for row in rows(f"literature/mad_{name}.csv"):
            of[row["label"], mad_task(row)].append(float(row["test_class_accuracy"]))
    return f"which differ from each other by up to {100 * max(max(x) - min(x) for x in of.values()):.0f} points on a task"


# Formal languages

FORMS = {"parity": "on parity", "flat": "on flat arithmetic", "brackets": "with brackets"}
SIGNED = ("slstm", "mamba_either", "deltanet2")


def formal(by_accuracy=True):
    of = tried_of("formal_languages.csv", lambda row: (row["task.name"], row["task.form"], row["label"]), "train.learning_rate",
                  "test_scaled_accuracy", by_accuracy)
    return {key[1:]: tried for key, tried in of.items() if key[0] == "arithmetic"}


def formal_scores():
    of = {key: median(chosen(tried)) for key, tried in formal().items()}
    scores = {(form, sign): [x for (f, label), x in of.items() if f == form and (label in SIGNED) == sign]
              for form in FORMS for sign in (True, False)}
    require(min(scores["parity", True]) > max(scores["parity", False]) + 0.3, "they are apart on parity")
    tried = formal()["parity", "slstm"]
    require(sorted(x > 0.99 for seeds in tried.values() for _, x in seeds.values()) == [False, True], "sLSTM learns parity at one rate of two")
    having, lacking = (", ".join(f"{span(scores[form, sign], digits)} {where}" for form, where in FORMS.items() if scores[form, sign])
                       for sign in (True, False))
    return (f"Where a state can change its sign (sLSTM, Mamba with eigenvalues of either sign, DeltaNet with beta in (0, 2)) scores are "
            f"{having}; where it cannot (attention, mLSTM, Mamba, DeltaNet with beta in (0, 1)) {lacking}.")


def formal_by_loss():
    loss, accuracy = (digits(median(chosen(formal(by)["parity", "deltanet2"]))) for by in (False, True))
    return f"by the least loss DeltaNet with beta in (0, 2) would have {loss} in place of {accuracy} on parity;"


def parity_beyond():
    of = collections.defaultdict(dict)
    for row in rows("formal_languages_figure.csv"):
        if row["task.form"] == "parity" and ":" not in row["label"] and row["label"] not in SIGNED:
            of[row["label"]][float(row["position"])] = float(row["median"])
    first = min(min(at) for at in of.values())
    near = [at[first] for at in of.values() if first in at]
    far = [mean(x for position, x in at.items() if position > 100) for at in of.values()]
    return (f"Of parity the latter answer {span(near, digits)} at {first:.0f} tokens and {span(far, digits)} beyond 100, where half is "
            "chance.")


def published_layers():
    """How many memories answer 16 pairs in the layer of their authors, and those that do not."""
    tried = collections.defaultdict(list)
    for row in rows("all_memories_published.csv"):
        if row["task.name"] == "mqar" and row["task.pairs"] == "16":
            tried[row["label"]].append((-float(row["eval_accuracy"] or 0), float(row["eval_loss"] or "inf"), float(row["test_accuracy"] or 0)))
    best = {memory: min(runs)[2] for memory, runs in tried.items()}
    less = [f"`{memory}`" for memory in sorted(best) if best[memory] < .95]
    return f"{len(best) - len(less)} of the {len(best)} answer at least .95 of 16 pairs. Of {', '.join(less[:-1])} and {less[-1]}"


def recall_and_text():
    """Spearman's rank correlation of accuracy on 32 pairs and bits a byte, each at its best rate."""
    best = {}
    for name, keep in (("all_memories_published.csv", lambda row: row["task.name"] == "mqar" and row["task.pairs"] == "32"), ("text_kjv.csv", bool)):
        for row in filter(keep, rows(name)):
            runs = best.setdefault(row["label"], {}).setdefault(name, [])
            runs.append((float(row["eval_loss"] or "inf"), float(row["test_accuracy"] if name[0] == "a" else row["test_bits_per_token"])))
    both = [[min(runs)[1] for runs in of.values()] for of in best.values() if len(of) == 2]

    def ranks(values):
        return [sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values]
    a, b = (ranks(values) for values in zip(*both))
    middle = (len(both) + 1) / 2
    product = sum((x - middle) * (y - middle) for x, y in zip(a, b))
    return f"rank correlation {product / math.sqrt(sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)):.2f} (accuracy against bits; the figure adds its interval)"


if __name__ == "__main__":
    maker = globals().get(sys.argv[1]) if len(sys.argv) == 2 else None
    if not callable(maker):
        sys.exit(__doc__)
    print(maker())
