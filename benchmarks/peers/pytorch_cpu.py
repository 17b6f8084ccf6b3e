#!/usr/bin/env python3
"""Training steps a second of the models of Schlag, Irie and Schmidhuber 2021 in PyTorch, on the CPU.

Two programs of the same step (draw a batch, forward, backward, Adam):

  original  the structure of the released code: numpy draws one sequence after the other, values are one-hot vectors,
            tokens are concatenations, the memory's S x p state is formed, the delta rule is a loop over tokens,
            torch.optim.Adam with its defaults
  expert    what somebody who knows PyTorch well would write: batches drawn by torch, keys and values looked up in
            tables, no state, the delta rule as a transposed solve cut into chunks, fused Adam, torch.compile where it
            works and helps; chunk length and compilation are chosen by timing them first

`--check` verifies that both compute the same loss and the same gradients from the same parameters and batch.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import ctypes
import json
import logging
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
import warnings
from dataclasses import dataclass

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the CPU is what is measured

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

B, D = 32, 64  # batch, key dimension
LEARNING_RATE = 1e-3
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    name: str
    memory: str  # linear | delta | softmax
    keys: int
    replace: bool  # keys and values drawn with replacement: setting 2

    @property
    def length(self):
        return 2 * self.keys if self.replace else self.keys

    @property
    def embedding(self):
        return int(1.1 * 2 * self.keys)

    @property
    def features(self):
        return 2 * D if self.memory == "delta" else D

    @property
    def flop_per_step(self):
        """As in benchmarks/README.md: what a step must compute, whoever computes it."""
        s, e = self.keys, self.embedding
        per_feature = 14 if self.memory == "delta" else 6
        return 6 * s * e * D + 6 * B * e * D + per_feature * self.features * B * self.length


CASES = [
    Case("linear S=100", "linear", 100, False),
    Case("DPFP-1 delta S=100 (L=200)", "delta", 100, True),
    Case("softmax S=100", "softmax", 100, False),
]


def dpfp1(x):
    y = torch.cat([F.relu(x), F.relu(-x)], -1)
    return y * y.roll(1, -1)


def features(case, x):
    if case.memory == "linear":
        return F.elu(x) + 1
    return dpfp1(x) if case.memory == "delta" else x


# ---------------------------------------------------------------------------------------------- original


class OriginalModel(nn.Module):
    """The retrieval model with everything formed: one-hot values, tokens, the state."""

    def __init__(self, case):
        super().__init__()
        s, e = case.keys, case.embedding
        self.case = case
        self.value_vectors = nn.Embedding(s, s)  # one-hot, frozen
        self.value_vectors.weight = nn.Parameter(torch.eye(s), requires_grad=False)
        self.key_vectors = nn.Embedding(2 * s, e)  # of the whole vocabulary, as released
        self.to_key = nn.Linear(e + s, D)
        self.to_value = nn.Linear(e + s, D)  # never used, as released
        self.to_query = nn.Linear(e, D)
        nn.init.normal_(self.key_vectors.weight)
        if case.memory == "softmax":
            nn.init.xavier_uniform_(self.to_key.weight)
            nn.init.xavier_uniform_(self.to_query.weight)
        else:
            bound = 1 / math.sqrt(D)
            nn.init.uniform_(self.to_key.weight, -bound, bound)
            nn.init.uniform_(self.to_query.weight, -bound, bound)
            self.to_forget_key = nn.Linear(e + s, D)  # computed and not used, as released
            self.to_beta = nn.Linear(e + s, 1)

    def forward(self, pairs, query):
        """pairs [B,2,L] keys and values (values numbered from S on), query [B,1] -> [B,S]."""
        keys, values = pairs[:, 0], pairs[:, 1] - self.case.keys
        with torch.no_grad():
            v = self.value_vectors(values)
        token = torch.cat([v, self.key_vectors(keys)], -1)
        k = self.to_key(token)
        q = self.to_query(self.key_vectors(query))
        if self.case.memory == "softmax":
            weights = torch.softmax(torch.einsum("bld,bqd->blq", k, q) / math.sqrt(D), 1)
            return torch.einsum("blq,blv->bqv", weights, v).squeeze(1)
        beta = self.to_beta(token)
        self.to_forget_key(token)
        k, q = features(self.case, k), features(self.case, q)
        if self.case.memory == "linear":
            state = torch.einsum("blv,blp->bvp", v, k)
            norm = torch.einsum("bp,bqp->bq", k.sum(1), q).unsqueeze(-1) + EPS
            return (torch.einsum("bvp,bqp->bqv", state, q) / norm).squeeze(1)
        beta = torch.sigmoid(beta)
        state = torch.zeros(k.shape[0], self.case.keys, k.shape[-1], dtype=k.dtype)
        for t in range(k.shape[1]):
            key = k[:, t] / k[:, t].sum(-1, keepdim=True)
            old = torch.einsum("bvp,bp->bv", state, key)
            state = state - torch.einsum("bv,bp->bvp", old, key)
            new = beta[:, t] * v[:, t] + (1 - beta[:, t]) * old
            state = state + torch.einsum("bv,bp->bvp", new, key)
        q = q / (q.sum(-1, keepdim=True) + EPS)
        return torch.einsum("bvp,bqp->bqv", state, q).squeeze(1)


def original_batch(case):
    """One sequence after the other, as released. Values are numbered from S on."""
    key_ids, value_ids = list(range(case.keys)), list(range(case.keys, 2 * case.keys))
    pairs, queries, answers = [], [], []
    for _ in range(B):
        keys = np.random.choice(key_ids, size=(case.length,), replace=case.replace)
        values = np.random.choice(value_ids, size=(case.length,), replace=case.replace)
        position = np.where(keys == np.random.choice(keys))[0][-1]
        pairs.append(np.stack([keys, values]))
        queries.append([keys[position]])
        answers.append([values[position]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch: a list of arrays is slow to convert
        return torch.tensor(pairs), torch.tensor(queries), torch.tensor(answers)


def original_loss(model, pairs, query, answer):
    output = model(pairs, query)
    with torch.no_grad():
        target = model.value_vectors(answer - model.case.keys).squeeze(1)
    return (0.5 * (target - output).pow(2)).sum(-1).mean()


def original_step(case):
    model = OriginalModel(case)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def step():
        loss = original_loss(model, *original_batch(case))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()  # the released loop looks at every loss

    return step, {"adam": "default"}


# ------------------------------------------------------------------------------------------------ expert


def expert_parameters(case):
    s, e = case.keys, case.embedding

    def uniform(bound, *shape):
        return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))

    def projection(inputs):
        return math.sqrt(6 / (inputs + D)) if case.memory == "softmax" else 1 / math.sqrt(D)

    parameters = {
        "embedding": nn.Parameter(torch.randn(s, e)),
        "key": uniform(projection(s + e), D, e),
        "key_value": uniform(projection(s + e), s, D),  # the one-hot half of W_k: a row a value
        "key_bias": uniform(1 / math.sqrt(s + e), D),
        "query": uniform(projection(e), D, e),
        "query_bias": uniform(1 / math.sqrt(e), D),
    }
    if case.memory == "delta":
        bound = 1 / math.sqrt(s + e)
        parameters |= {
            "beta": uniform(bound, e),
            "beta_value": uniform(bound, s, 1),
            "beta_bias": uniform(bound, 1),
        }
    return parameters


def delta_weights(k, q, beta, chunk):
    """Weights a_t with which the delta rule's state answers q: out = sum_t a_t v_t. k [B,L,p], q [B,p], beta [B,L].

    c_t = k_t.r_t, a_t = beta_t c_t, r_{t-1} = r_t - a_t k_t from r_L = q: within a chunk that is the unit upper
    triangular system (I + triu(K K^T, 1) Diag(beta)) c = K r.
    """
    batch, length, p = k.shape
    k, beta = k.view(batch, -1, chunk, p), beta.view(batch, -1, chunk)
    matrix = (k @ k.mT).triu(1) * beta.unsqueeze(-2)
    r = q.unsqueeze(-1)
    weights = []
    # unbind: the gradient of indexing chunk by chunk would fill a tensor of k's size for each chunk
    for keys, rate, system in reversed(list(zip(k.unbind(1), beta.unbind(1), matrix.unbind(1)))):
        c = torch.linalg.solve_triangular(system, keys @ r, upper=True, unitriangular=True)
        a = rate.unsqueeze(-1) * c
        r = r - keys.mT @ a
        weights.append(a.squeeze(-1))
    return torch.cat(weights[::-1], -1)


def expert_loss(case, w, keys, values, query, answer, chunk):
    """keys [B,L], or None where every sequence holds keys 0 .. S-1 in this order; values [B,L], query, answer [B]."""
    table = w["embedding"] @ w["key"].T + w["key_bias"]  # key half of W_k x + b, a row a key
    looked_up = table if keys is None else F.embedding(keys, table)
    k = features(case, looked_up + F.embedding(values, w["key_value"]))
    q = features(case, F.embedding(query, w["embedding"]) @ w["query"].T + w["query_bias"])
    if case.memory == "delta":
        beta_table = (w["embedding"] @ w["beta"] + w["beta_bias"]).unsqueeze(-1)
        beta = F.embedding(keys, beta_table) + F.embedding(values, w["beta_value"])
        k = k / k.sum(-1, keepdim=True)
        q = q / (q.sum(-1, keepdim=True) + EPS)
        weights = delta_weights(k, q, torch.sigmoid(beta.squeeze(-1)), chunk)
    else:
        weights = (k @ q.unsqueeze(-1)).squeeze(-1)
        if case.memory == "softmax":
            weights = torch.softmax(weights / math.sqrt(D), -1)
        else:
            weights = weights / (weights.sum(-1, keepdim=True) + EPS)
    output = torch.zeros(weights.shape[0], case.keys, dtype=weights.dtype).scatter_add(1, values, weights)
    # 0.5 |y - onehot|^2 without the one-hot vector
    right = output.gather(1, answer.unsqueeze(1)).squeeze(1)
    return (0.5 * (output.square().sum(-1) + 1) - right).mean()


def expert_batch(case):
    """Keys and values [B,L], query and answer [B]. Without replacement the order of tokens does not matter to these
    memories, so keys stand in order (None) and the values are permuted."""
    if not case.replace:
        values = torch.rand(B, case.keys).argsort(-1)
        query = torch.randint(case.keys, (B,))
        return None, values, query, values.gather(1, query.unsqueeze(1)).squeeze(1)
    keys, values = torch.randint(case.keys, (2, B, case.length)).unbind()
    asked = keys.gather(1, torch.randint(case.length, (B, 1)))
    last = ((keys == asked) * torch.arange(1, case.length + 1)).argmax(-1, keepdim=True)
    return keys, values, asked.squeeze(1), values.gather(1, last).squeeze(1)


def keep_memory():
    """Lets the C library keep freed memory, as PyTorch's tuning guide advises: else tensors of megabytes are mapped
    and cleared anew in every step."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass  # not glibc


def expert_step(case, chunk, compiled):
    keep_memory()
    parameters = expert_parameters(case)
    optimizer = torch.optim.Adam(parameters.values(), lr=LEARNING_RATE, fused=True)
    loss_of = expert_loss
    if compiled:
        torch.compiler.reset()  # else other cases and chunk lengths count as recompilations, which are limited
        loss_of = torch.compile(expert_loss, dynamic=False, fullgraph=True)

    def step():
        loss = loss_of(case, parameters, *expert_batch(case), chunk)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, {"adam": "fused", "compiled": compiled, "chunk": chunk if case.memory == "delta" else None}


def best_expert(case, compile_mode):
    """The fastest of the expert's choices (chunk length, compiled or not) on this machine, by timing each for a
    moment; and what is to be told about it."""
    chunks = [c for c in (8, 10, 20, 25, 40, 50, 100, 200) if case.length % c == 0] if case.memory == "delta" else [0]
    tried = {}

    def rate(chunk, compiled):
        step, _ = expert_step(case, chunk, compiled)
        for _ in range(3):
            step()
        tried[chunk, compiled] = max(measured_rate(step, 0.15) for _ in range(3))

    notes = []
    if compile_mode != "on":
        for chunk in chunks:
            rate(chunk, False)
    if compile_mode != "off":
        by_eager = sorted(chunks, key=lambda c: -tried.get((c, False), 0))
        for chunk in by_eager[:3]:  # compiling takes long: only the best few
            try:
                rate(chunk, True)
            except Exception as error:  # no compiler, or an operation that it refuses
                notes.append(f"torch.compile failed: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
                if compile_mode == "on":
                    raise
                break
    best = max(tried, key=tried.get)
    return best, {"tried": {f"chunk={c} compiled={k}": round(v, 1) for (c, k), v in tried.items()}, "notes": notes}


# ----------------------------------------------------------------------------------------------- timing


def measured_rate(step, seconds):
    """Steps a second over about so many seconds, at least two steps."""
    count, start = 0, time.perf_counter()
    while count < 2 or time.perf_counter() - start < seconds:
        step()
        count += 1
    return count / (time.perf_counter() - start)


def make_step(case, variant, choice):
    torch.manual_seed(1)
    np.random.seed(1)
    return original_step(case) if variant == "original" else expert_step(case, *choice)


def worker(case, variant, choice, args, barrier, queue):
    """One process of several: all start each repeat together."""
    torch.set_num_threads(1)
    step, _ = make_step(case, variant, choice)
    for _ in range(3):
        step()
    for _ in range(args.repeats):
        barrier.wait()
        queue.put(measured_rate(step, args.seconds))


def side_by_side(case, variant, choice, args):
    """Rates of `args.models` processes of one thread each, added up."""
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(args.models), context.Queue()
    processes = [
        context.Process(target=worker, args=(case, variant, choice, args, barrier, queue)) for _ in range(args.models)
    ]
    for process in processes:
        process.start()
    rates = []
    for _ in range(args.repeats):
        rates.append(sum(queue.get(timeout=600) for _ in range(args.models)))
    for process in processes:
        process.join()
    return rates


def remembered_choice(case, args):
    """best_expert(), from the file of an earlier call where there is one."""
    key = f"{case.name}, {torch.get_num_threads()} threads, compile {args.compile}"
    known = {}
    if args.choices and os.path.exists(args.choices):
        with open(args.choices) as file:
            known = json.load(file)
    if key not in known:
        known[key] = best_expert(case, args.compile)
        if args.choices:
            with open(args.choices, "w") as file:
                json.dump(known, file, indent=2)
    return known[key]


def measure(case, variant, args):
    choice, choices = None, {}
    threads = sorted({1, args.threads}) if args.models == 1 else [1]
    best = None
    for count in threads:  # small operations are often faster on one thread: take the better
        torch.set_num_threads(count)
        if variant == "expert":
            choice, choices = remembered_choice(case, args)
        if args.models > 1:
            rates = side_by_side(case, variant, choice, args)
            _, notes = make_step(case, variant, choice)
        else:
            step, notes = make_step(case, variant, choice)
            for _ in range(3):
                step()
            rates = [measured_rate(step, args.seconds) for _ in range(args.repeats)]
        result = {
            "model": case.name,
            "variant": f"pytorch {variant}",
            "threads": count,
            "models": args.models,
            "steps_per_s": statistics.median(rates),
            "repeats": rates,
            "flop_per_step": case.flop_per_step,
            **notes,
            **choices,
        }
        result["gflop_per_s"] = result["steps_per_s"] * case.flop_per_step * 1e-9
        if best is None or result["steps_per_s"] > best["steps_per_s"]:
            best = result
    return best


# ----------------------------------------------------------------------------------------------- checks


def copy_to_expert(case, model, of=lambda parameter: parameter.data):
    """Parameters (or gradients) of the original model in the expert's layout."""
    s = case.keys
    w = {
        "embedding": of(model.key_vectors.weight)[:s],
        "key": of(model.to_key.weight)[:, s:],
        "key_value": of(model.to_key.weight)[:, :s].T,
        "key_bias": of(model.to_key.bias),
        "query": of(model.to_query.weight),
        "query_bias": of(model.to_query.bias),
    }
    if case.memory == "delta":
        w["beta"] = of(model.to_beta.weight)[0, s:]
        w["beta_value"] = of(model.to_beta.weight)[:, :s].T
        w["beta_bias"] = of(model.to_beta.bias)
    return w


def check_case(case, chunk):
    torch.manual_seed(2)
    np.random.seed(2)
    model = OriginalModel(case).double()
    pairs, query, answer = original_batch(case)
    loss = original_loss(model, pairs, query, answer)
    loss.backward()
    w = {name: nn.Parameter(p.clone()) for name, p in copy_to_expert(case, model).items()}
    keys, values = pairs[:, 0], pairs[:, 1] - case.keys
    forms = {"keys looked up": (keys, values)}
    if not case.replace:
        forms["keys in order"] = (None, values.gather(1, keys.argsort(-1)))
    for form, (k, v) in forms.items():
        for p in w.values():
            p.grad = None
        expert = expert_loss(case, w, k, v, query[:, 0], answer[:, 0] - case.keys, chunk)
        expert.backward()
        gradients = copy_to_expert(case, model, lambda parameter: parameter.grad)
        scale = max(gradient.abs().max().item() for gradient in gradients.values())
        errors = [abs(expert.item() - loss.item()) / loss.item()]
        errors += [(w[name].grad - gradient).abs().max().item() / scale for name, gradient in gradients.items()]
        error = max(errors) if all(map(math.isfinite, errors)) else math.nan
        label = f"{case.name}, {form}" + (f", chunks of {chunk}" if case.memory == "delta" else "")
        passed = error <= 1e-9
        print(f"{'ok    ' if passed else 'FAILED'} {label}: loss {loss.item():.6f}, largest relative difference {error:.1e}")
        yield passed


def check_batches(case):
    """Both generators draw the same task: the answer is the last value of the key asked."""
    pairs, query, answer = original_batch(case)
    keys, values, asked, right = expert_batch(case)
    both = [(pairs[:, 0], pairs[:, 1] - case.keys, query[:, 0], answer[:, 0] - case.keys)]
    both.append((torch.arange(case.keys).expand(B, -1) if keys is None else keys, values, asked, right))
    passed = True
    for k, v, q, a in both:
        passed &= k.shape == v.shape == (B, case.length) and 0 <= int(v.min()) and int(v.max()) < case.keys
        for b in range(B):
            last = {int(key): int(value) for key, value in zip(k[b], v[b])}
            passed &= last[int(q[b])] == int(a[b])
            passed &= case.replace or (len(last) == case.keys and len(set(last.values())) == case.keys)
    print(f"{'ok    ' if passed else 'FAILED'} {case.name}: batches of both programs")
    return passed


def check_learning(case):
    """Both programs learn: a small model is well below its first loss after some steps."""
    passed = True
    for variant in ("original", "expert"):
        step, _ = make_step(case, variant, (case.length, False))
        losses = [float(step()) for _ in range(300)]
        first, last = statistics.mean(losses[:10]), statistics.mean(losses[-10:])
        passed &= last < 0.7 * first
        print(f"{'ok    ' if last < 0.7 * first else 'FAILED'} {case.name} {variant}: loss {first:.4f} -> {last:.4f}")
    return passed


def check():
    torch.set_num_threads(1)
    results = []
    for case in CASES:
        results.append(check_batches(case))
        for chunk in (1, 25, case.length) if case.memory == "delta" else (0,):
            results += check_case(case, chunk)
        small = Case(case.name.split()[0] + " S=8", case.memory, 8, case.replace)
        results.append(check_learning(small))
    return 0 if all(results) else 1


# ------------------------------------------------------------------------------------------------- main


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=["original", "expert", "both"], default="both")
    parser.add_argument("--model", default="", help="only models whose name contains this")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads to use at most")
    parser.add_argument("--models", type=int, default=1, help="models side by side, each a process of one thread")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of which the median counts")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a repeat, about")
    parser.add_argument("--compile", choices=["auto", "on", "off"], default="auto", help="torch.compile (expert)")
    parser.add_argument("--choices", metavar="FILE", help="keep the expert's choices in FILE, and take them from there")
    parser.add_argument("--check", action="store_true", help="verify that both programs compute the same")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # says that there is no CUDA
    if args.check:
        return check()
    cases = [case for case in CASES if args.model in case.name]
    if not cases:
        parser.error(f'no model\'s name contains "{args.model}"')
    if args.threads < 1 or args.models < 1 or args.repeats < 1:
        parser.error("--threads, --models and --repeats must be at least 1")
    versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
    out = {"program": "pytorch_cpu.py", "versions": versions, "cpu": cpu_name(), "threads": args.threads, "results": []}
    if not args.json:
        print(", ".join(f"{name} {version}" for name, version in versions.items()), "on", out["cpu"])
        print(f"{'model':<28}{'variant':<20}{'steps/s':>10}{'threads':>9}{'models':>8}  chosen")
    for case in cases:
        for variant in ["original", "expert"] if args.variant == "both" else [args.variant]:
            result = measure(case, variant, args)
            out["results"].append(result)
            if not args.json:
                chosen = ", ".join(f"{k}={result[k]}" for k in ("adam", "compiled", "chunk") if result.get(k) is not None)
                chosen = "; ".join([chosen, *result.get("notes", [])])
                print(f"{case.name:<28}{result['variant']:<20}{result['steps_per_s']:>10.1f}", end="")
                print(f"{result['threads']:>9}{result['models']:>8}  {chosen}", flush=True)
    if args.json:
        print(json.dumps(out, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
