#!/usr/bin/env python3
"""Acceptance of `crosstalk apply`: every memory against apply_reference.py, in every form, at every precision.

    apply_test.py CROSSTALK [UNITTEST ARGUMENTS]      or with $CROSSTALK; e.g. `-v Apply.test_delta`

A memory that `crosstalk list memories` does not have is reported as skipped. Errors are max|got - want| / max|want|.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True  # the reference lies among the sources
import apply_reference as reference

PROGRAM = os.environ.get("CROSSTALK", "crosstalk")

FP64, FP64_GRADIENT = 1e-10, 1e-7
# Largest error of rounded arithmetic by kind of data: three to five times the errors that a chunked delta rule with
# products of rounded operands and sums in fp32 makes (256 and 1024 tokens): 6e-7 and 9e-3, gates 3e-6 and 1e-2,
# beta = 2 3e-6 and 5e-2. What has no entry is compared in fp64 alone.
BUDGETS = {
    "plain": {"fp32": 3e-6, "bf16": 3e-2},
    "gates": {"fp32": 1e-5, "bf16": 3e-2},
    "beta 2": {"fp32": 1e-5, "bf16": 1.5e-1},
    "kinks": {"fp32": 3e-6},  # in bf16 a score may come to lie on the other side of 0
    "fp64 only": {},
}


class Case:
    """Inputs and options of one call. `every_element`: gradients element by element, else along random directions."""

    def __init__(self, label, inputs, options=None, budget="plain", every_element=True):
        self.label, self.inputs, self.options = label, inputs, options or {}
        # Of a map by all products of entries, nobody says in which order they come.
        self.states_known = self.options.get("feature_map") not in ("taylor", "power")
        self.budget, self.every_element = budget, every_element


# --- data ---

def unit_rows(x):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


DRAW = {
    "log_decay": lambda r, shape: -r.uniform(0.01, 1.5, shape),
    "log_decay_v": lambda r, shape: -r.uniform(0.01, 1.5, shape),
    "log_input": lambda r, shape: r.normal(0, 1.5, shape),
    "log_rate": lambda r, shape: r.normal(0, 0.5, shape),
    "step": lambda r, shape: r.uniform(0.1, 1, shape),
    "slope": lambda r, shape: r.uniform(0.05, 0.7, shape),
    "correction": lambda r, shape: r.uniform(0.1, 1, shape),
    "a": lambda r, shape: -unit_rows(r.normal(size=shape)),
    "erase_key": lambda r, shape: unit_rows(r.normal(size=shape)),
    "log_decay_a": lambda r, shape: -r.uniform(0.01, 1.5, shape),
    "signed_decay": lambda r, shape: r.uniform(-0.95, 0.95, shape),
    "a0": lambda r, shape: r.uniform(0, 1, shape),
    "n0": lambda r, shape: r.uniform(0, 1, shape),
    "z0": lambda r, shape: r.uniform(0, 1, shape),
}
for rate in ("beta", "beta_a", "in_context_rate", "erase_gate", "write_gate", "level_gate"):
    DRAW[rate] = lambda r, shape: r.uniform(0.05, 0.95, shape)
# Their transition is I - (what k makes of itself): stable with keys of length 1.
UNIT_KEYS = {"delta", "deltanet", "gated_delta", "comba", "kda", "complex_kda", "gated_delta2", "delta_product", "rwkv7", "fwm",
             "precond_gated_delta", "log_linear_gated_delta"}


def positive(x):
    return {**x, **{name: np.abs(x[name]) + 0.125 for name in ("q", "k") if name in x}}


def draw(memory, seed, B=2, T=7, N=3, H=2, K=4, V=3, optional=True, start=False, signed=False, divided=False):
    random = np.random.default_rng([zlib.crc32(memory.encode()), seed])
    H = 1 if memory in ("mamba1", "rwkv4") else H
    sizes = {"B": B, "T": T, "N": N, "H": H, "K": K, "V": V, "L": 16}
    x = {}
    for name, letters in reference.SPECS[memory]["inputs"].items():
        shape = tuple(sizes[c] for c in letters)
        if name == "z0" and not (start and divided):
            continue
        if name not in reference.SPECS[memory]["optional"] or (start if name in ("s0", "y0", "l0", "a0", "n0", "m0") else optional):
            x[name] = DRAW.get(name, lambda r, shape: r.normal(size=shape))(random, shape)
    if "q" in x:
        x["q"] /= np.sqrt(K)
    if memory in UNIT_KEYS:
        x["k"] = unit_rows(x["k"])
    if memory == "comba":  # p along k, as in the paper
        x["erase_key"] = 0.7 * x["k"]
    if memory == "dplr":  # I + a b^T is stable if b lies against a
        x["b"] = -random.uniform(0.05, 0.95, x["a"].shape[:-1] + (1,)) * x["a"]
    if memory == "fwm":  # its first token replaces whatever stood there
        x.pop("s0", None)
    if memory == "mlstm" and not signed:  # a divisor n.q that passes 0 magnifies rounding errors
        x = positive(x)
    # Numbers that fp32 holds: what is measured is the arithmetic, not the reading.
    return {name: np.asarray(a, dtype=np.float32).astype(np.float64) for name, a in x.items()}


OPTIONS = {  # one call each, beside the defaults
    "softmax": [{"strict": True}, {"scale": 3.0}],
    "sliding_window": [{"window": 1}, {"window": 3}, {"window": 100}],
    "alibi": [{"scale": 0.25}],
    "fox": [{"scale": 0.25}],
    "kernel_attention": [{"kernel": kernel, **more} for kernel, more in [
        ("linear", {}), ("relu", {}), ("relu2", {}), ("exp", {}), ("exp", {"row_norm": "sum", "scale": 0.5}),
        ("cosine_exp", {"tau": 2.5}), ("cosine_exp", {"row_norm": "sum"}), ("taylor", {}), ("taylor", {"order": 4}),
        ("taylor", {"row_norm": "sum"}), ("power", {}), ("power", {"order": 3}),
        ("power", {"order": 2, "row_norm": "sum"})]],
    "linear_attention": [{"denominator": True, "feature_map": "elu1"},
                         {"denominator": True, "feature_map": "elu1", "eps": 0.25, "scale": 2.0},
                         {"denominator": True},
                         {"feature_map": "silu"}, {"feature_map": "exp"}, {"feature_map": "dpfp", "nu": 2},
                         {"feature_map": "hedgehog"}, {"feature_map": "taylor"}, {"feature_map": "power", "degree": 3}],
    "peng_gate": [{"denominator": True, "feature_map": "elu1"},
                  {"denominator": True, "feature_map": "elu1", "eps": 0.25}, {"denominator": True}],
    "gated_delta": [{"predict": "undecayed"}],
    "delta": [{"feature_map": "silu", "key_norm": "l2"}, {"feature_map": "exp", "key_norm": "sum"}],
    "precond_gated_delta": [{"squash": 1.0}, {"squash": 2.0}],
    "fast_weights": [{"inner_steps": 0}, {"inner_steps": 3, "decay": 0.7, "rate": 1.0}],
    "deltaformer": [
        {"kappa1": "linear", "kappa2": "linear", "row_norm1": "none", "row_norm2": "none", "beta_on_write": True,
         "key_norm": "l2"},
        {"solve_with": "query"}, {"beta_on_write": True}, {"kappa1": "cosine_exp", "kappa2": "exp", "tau": 2.0},
        {"kappa1": "taylor", "kappa2": "power", "order": 2}, {"scale": 0.5}],
    "fwm": [{"read_norm": "layernorm"}],
}
DEFAULTS = {"sliding_window": {"window": 4}}  # options without which there is no call


def hard_cases(memory):
    """Identical keys, reflections, gates between open and shut, zero keys."""
    letters = reference.SPECS[memory]["inputs"]
    cases = []
    if "T" in letters.get("log_decay", ""):
        x = draw(memory, 10, T=12)
        resets = x["log_decay"].reshape(2, 12, -1)
        resets[:, 3], resets[:, 5:7], resets[:, 8], resets[0, 10, 0] = 0, -20, -60, -20
        cases.append(Case("gates 0, -20 and -60", x, budget="gates"))
    if memory in UNIT_KEYS | {"longhorn"} and "beta" in letters:
        x = draw(memory, 11, T=12)
        x["beta"][:] = 2
        cases.append(Case("beta 2", x, budget="fp64 only" if memory == "fwm" else "beta 2"))
        x = draw(memory, 12, T=12)
        x["k"][:] = x["k"][:, :1]
        x["beta"][:] = 2
        cases.append(Case("beta 2, identical keys", x, budget="fp64 only"))
    if "k" in letters and memory != "rwkv4":
        x = draw(memory, 13, T=12)
        x["k"][:, [0, 4, 5]] = 0
        cases.append(Case("zero keys", x, DEFAULTS.get(memory), budget="fp64 only" if memory == "mlstm" else "plain"))
    if memory in ("softmax", "sliding_window", "alibi", "fox", "deltaformer"):
        x = draw(memory, 14, T=12)
        x["q"] *= 400
        cases.append(Case("logits of a thousand", x, DEFAULTS.get(memory), budget="fp64 only"))
    return cases


def cases_of(memory):
    base = DEFAULTS.get(memory, {})
    cases = [
        Case("small", draw(memory, 1), base),
        Case("one of everything", draw(memory, 2, B=1, T=1, N=1, H=1, K=1, V=1), base),
        Case("scale", draw(memory, 8), {**base, "scale": 0.5} if memory != "rwkv4" else base),
        Case("no optional inputs, 70 tokens", draw(memory, 3, T=70, K=5, V=6, optional=False), base,
             every_element=False),
        Case("140 tokens, wide values", draw(memory, 4, B=1, T=140, H=1, K=3, V=17), base, every_element=False),
        Case("wide keys", draw(memory, 5, B=1, T=35, H=3, K=18, V=2), base, every_element=False),
    ]
    if {"s0", "y0"} & set(draw(memory, 9, start=True)):
        cases += [
            Case("a state to start from", draw(memory, 9, start=True), base),
            Case("a state to start from, 70 tokens", draw(memory, 9, T=70, start=True), base, every_element=False),
        ]
    if memory in ("linear_attention", "peng_gate"):
        divided = {"denominator": True, "feature_map": "elu1"}
        cases += [
            Case("a state and a sum to start from", draw(memory, 15, start=True, divided=True), divided),
            Case("a state and a sum to start from, 70 tokens", draw(memory, 15, T=70, start=True, divided=True), divided,
                 every_element=False),
        ]
    if memory != "rwkv4":
        cases += [
            Case("scale, elu1 and sum", draw(memory, 6),
                 {**base, "scale": 0.5, "feature_map": "elu1", "key_norm": "sum"}),
            Case("tanh and l2", draw(memory, 7), {**base, "feature_map": "tanh", "key_norm": "l2"}),
        ]
    for n, options in enumerate(OPTIONS.get(memory, [])):
        x, long = draw(memory, 20 + n), draw(memory, 40 + n, B=1, T=70, H=1)
        mapped = "feature_map" in options
        if options.get("row_norm") == "sum" or (options.get("denominator") and not mapped):  # sums that pass 0 magnify rounding errors
            x, long = positive(x), positive(long)
        budget = "kinks" if options.get("kernel", "").startswith("relu") else "plain"
        cases.append(Case(f"{options}", x, {**base, **options}, budget))
        cases.append(Case(f"{options}, 70 tokens", long, {**base, **options}, budget, every_element=False))
    if memory == "mlstm":
        cases.append(Case("n.q of both signs", draw(memory, 60, T=12, signed=True), budget="fp64 only"))
    if memory == "kernel_attention":
        for digits in (0, 1):
            x = draw(memory, 60 + digits)
            x["k"] *= 2
            cases.append(Case(f"round, {digits} digits", x, {"kernel": "round", "digits": digits}, budget="fp64 only"))
    if memory == "fast_weights":  # relu behind LayerNorm, in every one
        for case in cases:
            case.budget = "fp64 only"
    if memory == "alibi":  # a slope's gradient adds up all pairs of tokens, of both signs
        for case in cases:
            case.budget = "gates"
    return cases + hard_cases(memory)


# --- the program ---

def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


def json_of(*arguments):
    done = call(*arguments, "--json")
    if done.returncode != 0:
        raise RuntimeError(f"crosstalk {' '.join(arguments)} --json: {done.stderr}")
    return json.loads(done.stdout)


def write(folder, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def read(folder):
    return {path.stem: np.load(path).astype(np.float64) for path in sorted(folder.glob("*.npy"))}


def apply(memory, given, out, options=None, **flags):
    arguments = ["apply", memory, "--in", given, "--out", out]
    for name, value in flags.items():
        arguments += [f"--{name}", value]
    for name, value in (options or {}).items():
        arguments += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return call(*arguments)


def error(got, want, floor):
    """Relative to the largest element, or to `floor` where everything that is wanted is small (an exact 0)."""
    if got.shape != want.shape:
        return f"has shape {list(got.shape)}, not {list(want.shape)}"
    if not np.all(np.isfinite(got)):
        return "is not finite"
    return float(np.max(np.abs(got - want), initial=0) / max(np.max(np.abs(want), initial=0), floor))


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)


class Apply(Folder):
    """One test a memory (made below)."""

    @classmethod
    def setUpClass(cls):
        cls.listed = {memory["name"] for memory in json_of("list", "memories")}

    def check(self, what, got, want, limit, floor):
        off = error(got, want, floor)
        if isinstance(off, str):
            self.fail(f"{what} {off}")
        self.assertLessEqual(off, limit, f"{what} is off by {off:.2g} of its largest element (allowed {limit:g})")

    def memory(self, name):
        if name not in self.listed:
            self.skipTest(f"this program has no memory {name}")
        described = json_of("describe", name)
        spec = reference.SPECS[name]
        inputs = {i["name"]: bool(i.get("optional", False)) for i in described["inputs"]}
        self.assertEqual({i: i in spec["optional"] for i in spec["inputs"]}, inputs, "inputs and which are optional")
        forms = [form if isinstance(form, str) else form["name"] for form in described["forms"]]
        self.assertTrue(forms, "`describe` lists no form")
        for number, case in enumerate(cases_of(name)):
            self.case(name, case, forms, self.folder / str(number))

    def case(self, memory, case, forms, folder):
        random = np.random.default_rng(number_of(case.label))
        o, states = reference.forward(memory, case.inputs, case.options)
        d_o = random.normal(size=o.shape).astype(np.float32).astype(np.float64)
        write(folder / "in", {**case.inputs, "d_o": d_o})
        if case.every_element:
            wanted = reference.gradients(memory, case.inputs, case.options, d_o)
        else:  # one direction an input
            towards = {name: random.normal(size=array.shape) for name, array in case.inputs.items()}
            wanted = {name: reference.directional(memory, case.inputs, case.options, d_o, {name: towards[name]})
                      for name in case.inputs}
        covered = set()
        for form in forms:
            for precision, limit in {"fp64": FP64, **BUDGETS[case.budget]}.items():
                with self.subTest(case=case.label, form=form, precision=precision):
                    out = folder / f"{form}_{precision}"
                    done = apply(memory, folder / "in", out, case.options, form=form, precision=precision)
                    if done.returncode == 2 and (re.search(r"\bform\b", done.stderr)
                                                 or (precision == "bf16" and "bf16" in done.stderr)):
                        self.skipTest(done.stderr.strip())  # a form need not cover every option
                    covered.add(precision)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    got = read(out)
                    self.assertEqual(set(got), {"o"} | {f"state_{s}" for s in states} | {f"d_{i}" for i in case.inputs})
                    exact = precision == "fp64"
                    floor = 1e-3 if exact else 0.1
                    self.check("o", got["o"], o, limit, floor)
                    for name, state in states.items() if case.states_known else ():
                        self.check(f"state_{name}", got[f"state_{name}"], state, limit, floor)
                    for name, want in wanted.items():
                        gradient = got[f"d_{name}"]
                        if not case.every_element:
                            self.assertEqual(gradient.shape, case.inputs[name].shape, f"d_{name}")
                            # Errors of elements add up like a random walk against the direction's random numbers.
                            length = np.sqrt(np.sum(gradient * gradient))
                            want, floor = np.array([want]), max(floor, length)
                            gradient = np.array([np.sum(gradient * towards[name])])
                        self.check(f"d_{name}", gradient, want, FP64_GRADIENT if exact else limit, floor)
        self.assertTrue({"fp64", "fp32"} & {"fp64", *BUDGETS[case.budget]} <= covered, f"no form does: {case.label}")


def number_of(text):
    return zlib.crc32(text.encode())


for memory_name in reference.SPECS:
    setattr(Apply, f"test_{memory_name}", lambda self, name=memory_name: self.memory(name))


class Files(Folder):
    """What is read and written, and what is refused. With the delta rule, unless said otherwise."""

    def setUp(self):
        super().setUp()
        self.given, self.out = self.folder / "in", self.folder / "out"
        self.x = draw("delta", 100, B=2, T=7, H=3, K=5, V=4, optional=False)
        write(self.given, self.x)

    def refused(self, *words, memory="delta", options=None, **flags):
        """Exit code 2, every word (or pattern) in what it says, and nothing written."""
        done = apply(memory, self.given, self.out, options, **flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertRegex(done.stderr, word)
        self.assertEqual(list(self.out.glob("*")) if self.out.exists() else [], [])

    def test_layer_is_refused(self):
        self.refused("holds the bare recurrence", options={"model.layer": "published"})

    @staticmethod
    def shape(*sizes):
        return r"(?<!\d)" + r"\D{1,3}".join(map(str, sizes)) + r"(?!\d)"

    def test_missing_file(self):
        for name in self.x:
            with self.subTest(file=name):
                (self.given / f"{name}.npy").unlink()
                self.refused(rf"\b{name}\.npy")
                write(self.given, self.x)

    def test_missing_folder(self):
        self.given = self.folder / "nowhere"
        self.refused("nowhere")

    def test_wrong_shapes(self):
        wrong = {"k": ((2, 7, 3, 6), (2, 7, 3, 5)), "v": ((2, 8, 3, 4), (2, 7, 3, 4)), "beta": ((2, 7), (2, 7, 3)),
                 "s0": ((2, 3, 5, 4), (2, 3, 4, 5)), "d_o": ((2, 7, 3, 5), (2, 7, 3, 4))}
        for name, (found, _) in wrong.items():
            with self.subTest(file=name):
                write(self.given, {**self.x, name: np.zeros(found)})
                self.refused(rf"\b{name}\.npy", self.shape(*found))
                (self.given / f"{name}.npy").unlink()

    def test_the_expected_shape_is_told(self):
        write(self.given, {"beta": np.zeros((2, 7, 4))})
        self.refused(r"\bbeta\.npy", self.shape(2, 7, 4), self.shape(2, 7, 3))

    def test_numbers_that_are_none(self):
        for value in (np.nan, np.inf, -np.inf):
            for name in ("v", "beta"):
                with self.subTest(file=name, value=value):
                    broken = self.x[name].copy()
                    broken[1, 3, 2] = value
                    write(self.given, {**self.x, name: broken})
                    self.refused(rf"\b{name}\.npy")
                    write(self.given, self.x)

    def test_other_types(self):
        for kind in (np.int64, np.complex128, np.float16, ">f8"):
            with self.subTest(type=str(kind)):
                write(self.given, {"q": np.ones(self.x["q"].shape).astype(kind)})
                self.refused(r"\bq\.npy")

    def test_a_decay_that_grows(self):
        for memory, name, good, bad in (("gated_delta", "log_decay", -0.5, 0.25),
                                        ("complex_kda", "signed_decay", -1.0, -1.25)):
            with self.subTest(memory=memory):
                shape = (2, 7, 3, 5) if memory == "complex_kda" else (2, 7, 3)
                decay = np.full(shape, good)
                decay.flat[4] = bad
                write(self.given, {name: decay})
                self.refused(rf"\b{name}\.npy holds {bad} at element 4", memory=memory)
                (self.given / f"{name}.npy").unlink()

    def test_files_that_nobody_reads_are_told(self):
        write(self.given, {"log_decay": np.zeros((2, 7, 3))})
        done = apply("delta", self.given, self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"delta does not read log_decay\.npy in .*its inputs are d_o, q, k, v, beta and s0")

    def test_what_is_replaced_and_what_is_old_is_told(self):
        write(self.given, {"d_o": np.ones(self.x["v"].shape)})
        self.assertEqual(apply("delta", self.given, self.out).stderr, "")
        (self.given / "d_o.npy").unlink()
        done = apply("delta", self.given, self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("replaced o.npy and state_S.npy", done.stderr)
        self.assertRegex(done.stderr, r"also holds d_beta\.npy, d_k\.npy, .*which this call did not write")

    def test_a_file_that_is_cut_or_no_array(self):
        whole = (self.given / "v.npy").read_bytes()
        for content in (whole[:-8], whole[:20], b"", b"not an array"):
            with self.subTest(bytes=len(content)):
                (self.given / "v.npy").write_bytes(content)
                self.refused(r"\bv\.npy")

    def test_a_float32_file_that_is_cut(self):
        write(self.given, {name: array.astype(np.float32) for name, array in self.x.items()})
        whole = (self.given / "v.npy").read_bytes()
        for content in (whole[:-1], whole[:-8], whole[:100]):
            with self.subTest(bytes=len(content)):
                (self.given / "v.npy").write_bytes(content)
                self.refused(r"\bv\.npy")

    def test_a_link_that_leads_nowhere(self):
        for name in ("s0", "d_o", "q"):
            path = self.given / f"{name}.npy"
            path.unlink(missing_ok=True)
            path.symlink_to("nowhere.npy")
            self.refused(rf"\b{name}\.npy is a symbolic link that leads nowhere")
            path.unlink()
            if name == "q":
                write(self.given, {"q": self.x["q"]})

    def test_results_that_overflow_are_told(self):
        write(self.given, {"k": self.x["k"] * 1e160, "v": self.x["v"] * 1e160})
        done = apply("delta", self.given, self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"NaN or infinity in o\.npy and state_S\.npy, from inputs that are finite")
        write(self.given, self.x)
        self.assertNotIn("NaN", apply("delta", self.given, self.out).stderr)

    def test_a_full_disk(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        done = subprocess.run([PROGRAM, "apply", "delta", "--in", self.given, "--out", self.out], capture_output=True,
                              text=True, preexec_fn=small_files, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"o\.npy: cannot be written: File too large")
        self.assertEqual(list(self.out.glob("*")), [])

    def test_no_tokens(self):
        write(self.given, {name: array[:, :0] for name, array in self.x.items()})
        self.refused(r"\.npy")

    def test_wrong_usage(self):
        self.refused("deltta|delta", memory="deltta")
        self.refused("nonsense", options={"nonsense": 1})
        self.refused("scale", options={"scale": "much"})
        self.refused("sideways", form="sideways")
        self.refused("fp8", precision="fp8")

    def test_column_order_is_read_right_or_refused(self):
        first = self.folder / "first"
        self.assertEqual(apply("delta", self.given, first).returncode, 0)
        write(self.given, {"k": np.asfortranarray(self.x["k"])})
        done = apply("delta", self.given, self.out)
        if done.returncode == 0:
            np.testing.assert_array_equal(np.load(self.out / "o.npy"), np.load(first / "o.npy"))
        else:
            self.assertEqual(done.returncode, 2)
            self.assertIn("k.npy", done.stderr)

    def test_float32_files_are_the_same_numbers(self):
        first = self.folder / "first"
        self.assertEqual(apply("delta", self.given, first, precision="fp64").returncode, 0)
        write(self.given, {name: array.astype(np.float32) for name, array in self.x.items()})
        self.assertEqual(apply("delta", self.given, self.out, precision="fp64").returncode, 0)
        np.testing.assert_array_equal(np.load(self.out / "o.npy"), np.load(first / "o.npy"))

    def test_without_d_o_there_are_no_gradients(self):
        done = apply("delta", self.given, self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.name for path in self.out.iterdir()}, {"o.npy", "state_S.npy"})

    def test_repeated_calls_write_the_same_bytes(self):
        write(self.given, {"d_o": np.ones(self.x["v"].shape)})
        folders = [self.folder / "first", self.folder / "second"]
        for folder in folders:
            self.assertEqual(apply("delta", self.given, folder, precision="fp32").returncode, 0)
        for path in folders[0].iterdir():
            self.assertEqual(path.read_bytes(), (folders[1] / path.name).read_bytes(), path.name)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not re.match(r"(Apply|Files)\b", sys.argv[1]):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
