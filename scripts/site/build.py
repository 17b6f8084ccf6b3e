#!/usr/bin/env python3
"""Builds the documentation site: the pages of the project, and one for each memory and each task, made from what the program says.

    build.py SOURCE CROSSTALK [OUT]          writes OUT/html (default: build/site); `ninja -C build/cpu site`
    build.py --pages SOURCE CROSSTALK OUT    writes the pages alone, as Markdown, into OUT/pages: needs the standard library

The first needs mkdocs-material (pip install mkdocs-material), and no network; exit code 77 without it. Links and pictures
of every page made are checked.
"""
# SPDX-License-Identifier: Apache-2.0
import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

from equations import mathml

HERE = Path(__file__).resolve().parent
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "results/published/README.md",
         "results/published/literature/README.md", "benchmarks/README.md", "kernels/README.md"]
GUIDE = ["studies", "first_study", "figures", "report", "atlas", "language", "probe", "own_data", "own_model", "rules", "search", "extending", "python", "notebook", "apply",
         "cluster", "install", "determinism"]


def said(crosstalk, *arguments, check=True):
    return subprocess.run([crosstalk, *arguments], check=check, capture_output=True, text=True).stdout


def told(crosstalk, *arguments):
    made = json.loads(said(crosstalk, *arguments, "--json"))
    return made if arguments[0] == "list" else next(one for one in (made if isinstance(made, list) else [made])
                                                   if one["kind"] in ("memory", "task"))


def copy_pages(source, pages):
    """The pages in their folders, with the files that they show or link to."""
    for pattern in PAGES:
        for page in sorted(source.glob(pattern)):
            to = pages / page.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            text = page.read_text()
            for target in re.findall(r"\]\(([^)#\s]+)", text):
                file = (page.parent / target).resolve()
                if re.match(r"[a-z]+:", target) or not file.is_file() or file.suffix == ".md":
                    continue
                there = pages / file.relative_to(source)
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, there)
            # Markdown of the site wants blank lines around its lists' ends; markers of generated parts are none of it.
            to.write_text(re.sub(r"^<!-- .*? -->\n", "", text, flags=re.M))


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def number_text(value):
    return str(int(value)) if value == int(value) else f"{value:g}"


def options_table(options):
    if not options:
        return "None.\n"
    rows = ["| key | default | | |", "|---|---|---|---|"]
    for option in options:
        values = ", ".join(f"`{choice}`" for choice in option.get("choices") or [])
        if not values and option.get("min") is not None and option.get("max") is not None:
            low, high = (number_text(option[end]) for end in ("min", "max"))
            values = f"{low} to {high}" if option["max"] < 1e6 else f"at least {low}" if option["min"] > -1e6 else ""
        default = json.dumps(option["default"]).strip('"')
        rows.append(f"| `{option['key']}` | {'`' + default + '`' if default else ''} | {cell(option['help'])} | {values} |")
    return "\n".join(rows) + "\n"


def comparison(source):
    """Head and legend of the table of results/published that compares all memories, and the row of each memory in it."""
    page = (source / "results/published/README.md").read_text()
    lines = re.search(r"<!-- made: \S* \S*all_memories\.py [^\n]*-->\n(.*?)<!-- end -->", page, re.S)[1].splitlines()
    rows = {match[1]: line for line in lines if (match := re.match(r"\| `(\w+)` \|", line))}
    return "\n".join(lines[:2]), rows, " ".join(line for line in lines[2:] if line and not line.startswith("|"))


def results_of(name, compared):
    head, rows, legend = compared
    text = "\n## Results\n\n"
    if name not in rows:
        return text + ("This memory is not in the [published comparison of all memories](../results/published/README.md#every-memory);\n"
                       f"`crosstalk run experiments/all_memories.toml --set memory={name}` trains it there.\n")
    return text + (f"Its row of the [comparison of all memories](../results/published/README.md#every-memory), which defines the columns:\n\n"
                   f"{head}\n{rows[name]}\n\n{legend}\n")


def memory_page(memory, compared):
    paper = re.search(r"\(([A-Z][^()]*)\)$", memory["does"])  # the name in papers, which people search for
    text = f"# {memory['name']}{' (' + paper[1] + ')' if paper else ''}\n\n{memory['summary'][0].upper()}{memory['summary'][1:]}.\n\n"
    text += f"- What a token does: {memory['does']}.\n- Family: {memory['family']}.\n"
    text += f"- Source: {memory['source']}.\n\n## Equation\n\n{mathml(memory['equation'])}\n\n"
    if memory.get("laws"):
        text += f"with\n\n{mathml(memory['laws'])}\n\n"
    text += f"As text: `{memory['equation']}`\n\n" if "`" not in memory["equation"] else ""
    facts = [("Retrieval is bounded by d_dot columns a sequence (rank bound)", memory["bounded_by_rank"]),
             ("The order of tokens does not matter", memory["order_free"])]
    text += "".join(f"- {what}: {'yes' if truth else 'no'}.\n" for what, truth in facts)
    if memory.get("states"):
        text += f"- States from token to token: {', '.join(f'`{state}`' for state in memory['states'])}.\n"
    if memory.get("forms"):
        text += f"- Forms of equal results: {', '.join(memory['forms'])}.\n"
    if memory.get("half_life_at_start"):
        life = memory["half_life_at_start"]
        text += f"- Half-life at the start of training: {life['median']:.3g} tokens (median).\n"
    text += f"- State size at d_key 64 and 100 values: {memory['defaults']['state_size']} floats a sequence.\n"
    text += "\n## Inputs\n\n| input | shape | |\n|---|---|---|\n"
    for one in memory.get("inputs", []):
        text += f"| `{one['name']}` | `{one['shape']}` | {'optional' if one['optional'] else ''} |\n"
    text += f"\n`crosstalk apply {memory['name']}` runs the memory on them ([the contract](../docs/apply.md)).\n"
    text += f"\n## Options\n\nA study's table `[memories.LABEL]` sets them, by their names without `memory.`\n\n{options_table(memory['options'])}"
    text += "\n## Published layer\n\n"
    layer = memory.get("published")
    if layer:
        text += f"`model.layer = \"published\"` sets the layer of {layer['source']}:\n\n| key | value |\n|---|---|\n"
        text += "".join(f"| `{key}` | `{json.dumps(value)}` |\n" for key, value in layer["set"].items())
        text += f"\nOne layer of width 64 with 2 heads has {layer['parameters']:,} parameters.\n" if layer.get("parameters") else ""
        lacks = "; ".join(f"{one['what']}: {one['consequence']}" for one in layer["lacks"])
        text += f"\nLacking: {lacks}.\n" if lacks else ""
    else:
        text += "None; a language model has the memory with the parts that the study sets.\n"
    name = memory["name"]
    own = "law = [\"S += v k^T\", \"read S q\"]\n" if name == "rule" else ""
    text += results_of(name, compared)
    return text + f"\n## In a study\n\n```toml\n[memories.mine]\nname = \"{name}\"\n{own}```\n"


def chip(word):
    kind = ("answer" if "->" in word else "swap" if "<>" in word else "write" if re.match(r"\w+=", word)
            else "blank" if word in (".", "-", "_") else "token")
    return f'<span class="{kind}">{html.escape(word)}</span>'


def drawn(text):
    """What `sample` prints, token by token."""
    rows, reads = [], []
    for line in text.splitlines():
        numbered = re.match(r"\s*(\d+): (.*)", line)
        asked = re.match(r"\s+((?:read|asked|query)[^:]*): (.*)", line)
        if numbered:
            rows.append(f'<div class="row">{"".join(chip(word) for word in numbered[2].split())}</div>')
        elif asked:
            reads.append(f'<span class="answer">{html.escape(asked[1])}: {html.escape(asked[2])}</span>')
        elif line.strip():
            rows.append(f"<p>{html.escape(line.strip())}</p>")
    if reads:
        rows.append(f'<div class="row">{"".join(reads)}</div>')
    return '<div class="sample">\n' + "\n".join(rows) + "\n</div>\n"


# What stands for somebody's own sequences: a task of keys and values, and one of single tokens.
STAND_INS = {"file": ["recall", "--set", "task.associations=6"],
             "tokens": ["mqar", "--set", "task.vocabulary=16", "--set", "task.length=16", "--set", "task.pairs=3"]}


def task_page(task, crosstalk):
    text = f"# {task['name']}\n\n{task['summary'][0].upper()}{task['summary'][1:]}.\n\n## Example\n\n"
    stand_in = STAND_INS.get(task["name"])
    if stand_in:
        text += f"Its sequences are your own ([own data](../docs/own_data.md)). Here they are samples of `{stand_in[0]}`.\n\n```sh\n"
        text += f"for split in train eval test; do\n  crosstalk sample {' '.join(stand_in)} -n 4 --split $split --out data/$split\ndone\n"
        with tempfile.TemporaryDirectory() as folder:
            for split in ("train", "eval", "test"):
                said(crosstalk, "sample", *stand_in, "-n", "4", "--split", split, "--out", f"{folder}/{split}")
            sample = said(crosstalk, "sample", task["name"], "-n", "1", "--set", f"task.folder={folder}")
        text += f"crosstalk sample {task['name']} -n 1 --set task.folder=data\n```\n\n"
    elif task["name"] == "text":
        text += "Its text is your own ([own data](../docs/own_data.md)). Here it is this project's licence.\n\n```sh\nmkdir -p data && cp LICENSE data\n"
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(HERE.parents[1] / "LICENSE", folder)
            sample = said(crosstalk, "sample", "text", "-n", "1", "--set", f"task.folder={folder}", "--set", "task.length=64")
        text += "crosstalk sample text -n 1 --set task.folder=data --set task.length=64\n```\n\n"
    else:
        sample = said(crosstalk, "sample", task["name"], "-n", "1")
        text += f"`crosstalk sample {task['name']} -n 1`. "
    if not sample.strip():
        sys.exit(f"crosstalk sample {task['name']} shows nothing")
    text += "Writes are blue, swaps orange, other tokens grey, answers green.\n\n" + drawn(sample)
    return text + f"\n## How it is drawn\n\n{task['description']}\n\n## Options\n\n{options_table(task['options'])}"


def commands_in(text):
    """Commands of a page: lines of its code, and code within its sentences."""
    blocks = [block.replace("\\\n", " ") for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)]
    lines = [re.sub(r"\s+", " ", line).strip() for block in blocks for line in block.splitlines()]
    return lines + [re.sub(r"\s+", " ", code) for code in re.findall(r"`((?:crosstalk|python3) [^`]+)`", text)]


def gallery(source):
    text = (source / "results/published/README.md").read_text()
    commands = commands_in(text)
    page = ("# Gallery\n\nPublished figures, with the commands that train and draw them. Settings, commits and machines are in the\n"
            "[results](results/published/README.md).\n\n<div class=\"gallery\" markdown=\"0\">\n")
    shown = [("quickstart.png", "Loss against associations: the quickstart figure")]
    shown += [(picture, words) for words, picture in re.findall(r"!\[([^\]]*)\]\(([\w.]+\.png)\)", text)]
    for picture, words in shown:
        study = re.sub(r"(_figure)?\.png$", "", picture)
        own = [command for command in commands if re.search(rf"\b{study}\b", command) or re.search(rf"\b{study}_figure\b", command)]
        own = sorted((command for command in dict.fromkeys(own) if re.match(r"crosstalk (run|plot) |python3 ", command)),
                     key=lambda command: "run" not in command.split()[:2])[:3]
        if not any(command.startswith("crosstalk run") for command in own) and (source / f"experiments/{study}.toml").exists():
            own.insert(0, f"crosstalk run experiments/{study}.toml")
        code = html.escape("\n".join(own))
        page += (f'<figure><a href="results/published/{picture}"><img src="results/published/{picture}" alt="{html.escape(words, quote=True)}"'
                 f' loading="lazy"></a><figcaption>{html.escape(words)}</figcaption><pre><code>{code}</code></pre></figure>\n')
    return page + "</div>\n"


def make_pages(source, crosstalk, pages):
    copy_pages(source, pages)
    for folder in ("memories", "tasks"):
        (pages / folder).mkdir()
    families, compared = {}, comparison(source)
    for one in told(crosstalk, "list", "memories"):
        memory = told(crosstalk, "describe", one["name"])
        families.setdefault(memory["family"], []).append(memory)
        (pages / f"memories/{memory['name']}.md").write_text(memory_page(memory, compared))
    unknown = set(compared[1]) - {memory["name"] for family in families.values() for memory in family}
    if unknown or not compared[1]:
        sys.exit(f"results/published/README.md compares memories that are not there: {sorted(unknown) or 'none'}")
    index = "# Memories\n\nOne page for each, with equation, source, options, published layer and results. [How they compare](../docs/memories.md).\n"
    for family, memories in families.items():
        index += f"\n## {family[0].upper()}{family[1:]}\n\n| memory | what a token does |\n|---|---|\n"
        index += "".join(f"| [{m['name']}]({m['name']}.md) | {cell(m['does'])} |\n" for m in memories)
    (pages / "memories/index.md").write_text(index)
    tasks = told(crosstalk, "list", "tasks")
    for one in tasks:
        (pages / f"tasks/{one['name']}.md").write_text(task_page(told(crosstalk, "describe", one["name"]), crosstalk))
    index = "# Tasks\n\n| task | what happens, and what it measures |\n|---|---|\n"
    (pages / "tasks/index.md").write_text(index + "".join(f"| [{t['name']}]({t['name']}.md) | {cell(t['summary'])} |\n" for t in tasks))
    (pages / "gallery.md").write_text(gallery(source))
    shutil.copy(source / "results/published/quickstart.png", pages / "results/published/quickstart.png")
    shutil.copy(HERE / "site.css", pages / "site.css")
    guide = [page for page in GUIDE if (source / f"docs/{page}.md").exists()]
    known = set(guide) | {"memories", "reference"}
    notes = sorted(page.stem for page in (source / "docs").glob("*.md") if page.stem not in known)
    return {"nav": [
        {"Crosstalk": "README.md"},
        {"Guide": [f"docs/{page}.md" for page in guide]},
        {"Memories": ["memories/index.md", {"How they compare": "docs/memories.md"}, {"Which are comparable": "docs/comparable.md"}]
         + [{family[0].upper() + family[1:]: [f"memories/{m['name']}.md" for m in memories]} for family, memories in families.items()]},
        {"Tasks": ["tasks/index.md"] + [f"tasks/{t['name']}.md" for t in tasks]},
        {"Gallery": "gallery.md"},
        {"Reference": ["docs/reference.md"]},
        {"Results": ["results/published/README.md", "results/published/literature/README.md", "benchmarks/README.md"]},
        {"Project": ["CONTRIBUTING.md", "CHANGELOG.md", "kernels/README.md"] + [f"docs/{page}.md" for page in notes]}]}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets, self.ids, self.loaded = [], set(), []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        for name in ("href", "src"):
            if attributes.get(name):
                self.targets.append(attributes[name])
                if tag in ("script", "img", "link") and attributes.get("rel") not in ("canonical", "next", "prev"):
                    self.loaded.append(attributes[name])


def check_links(folder):
    """What leads nowhere, or would be loaded from a network."""
    pages = {}
    for path in folder.rglob("*.html"):
        pages[path.resolve()] = Links()
        pages[path.resolve()].feed(path.read_text())
    wrong = []
    for path, page in pages.items():
        wrong += [f"{path.name}: loads {target}" for target in page.loaded if re.match(r"(https?:)?//", target)]
        if path.name == "404.html":  # its links are those of a server's root
            continue
        for target in page.targets:
            parts = urlparse(target)
            if parts.scheme or parts.netloc or (not parts.path and not parts.fragment):
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.exists() or (file.is_dir() and not (file / "index.html").exists()):
                wrong.append(f"{path.relative_to(folder.resolve())}: {target}: there is no such file")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids:
                wrong.append(f"{path.relative_to(folder.resolve())}: {target}: no such place on the page")
    return sorted(set(wrong)), len(pages)


def pages_alone(source, crosstalk, out):
    shutil.rmtree(out, ignore_errors=True)
    (out / "pages").mkdir(parents=True)
    make_pages(source, crosstalk, out / "pages")
    return subprocess.run([sys.executable, source / "scripts/check-links.py", out / "pages"]).returncode


def main(source, crosstalk, out):
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        print("skipped: this Python has no mkdocs-material (pip install mkdocs-material)")
        return 77
    shutil.rmtree(out, ignore_errors=True)
    (out / "pages").mkdir(parents=True)
    settings = make_pages(source, crosstalk, out / "pages")
    (out / "mkdocs.yml").write_text((HERE / "mkdocs.yml").read_text() + json.dumps(settings)[1:-1].replace('"nav": ', "nav: ", 1) + "\n")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", out / "mkdocs.yml"],
                          env=dict(os.environ, NO_MKDOCS_2_WARNING="1"))
    if done.returncode:
        return 1
    # The plugin "offline" would fetch its stand-in for workers.
    shutil.copy(HERE / "worker.js", out / "html/worker.js")
    for page in (out / "html").rglob("*.html"):
        here = "../" * (len(page.relative_to(out / "html").parts) - 1)
        page.write_text(page.read_text().replace("https://unpkg.com/iframe-worker/shim", here + "worker.js"))
    wrong, count = check_links(out / "html")
    for line in wrong[:40]:
        print(line)
    print(f"{count} pages in {out / 'html'}, {len(wrong)} wrong links")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pages"] and len(sys.argv) == 5:
        sys.exit(pages_alone(*(Path(argument).resolve() for argument in sys.argv[2:])))
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    SOURCE = Path(sys.argv[1]).resolve()
    sys.exit(main(SOURCE, Path(sys.argv[2]).resolve(), Path(sys.argv[3] if len(sys.argv) == 4 else SOURCE / "build/site").resolve()))
