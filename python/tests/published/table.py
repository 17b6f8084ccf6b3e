"""Every published layer: its transcription, and where the program's differs from it.

A deviation is a name that the transcription takes as a switch, with the words of 'Lacks' (crosstalk describe MEMORY) that say it.
SIZES explains parameters that the authors' constructors make more or fewer of: words, and how many more the program has at width C, H heads of K.
"""
# SPDX-License-Identifier: Apache-2.0
from . import attention, delta, sums, ttt

LAYERS = {name: getattr(module, name) for module, names in {
    delta: "deltanet gated_delta gated_delta2 kda complex_kda comba delta_product precond_gated_delta precond_kda log_linear_gated_delta mom rwkv7",
    sums: "gla simple_gla hgrn2 retnet mamba1 mamba2 mamba3 log_linear_attention longhorn_diagonal rwkv4 rwkv6 gsa raven mlstm slstm",
    attention: "sliding_window rope qk_norm gated_attention attention_sink fox path path_fox deltaformer parallax wall memory_mosaics mesa "
               "linear_attention long_conv hyena h3",
    ttt: "ttt_linear ttt_mlp"}.items() for name in names.split()}
LAYERS["softmax"] = attention.softmax_layer

DEVIATIONS = {
    "attention_sink": {"no YaRN": "YaRN", "no window": "window of 128"},
    "deltaformer": {"no positions": "positions"},
    "gated_attention": {"eps 1e-5 of the norms": "which was not read"},
    "h3": {"kernel without its discretisation": "bilinear discretisation"},
    "hyena": {"learned window": "window that is not learned"},
    "linear_attention": {"eps 1e-6 of the denominator": "eps 1e-12"},
    "log_linear_gated_delta": {"queries divided": "queries that are not divided"},
    "long_conv": {"a memory between projections": "without projections of values"},
    "mamba3": {"angles of every head": "angles that all heads share"},
    "memory_mosaics": {"queries of their own": "keys that are the queries"},
    "mesa": {"no eps in conjugate gradients": "1e-5 in the divisors"},
    "mom": {"one router for all heads": "one router for all heads", "convolutions over all tokens": "tokens of one memory alone"},
    "parallax": {"second query without positions": "positions of the second query"},
    "qk_norm": {"gains of every head": "gains that all heads share", "positions before the norms": "in front of the rotation",
                "eps 1e-6 of the norms": "eps of 1e-6"},
    "retnet": {"no division by the sum of a row": "division of a row's weights", "RoPE's own frequencies": "linspace(0, 1, n)"},
    "rwkv4": {"biases of keys and receptances": "biases of keys and receptances"},
    "sliding_window": {"own token counted in the window": "counts the own token"},
    "ttt_linear": {"gradients not weighed by the reader's place": "place of the reader"},
    "ttt_mlp": {"gradients not weighed by the reader's place": "place of the reader"},
}
# These change nothing in 32 tokens.
SILENT = {("attention_sink", "no window")}



def narrow(C, H):
    """How many numbers fewer than 128 a key has."""
    return C // (2 * H) - 128


SIZES = {
    "h3": [("shift of keys as long as the state", lambda C, H, K: 4 * C - (2 * C * (C // 4) + C)),
           ("heads of two channels", lambda C, H, K: H * (1 + 3 * 16 + 1) - C // 2 * (1 + 6 * (C // 8) + 1))],
    "hyena": [("short convolutions of its gates", lambda C, H, K: -8 * C), ("window that is not learned", lambda C, H, K: K),
              ("The study says the rest: heads", lambda C, H, K: -(C - K) * 65),
              ("biases of its maps of values and of the output, learned positions", lambda C, H, K: -2 * C - 3 * 256)],
    "log_linear_attention": [("state of 128", lambda C, H, K: 2 * narrow(C, H) * (C + 5)), ("15 levels", lambda C, H, K: H * (C + 1))],
    "log_linear_gated_delta": [("15 levels", lambda C, H, K: H * (C + 1))],
    "long_conv": [("without projections of values", lambda C, H, K: 2 * C * C), ("The study says the rest: heads", lambda C, H, K: -(C - K) * 17)],
    "mamba2": [("state of 128", lambda C, H, K: 2 * narrow(C, H) * (C + 5))],
    "mamba3": [("state of 128", lambda C, H, K: narrow(C, H) * (2 * C + 2 + 2 * H + C // 4)),
               ("angles that all heads share", lambda C, H, K: (H - 1) * C // (8 * H) * C)],
    "memory_mosaics": [("keys that are the queries", lambda C, H, K: C * C), ("values that look at the token that follows", lambda C, H, K: -2 * H),
                       ("biases of its maps", lambda C, H, K: -3 * C)],
    "mom": [("own projections of keys", lambda C, H, K: -7 * (3 * C * C + 2 * C * H)), ("one router", lambda C, H, K: 8 * (H - 1) * C)],
    "qk_norm": [("gains that all heads share", lambda C, H, K: 2 * K * (H - 1))],
    "rwkv4": [("biases of keys and receptances", lambda C, H, K: 2 * C)],
    "slstm": [("head by head", lambda C, H, K: 4 * C * C - 4 * C * K), ("an output projection", lambda C, H, K: C * C),
              ("a bias of the values", lambda C, H, K: -C)],
    "ttt_linear": [("place of the reader", lambda C, H, K: -16)],
    "ttt_mlp": [("place of the reader", lambda C, H, K: -16)],
}
