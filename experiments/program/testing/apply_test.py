#!/usr/bin/env python3
"""Acceptance of `crosstalk apply`: the delta rule against plain loops in every form and precision; files, and refusals.

    apply_test.py CROSSTALK [UNITTEST ARGUMENTS]      or with $CROSSTALK; e.g. `-v Files.test_no_tokens`

Numbers of all memories: models/testing (golden_test.cpp, apply_check_test.cpp) and python/tests/test_memories.py.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

PROGRAM = os.environ.get("CROSSTALK", "crosstalk")


def draw(seed, B, T, H, K, V):
    """Inputs of the delta rule, with keys of length 1: numbers that fp32 holds, so that the arithmetic is measured."""
    random = np.random.default_rng(seed)
    x = {name: random.normal(size=(B, T, H, V if name == "v" else K)) for name in "qkv"}
    x["k"] /= np.sqrt(np.sum(x["k"] ** 2, axis=-1, keepdims=True))
    x["beta"] = random.uniform(0.05, 0.95, (B, T, H))
    return {name: a.astype(np.float32).astype(np.float64) for name, a in x.items()}


def delta(x):
    """S_t = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T, o_t = S_t q_t -> o [B,T,H,V], S [B,H,V,K]."""
    q, k, v, beta = (x[name] for name in ("q", "k", "v", "beta"))
    B, T, H, K = k.shape
    S = np.zeros((B, H, v.shape[-1], K), dtype=v.dtype)
    o = []
    for t in range(T):
        left = v[:, t] - np.einsum("bhvk,bhk->bhv", S, k[:, t])
        S = S + np.einsum("bhv,bhk->bhvk", beta[:, t, :, None] * left, k[:, t])
        o.append(np.einsum("bhvk,bhk->bhv", S, q[:, t]))
    return np.stack(o, axis=1), S


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


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


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)


class Numbers(Folder):
    def test_every_form_and_precision(self):
        for name, sizes in {"one of everything": (1, 1, 1, 1, 1), "two heads": (2, 7, 2, 4, 3), "chunks": (1, 140, 2, 18, 17)}.items():
            x = {**draw(1, *sizes), "d_o": np.random.default_rng(2).normal(size=(*sizes[:3], sizes[4]))}
            o, S = delta(x)
            wanted = {"o": o, "state_S": S}
            towards = {}  # a gradient is tested along one direction, by a complex step
            for i in ("q", "k", "v", "beta"):
                towards[i] = np.random.default_rng(3).normal(size=x[i].shape)
                changed = delta({**x, i: x[i] + 1e-30j * towards[i]})[0]
                wanted[f"d_{i}"] = np.sum(changed.imag * x["d_o"]) / 1e-30
            write(self.folder / name, x)
            for form in ("recurrent", "chunk", "parallel", "query"):
                for precision, limit in (("fp64", 1e-10), ("fp32", 1e-5), ("bf16", 5e-2)):
                    with self.subTest(case=name, form=form, precision=precision):
                        out = self.folder / f"{name} {form} {precision}"
                        done = apply("delta", self.folder / name, out, form=form, precision=precision)
                        if done.returncode == 2 and re.search(r"\bform\b|bf16", done.stderr):
                            self.skipTest(done.stderr.strip())  # a form need not cover every precision
                        self.assertEqual(done.returncode, 0, done.stderr)
                        got = read(out)
                        self.assertEqual(set(got), set(wanted))
                        for array, want in wanted.items():
                            size, found = np.max(np.abs(want)), got[array]
                            if array.startswith("d_"):
                                size = max(size, np.linalg.norm(found))
                                found = np.sum(found * towards[array[2:]])
                            self.assertLessEqual(np.max(np.abs(found - want)) / size, limit, array)


class Files(Folder):
    """What is read and written, and what is refused. With the delta rule, unless said otherwise."""

    def setUp(self):
        super().setUp()
        self.given, self.out = self.folder / "in", self.folder / "out"
        self.x = draw(100, B=2, T=7, H=3, K=5, V=4)
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
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not re.match(r"(Numbers|Files)\b", sys.argv[1]):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
