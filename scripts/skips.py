#!/usr/bin/env python3
"""What ctest's tests skipped, and why.

    skips.py JUNIT.xml              how often each reason was given
    skips.py JUNIT.xml --strict     exit code 1 where there is a reason that is not in ALLOWED, as continuous integration has it

JUNIT.xml: of `ctest --output-junit JUNIT.xml --test-output-size-passed 100000`. Counted are whole entries, and what GoogleTest, pytest
and bats skip within entries that pass. What a test needs is installed by scripts/test.sh; a reason that no machine can lack belongs
into no test.
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import re
import sys
import xml.etree.ElementTree

#: Reasons that may stand: what a machine has not and no package brings, and what a memory or a task has not.
ALLOWED = [
    # The machine.
    r"no CUDA device|there is no GPU|built with(out)? CUDA|no kernels in chunks|there is no PyTorch with CUDA",
    r"does not fit this GPU|do not fit this GPU|one fits at most|needs 11 GiB|too slow",
    r"AddressSanitizer",
    r"only root can become|no small disk",  # root, and a machine that lets it mount
    r"slow: CROSSTALK_SLOW=1 runs it",
    # Large packages: PyTorch with its notebooks, JAX, NVRTC, a browser.
    r"(PyTorch|torch|JAX|jax|mypy|pyright|safetensors|pyarrow|datasets|nbclient|ipykernel) is not installed|this Python has no .*torch|needs_torch",
    r"NVRTC|nvrtc|libnvrtc",
    r"no playwright|no Chromium",
    # The memory or task of a test over all of them.
    r"keeps its keys, not a state|its state is not all in S|its first token, without a state before it|it has one form",
    r"kinks|no layer of its authors|it is lowered|steeper behind two layers|stands beside the sequence too",
    r"one step of gradient descent does not learn|a cell holds tanh|are given, not drawn|ha(s|ve) no channel of values",
    r"its sequences come from files|(model|memory)\.[a-z_]+",  # the refusal of an option that a memory does not have
]
FORMS = [
    re.compile(r"^\S+:\d+: Skipped\n(.+)$", re.M),  # GoogleTest
    re.compile(r"^SKIPPED \[\d+\] \S+: (.+)$", re.M),  # pytest -rs
    re.compile(r"^ok \d+ .* # skip ?(.*)$", re.M),  # bats
    re.compile(r"^(?:SKIPPED|skipped): (.+)$", re.M),  # scripts
]


def reasons_of(path):
    """(entry, reason) of all that was skipped."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        text = case.findtext("system-out") or ""
        found = [reason.strip() for form in FORMS for reason in form.findall(text)]
        whole = case.get("status") in ("notrun", "disabled")
        for reason in found or (["no reason is given"] if whole else []):
            yield case.get("name"), reason


def main(path, strict):
    count, where = collections.Counter(), {}
    for name, reason in reasons_of(path):
        count[reason] += 1
        where.setdefault(reason, name)
    wrong = [reason for reason in count if not any(re.search(form, reason) for form in ALLOWED)]
    for reason, n in count.most_common():
        print(f"{n:5d} skipped: {reason} ({where[reason]}{', ...' if n > 1 else ''})", file=sys.stderr)
    for reason in wrong:
        print(f"skipped for want of something that can be installed, or for no good reason: {reason} ({where[reason]})",
              file=sys.stderr)
    return 1 if strict and wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--strict" in sys.argv[2:]))
