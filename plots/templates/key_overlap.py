"""Draws how alike the keys of the tokens are, from the arrays beside it: python3 key_overlap.py

Needs numpy and matplotlib, and is yours to edit. Two tokens whose keys are not orthogonal disturb each other.
"""
# SPDX-License-Identifier: Apache-2.0

# --- style
# --- end of style

# --- settings
TITLE = "delta, seed 1"
WIDTH = 3.25
TOKENS = []
GATES = []
# --- end of settings
COSINE = True  # False: products as they are


def main():
    overlap = load("key_overlap")
    if COSINE:
        length = np.sqrt(np.einsum("hii->hi", overlap))
        overlap = overlap / np.maximum(length[:, :, None] * length[:, None, :], 1e-300)
    names = TOKENS
    writes = overlap.shape[1] // max(len(TOKENS), 1)
    if writes > 1:
        names = [name if n == 0 else "" for name in TOKENS for n in range(writes)]
    label = "Token (key:value)" if load("tokens") is None else "Token"
    fig, axes, _ = maps(len(overlap), label, label, names, names)
    look = dict(shades(overlap), vmax=1.0, vmin=-1.0 if overlap.min() < -0.02 else 0.0) if COSINE else shades(overlap)
    for ax, head in zip(axes, overlap):
        image = ax.imshow(head, interpolation="nearest", **look)
    colour_bar(fig, axes[-1], image, r"$\cos(\phi(k_i), \phi(k_j))$" if COSINE else r"$\phi(k_i)\cdot\phi(k_j)$")
    save(fig)


if __name__ == "__main__":
    main()
