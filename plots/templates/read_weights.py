"""Draws how much each query retrieves from each token, from the arrays beside it: python3 read_weights.py

Needs numpy and matplotlib, and is yours to edit. A row is a query, `key > answer`; a column a token, `key:value`.
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
NOTE = "Box: the token that holds the answer."
WRONG = "#D55E00"


def main():
    weights, keys, values = load("read_weights"), load("keys"), load("values")
    query, seen, answer, given = load("query"), load("query_position"), load("answer"), load("output").argmax(-1)
    weights = weights.reshape(*weights.shape[:2], len(keys), -1).sum(-1)  # writes of one token together
    # Queries in the order of the tokens that last wrote their answer.
    used = [i for i in range(len(query)) if answer[i] >= 0]
    place = {i: max([t for t in range(seen[i]) if keys[t] == query[i] and values[t] == answer[i]] or [-1]) for i in used}
    used.sort(key=lambda i: (place[i], i))
    shown = weights[:, used]
    wrong = [row for row, i in enumerate(used) if given[i] != answer[i]]
    note = f"{NOTE} Triangles: the {len(wrong)} of {len(used)} queries that are answered wrongly." if wrong else NOTE
    queries = [f"{query[i]}>{answer[i]}" for i in used]
    fig, axes, inches = maps(len(weights), "Token (key:value)", "Query (key>answer)", TOKENS, queries, note)
    size = max(1.5, 0.92 * 72 * inches / max(len(used), len(TOKENS)))
    for ax, head in zip(axes, shown):
        image = ax.imshow(head, aspect="auto", interpolation="nearest", **shades(shown))
        right = [place[i] for i in used]
        ax.plot([t for t in right if t >= 0], [row for row, t in enumerate(right) if t >= 0], "s", color="none",
                markeredgecolor=WRONG, markeredgewidth=0.5, markersize=size, clip_on=False)
        # Beside every wrong row, whether or not it has room for its name.
        ax.plot([1] * len(wrong), wrong, "<", color=WRONG, markeredgewidth=0, markersize=min(max(size, 2), 4.5),
                clip_on=False, transform=ax.get_yaxis_transform())
    for label, row in zip(axes[0].get_yticklabels(), axes[0].get_yticks()):
        if row in wrong:
            label.set_color(WRONG)
    colour_bar(fig, axes[-1], image, "Retrieval weight")
    save(fig)


if __name__ == "__main__":
    main()
