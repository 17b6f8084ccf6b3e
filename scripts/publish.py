#!/usr/bin/env python3
"""Brings the runs of a store into results/published: the export, where its runs come from, figures and tables.

    publish.py CROSSTALK NAME STORE... [--study STUDY.toml] [--where KEY=VALUE]... [--curves METRIC,...]
    publish.py --check    whether commits, runs and seconds on README are those of the exports, every table says which export it is
                          made of, and every point that does not agree is explained or said not to be

The first writes results/published/NAME.csv and NAME.provenance.csv, their row in the table of commits of README.md, "N runs in S s" where that
stands before NAME.csv in README, every figure that README draws of NAME.csv or of runs/NAME (for which the STOREs stand), and what
stands between <!-- made: ... --> and <!-- end --> in README. A STORE may be an export, too: NAME.provenance.csv of before, to which
runs are added. --study: of one STORE the runs that this study asks for, and not those of its earlier versions. --curves: NAME.curves.csv,
too, with these curves and profiles (accuracy_by_length, say), of stores only. Prints how many runs there are, of which seeds, commits and devices. Sentences and tables between marks are made by
scripts/documents.py, whose check says which numbers are old (ctest -R 'program.documents|program.published_check').
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import csv
import datetime
import difflib
import re
import shlex
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
HERE = SOURCE / "results" / "published"


def run(*words, cwd=HERE):
    print(shlex.join(str(word) for word in words), flush=True)
    subprocess.run([str(word) for word in words], check=True, cwd=cwd)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def fill_provenance(path, known):
    """Gives rows that came from exports with provenance (`known`, by id) the columns that reading them again loses."""
    rows = rows_of(path)
    columns = list(rows[0])
    columns += sorted({key for row in known.values() for key in row if key.startswith("provenance.")} - set(columns))
    for row in rows:
        if not row.get("provenance.commit"):
            row.update({key: value for key, value in known[row["id"]].items() if key.startswith("provenance.")})
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def export_curves(crosstalk, name, what, conditions, metrics):
    """Of all curves those of these metrics: a run has hundreds of numbers of each."""
    path = HERE / f"{name}.curves.csv"
    run(crosstalk, "export", *what, *conditions, "--curves", "--out", path.name)
    with open(path) as file:
        lines = file.readlines()
    with open(path, "w") as file:
        file.writelines(line for line in lines if line == lines[0] or line.split(",")[2] in metrics)


def with_commits(page, name, rows):
    """The page with the export's row in its table of commits."""
    commits = sorted({row["provenance.commit"][:7] for row in rows})
    row = f"| `{name}.csv` | {len(rows)} | {', '.join(commits)} |\n"
    table = re.search(r"(\| export \| runs \| commits \|\n\|---\|--:\|---\|\n)((?:\| `.*\n)+)", page)
    lines = [line for line in table[2].splitlines(True) if not line.startswith(f"| `{name}.csv` |")]
    lines = sorted(lines + [row], key=lambda line: line.split("`")[1])
    return page[:table.start(2)] + "".join(lines) + page[table.end(2):]


def figure_commands(page, name):
    """What README draws of the export or of its store."""
    text = re.sub(r"\\\n", " ", page)
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(crosstalk [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    for line in dict.fromkeys(re.sub(r"\s+", " ", line).strip() for line in lines):
        words = shlex.split(line)
        if words[:2] == ["crosstalk", "plot"] and "--out" in words and {f"{name}.csv", f"runs/{name}"} & set(words):
            yield words[1:]


def seconds_of(rows):
    """Seconds in which runs trained, of each commit and device; pauses of up to a minute count (results/replay/replay.h)."""
    spans = collections.defaultdict(list)
    for row in rows:
        spans[row["provenance.commit"][:7], row["provenance.device"]].append(
            [datetime.datetime.fromisoformat(row[f"provenance.{end}"]) for end in ("started", "finished")])
    all_seconds = 0
    for of_one in spans.values():
        last = min(of_one)[0]
        for start, end in sorted(of_one):
            if end > last:
                all_seconds += (end - (start if (start - last).total_seconds() > 60 else last)).total_seconds()
                last = end
    return round(all_seconds)


def with_times(page, name, rows):
    """The page with runs and seconds where "N runs in S s" stands, the next export named behind it being this one."""
    def said(match):
        rest = re.split(r"\n\n", page[match.end():], maxsplit=1)[0]
        exports = re.findall(r"([a-z0-9_]+)\.csv", rest)
        return f"{len(rows):,} runs in {seconds_of(rows)} s" if exports[:1] == [name] else match[0]
    page = re.sub(rf"(\| `{name}\.toml` \| )[0-9,]+ \| [0-9]+ s \|", rf"\g<1>{len(rows)} | {seconds_of(rows)} s |", page)
    return re.sub(r"[0-9,]+ runs in [0-9]+ s\b", said, page)


def said_of(rows):
    seeds = collections.Counter(row["seed"] for row in rows)
    started = min(row["provenance.started"] for row in rows)
    status = collections.Counter(row["status"] for row in rows)
    return (f"{len(rows)} runs ({dict(status)}), seeds {dict(sorted(seeds.items()))}, "
            f"{sorted({row['provenance.commit'][:7] for row in rows})}, semantics "
            f"{sorted({row['provenance.semantics'] for row in rows})}, {sorted({row['provenance.device'] for row in rows})}, "
            f"{seconds_of(rows)} s from {started} on")


def unsourced_tables(page):
    """Lines of tables that name no export, neither from the table (or heading) before on nor in the paragraph behind."""
    pieces = re.split(r"((?:^\|.*\n)+)", re.sub(r"^<!-- end -->\n", "", page, flags=re.M), flags=re.M)  # text, table, text, ...
    for before, table, behind in zip(pieces[0::2], pieces[1::2], pieces[2::2]):
        around = re.split(r"^#.*\n", before, flags=re.M)[-1] + behind.lstrip("\n").split("\n\n")[0]
        if ".csv" not in around and "not exported" not in around:
            yield table.splitlines()[0]


def unexplained_points(page):
    """The first comparison with points that do not agree of each section that says nothing further down of what explains them."""
    for section in re.split(r"^(?=## |\*\*)", page, flags=re.M):
        made = [match for match in re.finditer(r"<!-- made: (crosstalk compare .*?) -->.*?<!-- end -->", section, re.S)
                if "| **no** |" in match[0]]
        if made and not re.search(r"explain|explanation", re.sub(r"<!-- made:.*?<!-- end -->", "", section[made[-1].end():], flags=re.S)):
            yield made[-1][1]


def check_literature():
    """Files of the literature say how many rows they have, and released curves end in the final losses."""
    files = [path for path in sorted((HERE / "literature").glob("*.csv")) if path.stem != "schlag2021_final_losses"]
    for path in files:
        said = re.findall(r"^# ([0-9]+) rows, (?:a selection|all) of what the source has\.$", path.read_text(), re.M)
        if said != [str(len(rows_of(path)))]:
            yield f"literature/{path.name}: has {len(rows_of(path))} rows, and says {said}"
    curves = HERE / "literature" / "curves"
    last = {row["id"]: row["value"] for row in rows_of(curves / "schlag2021.curves.csv")}
    final = {(row["model"], row["S_unique_keys"], row["setting"]): float(row["final_eval_loss"])
             for row in rows_of(HERE / "literature" / "schlag2021_final_losses.csv")}
    runs = rows_of(curves / "schlag2021.csv")
    for row in runs:
        load = row["task.associations"]
        known = final[re.search(r"/(.*)_Assoc", row["id"])[1], load, "1" if load == "600" else "2"]
        if row["eval_loss"] != last[row["id"]] or abs(float(row["eval_loss"]) - known) > 1e-8:
            yield f"literature/curves/schlag2021.csv: {row['id']}: {row['eval_loss']}, the curve {last[row['id']]}, the table {known}"
    if len(files) != 13 or len(runs) != 16:
        yield f"literature: {len(files)} files, not 13, or {len(runs)} curves, not 16"


def check():
    page = was = (HERE / "README.md").read_text()
    exports = sorted(HERE.glob("*.provenance.csv"))
    for path in exports:
        name, rows = path.name.removesuffix(".provenance.csv"), rows_of(path)
        page = with_times(with_commits(page, name, rows), name, rows)
    wrong = list(difflib.unified_diff(was.splitlines(), page.splitlines(), "is", "should be", n=0, lineterm=""))
    wrong += [f"names no export, and does not say \"not exported\": the table {head}" for head in unsourced_tables(was)]
    wrong += [f"nothing behind it says what explains its points, or \"not explained\": {made}" for made in unexplained_points(was)]
    wrong += check_literature()
    counts = {"exports": (len(exports), 15), "tables": (len(re.findall(r"^\|---", was, re.M)), 10),
              "times": (len(re.findall(r"[0-9,]+ runs in [0-9]+ s\b", was)), 20),
              "comparisons that do not agree": (len(re.findall(r"\*\*no\*\* \|$", was, re.M)), 5)}
    wrong += [f"{count} {what}: they were lost" for what, (count, least) in counts.items() if count < least]
    print("\n".join(wrong or [f"results/published/README.md: {', '.join(f'{count} {what}' for what, (count, _) in counts.items())}"]))
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--check"]:
        return check()
    conditions, study, curves = [], None, None
    while "--where" in arguments:
        at = arguments.index("--where")
        conditions += arguments[at:at + 2]
        del arguments[at:at + 2]
    if "--study" in arguments:
        at = arguments.index("--study")
        study = Path(arguments[at + 1]).resolve()
        del arguments[at:at + 2]
    if "--curves" in arguments:
        at = arguments.index("--curves")
        curves = arguments[at + 1].split(",")
        del arguments[at:at + 2]
    if len(arguments) < 3 or (study and len(arguments) > 3):
        sys.exit(__doc__)
    crosstalk, name = Path(arguments[0]).resolve(), arguments[1]
    stores = [str(Path(store).resolve()) for store in arguments[2:]]
    what = [study, "--store", *stores] if study else stores
    exports = [store for store in stores if store.endswith(".csv")]  # NAME.provenance.csv may be one: read before it is written
    known = {row["id"]: row for export in exports for row in rows_of(export) if row.get("provenance.commit")}
    run(crosstalk, "export", *what, *conditions, "--out", f"{name}.csv")
    run(crosstalk, "export", *what, *conditions, "--provenance", "--out", f"{name}.provenance.csv")
    if curves:
        export_curves(crosstalk, name, what, conditions, curves)
    if exports:
        fill_provenance(HERE / f"{name}.provenance.csv", known)
    rows = rows_of(HERE / f"{name}.provenance.csv")
    page = HERE / "README.md"
    page.write_text(with_times(with_commits(page.read_text(), name, rows), name, rows))
    for words in figure_commands(page.read_text(), name):
        if f"runs/{name}" in words and len(exports) == len(stores):
            print(f"not drawn, for it needs a store: {shlex.join(words)}")
            continue
        run(crosstalk, *[part for word in words for part in (stores if word == f"runs/{name}" else [word])])
        for ending in ("py", "caption.txt"):
            (HERE / f"{words[words.index('--out') + 1]}.{ending}").unlink(missing_ok=True)
    run(sys.executable, SOURCE / "scripts" / "documents.py", SOURCE, crosstalk, cwd=SOURCE)
    print(f"{name}: {said_of(rows)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
