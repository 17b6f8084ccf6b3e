"""A model of somebody's own, for the tests of train: gated linear attention in plain PyTorch."""
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["model.width"]
        self.embed = nn.Embedding(config.vocabulary, width)
        self.mix = nn.Linear(2 * width, 3 * width, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.head = nn.Linear(width, config.vocabulary, bias=False)
        self.dropout = config.arguments.get("dropout", 0.0)
        self.reads = config.arguments.get("reads", False)

    def forward(self, tokens):
        x = self.embed(tokens)
        y = self.norms[0](x)
        q, k, v = self.mix(torch.cat([y, nn.functional.pad(y, (0, 0, 1, 0))[..., :-1, :]], -1)).chunk(3, -1)
        w = (nn.functional.elu(q) + 1) @ (nn.functional.elu(k) + 1).transpose(-1, -2)
        w = w * torch.ones_like(w).tril()
        x = x + (w / (w.sum(-1, keepdim=True) + 1e-6)) @ v
        if self.dropout:
            x = nn.functional.dropout(x, self.dropout, self.training)
        if self.reads and x.sum().item() == 1:  # a value read in Python: vmap refuses
            x = x + 1
        return self.head(self.norms[1](x))

    def state_size(self, length):
        return 16 * 16


class Answers(Model):
    """The same, asked where answers are due."""

    def answer(self, tokens, position):
        logits = self(tokens)
        at = (position - 1).clamp(min=0)[..., None].expand(*position.shape, logits.shape[-1])
        return torch.gather(logits, -2, at)


class Explodes(Model):
    def forward(self, tokens):
        return super().forward(tokens) * torch.exp(1e4 * self.head.weight.sum().abs() ** 3)
