#!/usr/bin/env python3
"""Runs docs/notebook.ipynb, which holds no outputs, and renders it with them into docs/notebook.md and docs/notebook/*.png.

    notebook.py [NOTEBOOK]     in a Python that has crosstalk, torch, pandas, matplotlib, nbclient and ipykernel
"""
# SPDX-License-Identifier: Apache-2.0
import base64
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path


def executed(path, instead=()):
    """The notebook with its outputs, run in an empty folder; `instead`: pieces of text for others, that are shorter to run."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for old in instead:
            cell.source = cell.source.replace(old, instead[old])
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: threads would wait for each other
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return notebook


def small(png):
    """A figure of few colours in as few bytes."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(48).save(out, "PNG", optimize=True)
    return out.getvalue()


def text_of(data):
    return "".join(data) if isinstance(data, list) else data


def page_of(notebook, pictures):
    """(page, name -> PNG): Markdown as it is, code and what it printed in blocks, figures beside the page."""
    parts, files = [], {}
    for cell in notebook["cells"]:
        source = text_of(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{len(files) + 1}.png"
                files[name] = base64.b64decode(text_of(data["image/png"]))
                parts.append(f"![Figure {len(files)}]({pictures}/{name})")
            elif output["output_type"] == "stream" and output["name"] == "stdout":
                parts.append(f"```text\n{text_of(output['text']).rstrip()}\n```")
            elif "text/plain" in data and output["output_type"] == "execute_result":
                parts.append(f"```text\n{text_of(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n", files


def code_of_page(page):
    return re.findall(r"^```python\n(.*?)\n```$", page, re.S | re.M)


def code_of(notebook):
    return [text_of(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def main(arguments):
    path = Path(arguments[0] if arguments else Path(__file__).resolve().parents[1] / "docs/notebook.ipynb")
    page, files = page_of(executed(path), path.stem)
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    for name, png in files.items():
        (folder / name).write_bytes(small(png))
    said = f"<!-- made by scripts/notebook.py from {path.name} -->\n"
    path.with_suffix(".md").write_text(said + page)
    print(f"{path.with_suffix('.md')}: {len(code_of(json.loads(path.read_text())))} cells, {len(files)} figures")


if __name__ == "__main__":
    main(sys.argv[1:])
