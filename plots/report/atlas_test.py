"""The atlas of a small real study: every number of its page and tables is calculated again from the exported runs: atlas_test.py CROSSTALK

Trains three memories at four settings (some seconds). Where Playwright and a Chromium are there, the page is used as a reader would
(else this part is skipped, and said so).
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import itertools
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STUDY = """
[study]
name = "tiny"
title = "A tiny atlas"
seeds = [1, 2, 3]
[base]
model.name = "language"
model.layer = "published"
model.width = 16
model.layers = 2
model.stack = "base_conv memory"
model.mlp = "identity"
model.weight_deviation = 0.1
train.optimizer = "adamw"
train.batch = 16
train.max_steps = 300
train.stop_loss = 0
train.stop_accuracy = 0.98
train.patience = 100
eval.every = 50
eval.sequences = 32
[memories.deltanet]
name = "deltanet"
[memories.linear]
name = "linear_attention"
title = "Linear attention"
[memories.softmax]
name = "softmax"
[[grid]]
"task.name" = "mqar"
"task.vocabulary" = 16
"model.layer" = ["published", "bare"]
"train.learning_rate" = [3e-3, 1e-2, 3e-2]
[[grid.zip]]
"task.pairs" = [2, 4]
"task.length" = [8, 16]
[[grid]]
"task.name" = "words"
"task.group" = "Z2"
"task.length" = 8
"model.layer" = ["published", "bare"]
"train.learning_rate" = [3e-3, 1e-2, 3e-2]
[[grid]]
"task.name" = "swap"
"task.layout" = "tag"
"task.associations" = 3
"task.operations" = 3
"model.layer" = ["published", "bare"]
"train.learning_rate" = [3e-3, 1e-2, 3e-2]
"""
MINE = STUDY.replace('name = "tiny"', 'name = "mine"').replace("[memories.softmax]\nname = \"softmax\"", "").replace(
    "[memories.linear]\nname = \"linear_attention\"\ntitle = \"Linear attention\"", "").replace(
    "[memories.deltanet]\nname = \"deltanet\"", "[memories.mine]\nname = \"rule\"\nlaw = \"S = 0.9 S + v k^T; read S q\"\n").replace(
    '"model.layer" = ["published", "bare"]', '"model.layer" = "bare"').replace('model.layer = "published"', 'model.layer = "bare"')
KEYS = {"mqar": ["task.pairs"], "words": [], "swap": []}
CHANCE_DEVIATIONS = 2


def check(truth, what):
    if not truth:
        sys.exit(f"wrong: {what}")
    print(f"ok: {what}")


def number(text):
    return None if text == "" else float(text)


def close(a, b):
    return a is None and b is None or a is not None and b is not None and math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)


def cells_again(runs):
    """(label, bare, column) -> what a cell says, from the exported runs alone."""
    groups = {}
    for run in runs:
        task = run["task.name"]
        column = ", ".join([task] + [f"{key[5:]} = {run[key]}" for key in KEYS[task]])
        groups.setdefault((run["label"], run["model.layer"] == "bare", column), []).append(run)
    layered = {label for label, bare, _ in groups if not bare}
    cells, shortcuts = {}, {}
    for (_, _, column), of_cell in groups.items():
        for value in (float(run[key]) for run in of_cell for key in run if key.startswith("baseline_") and key.endswith("_accuracy") and run[key]):
            shortcuts[column] = max(value, shortcuts.get(column, 0))
    shortcuts = {column: value for column, value in shortcuts.items() if value < 0.99}
    for (label, bare, column), of_cell in groups.items():
        rates = {}
        for run in of_cell:
            rates.setdefault(float(run["train.learning_rate"]), []).append(run)
        shared = set.intersection(*({run["seed"] for run in of_rate} for of_rate in rates.values()))
        best = min(sorted(rates), key=lambda rate: statistics.median(
            float(run["eval_loss"]) for run in rates[rate] if run["seed"] in shared))
        chosen = rates[best]
        values = sorted(float(run["test_accuracy"]) for run in chosen)
        chance = float(chosen[0]["chance_accuracy"])
        answers = float(chosen[0]["eval.sequences"]) * ANSWERS[column]
        noise = CHANCE_DEVIATIONS * math.sqrt(chance * (1 - chance) / answers)
        within = sum(value <= chance + noise for value in values)
        least = shortcuts[column] + 0.02 * (1 - shortcuts[column]) if column in shortcuts else -1
        good = [rate for rate in sorted(rates) if statistics.median(float(run["test_accuracy"]) for run in rates[rate]) >= 0.9]
        cells[label + (" (bare)" if bare and label in layered else ""), column] = {
            "state": "at chance" if 2 * within > len(values) else "by shortcut" if statistics.median(values) <= least else "value", "value": statistics.median(values),
            "lo": values[0], "hi": values[-1], "n": len(values), "chance": chance, "learning_rate": best,
            "edge": "largest" if best == max(rates) else "smallest" if best == min(rates) else "",
            "rates_tried": len(rates), "rates_solved": len(good), "rate_from": good[0] if good else None,
            "rate_to": good[-1] if good else None, "state_size": float(chosen[0]["state_size"]),
            "parameters": float(chosen[0]["parameters"]),
            "ms_per_step": min(1000 * float(run["provenance.wall_s"]) / float(run["steps"]) / float(run["provenance.pack"])
                               for run in of_cell)}
    return cells


ANSWERS = {"mqar, pairs = 2": 2, "mqar, pairs = 4": 4, "words": 8, "swap": 3}


def ranks(values):
    return [sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values]


def spearman(x, y):
    a, b = ranks(x), ranks(y)
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    norm = math.sqrt(sum((i - mean_a) ** 2 for i in a) * sum((j - mean_b) ** 2 for j in b))
    return sum((i - mean_a) * (j - mean_b) for i, j in zip(a, b)) / norm if norm else math.nan


def check_numbers(folder, data):
    runs = list(csv.DictReader(open(folder / "runs.csv")))
    table = list(csv.DictReader(open(folder / "atlas.csv")))
    again = cells_again(runs)
    seen = {(row["row"], row["column"]): row for row in table}
    check(len(table) == len(seen) and {key for key, row in seen.items() if row["n"]} == set(again), "every cell that was trained is there, once")
    for key, want in again.items():
        for name, value in want.items():
            got = seen[key][name]
            check_quietly(got == value if isinstance(value, str) else close(number(got), value), f"{key} {name}: {got}, not {value}")
    print(f"ok: {len(again)} cells of {len(runs)} runs have the numbers that follow from the runs")
    for (row, line), (c, column) in itertools.product(zip(data["rows"], data["cells"]), enumerate(data["columns"])):
        bare = row["name"] if (row["name"], column["title"]) in seen else row["label"] + (" (bare)" if "(bare)" in row["name"] else "")
        of_csv = seen[bare, column["title"]]
        for name in ("state", "value", "lo", "hi", "n", "verdict", "learning_rate", "edge", "rates_solved", "ms_per_step", "state_size"):
            got, want = line[c][name], of_csv[name]
            check_quietly(got == want or (got is None and want == "") or (not isinstance(got, str) and got is not None and close(float(got), number(want))),
                          f"page, {bare}, {column['title']}, {name}: {got}, not {want}")
    print("ok: the page has the numbers of the CSV")
    standing = {key: (-1 if cell["state"] != "value" else cell["value"]) for key, cell in again.items()}
    for a, b, value, _, _, n in data["ranks"]:
        names = [data["columns"][c]["title"] for c in (a, b)]
        both = sorted({row for row, _ in again if all((row, name) in again for name in names)})
        check_quietly(n == len(both) and math.isclose(value, spearman(*([standing[row, name] for row in both] for name in names)), abs_tol=1e-12),
                      f"rank correlation of {names}")
    check(len(data["ranks"]) >= 3, "rank correlations of settings follow from the cells")


def check_quietly(truth, what):
    if not truth:
        sys.exit(f"wrong: {what}")


def check_mine(folder, data):
    runs = list(csv.DictReader(open(folder / "all.csv")))
    again = cells_again(runs)
    by_seed = {}
    for run in runs:
        column = ", ".join([run["task.name"]] + [f"{key[5:]} = {run[key]}" for key in KEYS[run["task.name"]]])
        by_seed[run["label"], run["model.layer"], column, float(run["train.learning_rate"]), run["seed"]] = float(run["test_accuracy"])
    differences = 0
    for place in data["places"]:
        column, mine = data["columns"][place["column"]]["title"], data["cells"][place["row"]][place["column"]]
        standing = sorted((-1 if cell["state"] != "value" else cell["value"] for (row, of), cell in again.items() if of == column), reverse=True)
        own = -1 if mine["state"] != "value" else mine["value"]
        check_quietly(place["place"] == standing.index(own) + 1 and place["of"] == len(standing), f"place in {column}")
        for one in place["neighbours"]:
            cell, label = data["cells"][one["row"]][place["column"]], data["rows"][one["row"]]["label"]
            pairs = [by_seed["mine", "bare", column, mine["learning_rate"], seed] -
                     by_seed[label, cell["layer"], column, cell["learning_rate"], seed] for seed in "123"]
            check_quietly(math.isclose(one["difference"], statistics.median(pairs), abs_tol=1e-12) and one["wins"] == sum(d > 0 for d in pairs)
                          and not one["told"], f"difference to {label} in {column}")
            differences += 1
    check(len(data["places"]) == 4 and differences >= 4, f"places and {differences} differences of one's own memory follow from the runs")


def use_page(path, pictures):
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return print("skipped: the page in a browser: this Python has no playwright")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        return print("skipped: the page in a browser: no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in (1280, 420):
            page = browser.new_page(viewport={"width": width, "height": 900})
            heard = []
            page.on("console", lambda message: heard.append(message.text))
            page.on("pageerror", lambda error: heard.append(str(error)))
            page.goto(path.as_uri())
            check(page.evaluate("document.documentElement.scrollWidth") <= width, f"at {width} pixels nothing is wider than the window")
            if pictures:
                page.screenshot(path=f"{pictures}/atlas_{width}.png", full_page=True)
            column = page.locator("#grid-table thead th").nth(4)
            column.get_by_role("button").click()
            values = page.evaluate("[...document.querySelectorAll('#grid-table tbody tr')].map(row => data.cells[row.at][0])"
                                   ".filter(cell => cell.state === 'value').map(cell => cell.value)")
            check(values == sorted(values, reverse=True), "a head puts the best first")
            page.fill("#filter", "linear")
            check(page.inner_text("#count") == "2 of 7 rows.", "words filter")
            page.fill("#filter", "")
            page.select_option("#view", "best rate")
            page.locator("#grid-table tbody td.cell").first.click()
            check(page.locator("#curve svg").count() >= 2 and "crosstalk run tiny.toml --where" in page.inner_text("#curve code"),
                  "a cell shows its curves and its command")
            if pictures:
                page.screenshot(path=f"{pictures}/atlas_{width}_cell.png")
            check(page.locator("#front circle.spot").count() > 2 and page.locator("#mine-table tr").count() == 5, "figure and places are there")
            page.emulate_media(media="print")
            check(len(page.pdf(format="A4", landscape=True)) > 10_000, "it prints")
            check(heard == [], f"no errors {heard}")
            page.close()
        browser.close()


def main(crosstalk, pictures=None):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.toml").write_text(STUDY)
        (folder / "mine.toml").write_text(MINE)
        environment = dict(os.environ, OMP_NUM_THREADS="1")

        def call(*words, ends=0):
            done = subprocess.run([Path(crosstalk).resolve(), *words], cwd=folder, env=environment, text=True, capture_output=True)
            check_quietly(done.returncode == ends, f"{words} ended with {done.returncode}: {done.stderr}")
            return done.stdout + done.stderr

        call("run", "tiny.toml", "--set", "seeds=1")
        check("not yet trained" not in call("atlas", "runs/tiny"), "a store of one seed is an atlas")
        call("run", "tiny.toml", "--chosen-of", "runs/tiny", "--best", "train.learning_rate")
        call("run", "mine.toml")
        call("export", "runs/tiny", "--provenance", "--out", "runs.csv")
        call("export", "runs/tiny", "runs/mine", "--provenance", "--out", "all.csv")
        call("atlas", "runs/tiny", "--out", "atlas.csv")
        call("atlas", "runs/tiny", "--out", "atlas.tex")
        call("atlas", "tiny.toml", "--out", "page.html")
        call("atlas", "runs/tiny", "--with", "mine.toml", "--out", "mine.html")
        data = lambda page: json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])
        check_numbers(folder, data(folder / "page.html"))
        check_mine(folder, data(folder / "mine.html"))
        check("\\begin{tabular}" in (folder / "atlas.tex").read_text(), "a table for a paper")
        (folder / "notes.html").write_text("notes")
        check("is no atlas" in call("atlas", "runs/tiny", "--out", "notes.html", ends=2), "nothing else is written over")
        check("an atlas is a page" in call("atlas", "runs/tiny", "--out", "x.png", ends=2), "a picture is refused")
        check("in the atlas already" in call("atlas", "runs/tiny", "--with", "tiny.toml", ends=2), "one's own that is the atlas is refused")
        use_page(folder / "mine.html", pictures)
        if pictures:
            shutil.copy(folder / "mine.html", pictures)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
