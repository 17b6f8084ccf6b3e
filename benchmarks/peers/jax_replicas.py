#!/usr/bin/env python3
"""Model-steps a second of R models trained side by side in JAX: the strongest program of a peer that we know.

One jitted call runs many steps: lax.scan over steps, vmap over replicas (each with its own parameters, optimizer
state and random numbers), batches drawn on the device, the demand-driven form of the model (keys and values looked
up, no state formed, the delta rule as a transposed solve cut into chunks), Adam from optax where it is installed.
How tables are looked up, which random generator draws and how long chunks are is chosen by timing each choice first
(--no-tune takes the first). Compilation is not counted, and every timing ends with block_until_ready.

    python jax_replicas.py --models linear100 delta100 --replicas 1 16 128
    python jax_replicas.py --check          the maths against a memory that forms its state, and that it learns

Without --precision highest, JAX may multiply fp32 matrices in TF32 on a GPU.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import functools
import json
import math
import platform
import statistics
import sys
import time
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

try:
    import optax
except ImportError:
    optax = None

D = 64  # key dimension
LEARNING_RATE = 1e-3
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    name: str
    memory: str  # linear | delta
    keys: int
    batch: int = 32

    @property
    def length(self):  # setting 1: every key once; setting 2: two draws a key, with replacement
        return 2 * self.keys if self.memory == "delta" else self.keys

    @property
    def embedding(self):
        return int(1.1 * 2 * self.keys)

    @property
    def flop_per_step(self):
        """As in benchmarks/README.md: what a step must compute, whoever computes it."""
        s, e, tokens = self.keys, self.embedding, self.batch * self.length
        reading = 14 * 2 * D * tokens if self.memory == "delta" else 6 * D * tokens
        return 6 * s * e * D + 6 * self.batch * e * D + reading


CASES = {
    "linear100": Case("linear S=100", "linear", 100),
    "linear600": Case("linear S=600", "linear", 600),
    "delta100": Case("DPFP-1 delta S=100 (L=200)", "delta", 100),
}


@dataclass(frozen=True)
class Choice:
    """What may be computed in several ways."""

    lookup: str = "gather"  # rows of tables: gather (gradient: scatter-add) or onehot (products)
    rng: str = "rbg"
    chunk: int = 0  # delta rule: tokens solved at once; 1: a scan over tokens

    def text(self):
        return f"lookup={self.lookup} rng={self.rng}" + (f" chunk={self.chunk}" if self.chunk else "")


# -------------------------------------------------------------------------------------------------- model


def initial_parameters(case, key):
    s, e = case.keys, case.embedding
    names = iter(jax.random.split(key, 16))

    def uniform(bound, *shape):
        return jax.random.uniform(next(names), shape, minval=-bound, maxval=bound)

    parameters = {
        "embedding": jax.random.normal(next(names), (s, e)),
        "key": uniform(1 / math.sqrt(D), e, D),
        "key_value": uniform(1 / math.sqrt(D), s, D),
        "key_bias": uniform(1 / math.sqrt(s + e), D),
        "query": uniform(1 / math.sqrt(D), e, D),
        "query_bias": uniform(1 / math.sqrt(e), D),
    }
    if case.memory == "delta":
        bound = 1 / math.sqrt(s + e)
        parameters |= {"beta": uniform(bound, e), "beta_value": uniform(bound, s), "beta_bias": uniform(bound)}
    return parameters


def draw(case, key):
    """Keys [B,L] (None: 0 .. S-1 in order), values [B,L], query [B], answer [B]."""
    b, s, length = case.batch, case.keys, case.length
    first, second, third = jax.random.split(key, 3)
    if case.memory != "delta":  # the order of tokens does not matter to the sum rule: permute the values alone
        order = jax.random.bits(first, (b, s))
        _, values = lax.sort_key_val(order, lax.broadcasted_iota(jnp.int32, (b, s), 1))
        query = jax.random.randint(second, (b,), 0, s)
        return None, values, query, jnp.take_along_axis(values, query[:, None], 1)[:, 0]
    keys, values = jax.random.randint(first, (2, b, length), 0, s)
    element = jax.random.randint(third, (b, 1), 0, length)
    asked = jnp.take_along_axis(keys, element, 1)
    last = jnp.argmax((keys == asked) * jnp.arange(1, length + 1), 1, keepdims=True)
    return keys, values, asked[:, 0], jnp.take_along_axis(values, last, 1)[:, 0]


def rows(table, ids, choice):
    """table[ids]: a gather, or a product with one-hot rows."""
    if choice.lookup == "onehot":
        return jax.nn.one_hot(ids, table.shape[0], dtype=table.dtype) @ table
    return table[ids]


def dpfp1(x):
    y = jnp.concatenate([jax.nn.relu(x), jax.nn.relu(-x)], -1)
    return y * jnp.roll(y, 1, -1)


def delta_weights(k, q, beta, chunk):
    """a_t with out = sum_t a_t v_t. k [B,L,p], q [B,p], beta [B,L]. c_t = k_t.r_t, a_t = beta_t c_t,
    r_{t-1} = r_t - a_t k_t from r_L = q; within a chunk (I + triu(K K^T, 1) Diag(beta)) c = K r."""
    b, length, p = k.shape
    n = length // chunk
    k = k.reshape(b, n, chunk, p).swapaxes(0, 1)
    beta = beta.reshape(b, n, chunk).swapaxes(0, 1)
    if chunk == 1:

        def token(r, x):
            key, rate = x
            a = rate * jnp.sum(key * r, -1)
            return r - a[:, None] * key, a

        _, a = lax.scan(token, q, (k[:, :, 0], beta[:, :, 0]), reverse=True)
        return a.T
    gram = jnp.triu(k @ k.swapaxes(-1, -2), 1) * beta[..., None, :] + jnp.eye(chunk, dtype=k.dtype)

    def block(r, x):
        keys, rate, matrix = x
        right = (keys @ r[..., None])[..., 0]
        c = jax.scipy.linalg.solve_triangular(matrix, right[..., None], lower=False, unit_diagonal=True)[..., 0]
        a = rate * c
        return r - (a[:, None] @ keys)[:, 0], a

    _, a = lax.scan(block, q, (k, beta, gram), reverse=True)
    return a.swapaxes(0, 1).reshape(b, length)


def loss_of(w, batch, case, choice):
    keys, values, query, answer = batch
    table = w["embedding"] @ w["key"] + w["key_bias"]
    k = (table if keys is None else rows(table, keys, choice)) + rows(w["key_value"], values, choice)
    q = rows(w["embedding"], query, choice) @ w["query"] + w["query_bias"]
    if case.memory == "delta":
        k, q = dpfp1(k), dpfp1(q)
        k = k / k.sum(-1, keepdims=True)
        q = q / (q.sum(-1, keepdims=True) + EPS)
        beta_table = w["embedding"] @ w["beta"] + w["beta_bias"]
        beta = rows(beta_table[:, None], keys, choice) + rows(w["beta_value"][:, None], values, choice)
        weights = delta_weights(k, q, jax.nn.sigmoid(beta[..., 0]), choice.chunk)
    else:
        k, q = jax.nn.elu(k) + 1, jax.nn.elu(q) + 1
        weights = (k @ q[..., None])[..., 0]
        weights = weights / (weights.sum(-1, keepdims=True) + EPS)
    if choice.lookup == "onehot":
        output = jnp.einsum("bl,blv->bv", weights, jax.nn.one_hot(values, case.keys, dtype=weights.dtype))
    else:
        batch_index = jnp.arange(weights.shape[0])[:, None]
        output = jnp.zeros((weights.shape[0], case.keys), weights.dtype).at[batch_index, values].add(weights)
    target = jax.nn.one_hot(answer, case.keys, dtype=output.dtype)
    return 0.5 * jnp.square(output - target).sum(-1).mean()


# ----------------------------------------------------------------------------------------------- training


def adam():
    """(init, update) like optax.adam; the own one where optax is missing."""
    if optax is not None:
        optimizer = optax.adam(LEARNING_RATE)

        def update(gradient, state, w):
            changes, state = optimizer.update(gradient, state, w)
            return optax.apply_updates(w, changes), state

        return optimizer.init, update
    zeros = functools.partial(jax.tree_util.tree_map, jnp.zeros_like)

    def update(gradient, state, w):
        t, m, v = state
        t = t + 1
        m = jax.tree_util.tree_map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
        v = jax.tree_util.tree_map(lambda a, g: 0.999 * a + 0.001 * g * g, v, gradient)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        change = lambda p, a, b: p - LEARNING_RATE * (a / c1) / (jnp.sqrt(b / c2) + 1e-8)  # noqa: E731
        return jax.tree_util.tree_map(change, w, m, v), (t, m, v)

    return lambda w: (jnp.zeros((), jnp.float32), zeros(w), zeros(w)), update


def make_training(case, choice, replicas, steps):
    """Initial state of all replicas, and a compiled function that trains all of them for `steps` steps."""
    init, update = adam()

    def start(key):
        w = initial_parameters(case, key)
        return w, init(w), jax.random.fold_in(key, 1)

    def one_step(state):
        w, moments, key = state
        key, drawn = jax.random.split(key)
        loss, gradient = jax.value_and_grad(loss_of)(w, draw(case, drawn), case, choice)
        w, moments = update(gradient, moments, w)
        return (w, moments, key), loss

    def many(state):
        return lax.scan(lambda s, _: jax.vmap(one_step)(s), state, None, length=steps)

    keys = jax.random.split(jax.random.key(1, impl=choice.rng), replicas)
    state = jax.block_until_ready(jax.jit(jax.vmap(start))(keys))
    return state, jax.jit(many, donate_argnums=0).lower(state).compile()


def timed(run, state, repeats):
    """State afterwards and seconds of each call; the first, cold one is not counted."""
    state, loss = run(state)
    jax.block_until_ready(loss)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        state, loss = run(state)
        jax.block_until_ready((state, loss))
        seconds.append(time.perf_counter() - start)
    return state, loss, seconds


def choices(case):
    """One axis after the other; the first of each is the start."""
    axes = [("lookup", ["gather", "onehot"]), ("rng", ["rbg", "threefry2x32", "unsafe_rbg"])]
    if case.memory == "delta":
        lengths = [c for c in (25, 50, 10, 100, 200, 8, 1) if case.length % c == 0]
        axes.insert(0, ("chunk", lengths))
    return axes


def tune(case, replicas, say):
    axes = choices(case)
    best = replace(Choice(), **{name: options[0] for name, options in axes})
    rates = {}

    def rate(choice):
        if choice not in rates:
            try:
                state, run = make_training(case, choice, replicas, 20)
                rates[choice] = 20 * replicas / min(timed(run, state, 3)[2])
            except Exception as error:  # out of memory, or an operation that this version refuses
                rates[choice] = 0.0
                say(f"  {choice.text()}: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}")
            else:
                say(f"  {choice.text()}: {rates[choice]:,.0f} model-steps/s")
        return rates[choice]

    for name, options in axes:
        best = max((replace(best, **{name: option}) for option in options), key=rate)
    if rates[best] == 0:
        raise RuntimeError(f"no form of {case.name} ran with {replicas} replicas")
    return best


def measure(case, replicas, args, say):
    say(f"{case.name}, {replicas} replicas")
    choice = replace(Choice(), **{name: options[0] for name, options in choices(case)})
    if args.tune:
        choice = tune(case, replicas, say)
    state, run = make_training(case, choice, replicas, 20)
    probe = min(timed(run, state, 2)[2])
    steps = args.steps or max(20, min(100_000, int(20 * args.seconds / probe)))
    start = time.perf_counter()
    state, run = make_training(case, choice, replicas, steps)
    compile_s = time.perf_counter() - start
    state, loss, seconds = timed(run, state, args.repeats)
    rates = [steps * replicas / s for s in seconds]
    median = statistics.median(rates)
    final = float(loss[-max(1, steps // 10) :].mean())
    say(f"  {median:,.0f} model-steps/s ({min(rates):,.0f} to {max(rates):,.0f}), {choice.text()}, loss {final:.4f}")
    return {
        "model": case.name,
        "variant": "jax",
        "replicas": replicas,
        "model_steps_per_s": median,
        "repeats": rates,
        "steps_a_call": steps,
        "compile_s": compile_s,
        "flop_per_step": case.flop_per_step,
        "gflop_per_s": median * case.flop_per_step * 1e-9,
        "choice": choice.text(),
        "adam": "optax" if optax is not None else "own",
        "final_loss": final if math.isfinite(final) else None,
    }


# ------------------------------------------------------------------------------------------------ checks


def state_loss(w, batch, case):
    """The same loss from the recurrence itself: one-hot values, the S x p state, token by token."""
    keys, values, query, answer = batch
    if keys is None:
        keys = jnp.broadcast_to(jnp.arange(case.keys), values.shape)
    one_hot = functools.partial(jax.nn.one_hot, num_classes=case.keys, dtype=w["key"].dtype)
    token = jnp.concatenate([one_hot(values), w["embedding"][keys]], -1)
    k = token @ jnp.concatenate([w["key_value"], w["key"]]) + w["key_bias"]
    q = w["embedding"][query] @ w["query"] + w["query_bias"]
    phi = dpfp1 if case.memory == "delta" else lambda x: jax.nn.elu(x) + 1
    k, q, v = phi(k), phi(q), one_hot(values)
    state = jnp.zeros((*v.shape[::2], k.shape[-1]), k.dtype)
    if case.memory == "delta":
        beta = jax.nn.sigmoid(token @ jnp.concatenate([w["beta_value"], w["beta"]]) + w["beta_bias"])
        k = k / k.sum(-1, keepdims=True)
        q = q / (q.sum(-1, keepdims=True) + EPS)
    for t in range(k.shape[1]):
        written = v[:, t]
        if case.memory == "delta":
            written = beta[:, t, None] * (written - jnp.einsum("bvp,bp->bv", state, k[:, t]))
        state = state + jnp.einsum("bv,bp->bvp", written, k[:, t])
    output = jnp.einsum("bvp,bp->bv", state, q)
    if case.memory != "delta":
        output = output / (jnp.einsum("bp,bp->b", k.sum(1), q) + EPS)[:, None]
    return 0.5 * jnp.square(output - one_hot(answer)).sum(-1).mean()


def check():
    jax.config.update("jax_enable_x64", True)
    passed = True

    def report(good, text):
        nonlocal passed
        passed &= bool(good)
        print(f"{'ok    ' if good else 'FAILED'} {text}", flush=True)

    flat = lambda tree: jnp.concatenate([x.ravel() for x in jax.tree_util.tree_leaves(tree)])  # noqa: E731
    for memory in ("linear", "delta"):
        case = Case(f"{memory} S=12", memory, 12, batch=5)
        w = jax.tree_util.tree_map(lambda x: x.astype(jnp.float64), initial_parameters(case, jax.random.key(3)))
        batch = draw(case, jax.random.key(4))
        keys, values, query, answer = batch
        good = True
        for b in range(case.batch):
            held = dict(zip(range(case.keys) if keys is None else keys[b].tolist(), values[b].tolist()))
            good &= held[int(query[b])] == int(answer[b]) and (keys is not None or len(set(held.values())) == case.keys)
        report(good, f"{case.name}: the answer is the last value of the key asked")
        expected, gradient = jax.value_and_grad(state_loss)(w, batch, case)
        for lookup in ("gather", "onehot"):
            for chunk in (1, 6, 24) if memory == "delta" else (0,):
                choice = Choice(lookup, "rbg", chunk)
                loss, g = jax.value_and_grad(loss_of)(w, batch, case, choice)
                error = abs(loss - expected) / expected
                error = max(error, jnp.abs(flat(g) - flat(gradient)).max() / jnp.abs(flat(gradient)).max())
                report(error <= 1e-9, f"{case.name} {choice.text()}: loss {loss:.6f}, off by {error:.1e}")
    jax.config.update("jax_enable_x64", False)
    for memory in ("linear", "delta"):
        case = Case(f"{memory} S=8", memory, 8)
        for rng in ("rbg", "threefry2x32", "unsafe_rbg"):
            state, run = make_training(case, Choice("gather", rng, 8 if memory == "delta" else 0), 3, 300)
            _, loss = run(state)
            first, last = loss[:10].mean(0), loss[-10:].mean(0)
            differ = len(set(last.tolist())) == 3
            report(jnp.all(last < 0.7 * first) and differ, f"{case.name} {rng}: 3 replicas, loss {first} -> {last}")
    return 0 if passed else 1


# -------------------------------------------------------------------------------------------------- main


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--replicas", nargs="+", type=int, default=[1, 16, 128], metavar="R")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of which the median counts")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a repeat, about")
    parser.add_argument("--steps", type=int, default=0, help="steps in a repeat (0: as --seconds says)")
    parser.add_argument("--no-tune", dest="tune", action="store_false", help="take the first of all choices")
    parser.add_argument("--precision", choices=["default", "highest"], default="default", help="of fp32 products")
    parser.add_argument("--check", action="store_true", help="verify the maths and that it learns")
    parser.add_argument("--json", action="store_true", help="print JSON; what happens is told on stderr")
    args = parser.parse_args()
    if args.check:
        return check()
    if min(args.replicas) < 1 or args.repeats < 1 or args.steps < 0:
        parser.error("--replicas and --repeats must be at least 1, --steps at least 0")
    if args.precision == "highest":
        jax.config.update("jax_default_matmul_precision", "highest")
    device = jax.devices()[0]
    out = {
        "program": "jax_replicas.py",
        "versions": {
            "jax": jax.__version__,
            "optax": getattr(optax, "__version__", None),
            "python": platform.python_version(),
        },
        "device": f"{device.platform}: {device.device_kind}",
        "precision": args.precision,
        "results": [],
        "failed": [],
    }

    def say(text):
        print(text, file=sys.stderr if args.json else sys.stdout, flush=True)

    say(f"jax {jax.__version__} on {out['device']}, products: {args.precision}")
    for name in args.models:
        for replicas in args.replicas:
            try:
                out["results"].append(measure(CASES[name], replicas, args, say))
            except Exception as error:  # one that does not fit must not cost the others
                say(f"  {CASES[name].name} with {replicas} replicas failed: {error}")
                out["failed"].append({"model": CASES[name].name, "replicas": replicas, "error": str(error)[:500]})
    if args.json:
        print(json.dumps(out, indent=2))
    return 0 if out["results"] else 1


if __name__ == "__main__":
    sys.exit(main())
