#!/usr/bin/env python3
"""Whether docs/apply.md is true: runs its Python example. (Its table of memories is made by the program: documents.py.)

    check-apply-page.py SOURCE CROSSTALK

Needs numpy.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def run_examples(text, crosstalk):
    examples = re.findall(r"```python\n(.*?)```", text, re.S)
    if not examples:
        sys.exit("docs/apply.md has no Python example")
    environment = dict(os.environ, PATH=f"{crosstalk.resolve().parent}{os.pathsep}{os.environ['PATH']}")
    for example in examples:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-c", example], cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run_examples((Path(sys.argv[1]) / "docs/apply.md").read_text(), Path(sys.argv[2]))
    print("docs/apply.md: the example runs")
