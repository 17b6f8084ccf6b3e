"""Models of others in a study: a Transformer of torch.nn, and a layer as flash-linear-attention's are, inside our blocks."""
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn

import crosstalk as ct


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=future, need_weights=False)[0]
        return x + self.mlp(self.between(x))


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["model.width"]
        self.tokens = nn.Embedding(config.vocabulary, width)
        self.places = nn.Embedding(config["task.length"], width)
        self.blocks = nn.ModuleList(Block(width, heads=2) for _ in range(config["model.layers"]))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, config.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class DeltaNet(nn.Module):
    """fla.layers.DeltaNet's face and arithmetic (its naive recurrence), without short convolutions."""

    def __init__(self, hidden_size=64, num_heads=2, layer_idx=None):
        super().__init__()
        self.num_heads, self.layer_idx = num_heads, layer_idx
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(3))
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, use_cache=False, **kwargs):
        q, k, v = (p(hidden_states).unflatten(-1, (self.num_heads, -1)) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        beta = self.b_proj(hidden_states).sigmoid()
        S, reads = torch.zeros_like(k[:, 0, :, :, None] * v[:, 0, :, None]), []
        for t in range(q.shape[1]):
            error = v[:, t] - (S * k[:, t, ..., None]).sum(-2)
            S = S + k[:, t, ..., None] * (beta[:, t, :, None] * error)[..., None, :]
            reads.append((S * q[:, t, ..., None]).sum(-2))
        return self.o_proj(torch.stack(reads, 1).flatten(-2)), None, past_key_values


class Inside(ct.torch.LanguageModel):
    def __init__(self, config):
        super().__init__(config, mixer=lambda width, layer: DeltaNet(width, num_heads=2, layer_idx=layer))
