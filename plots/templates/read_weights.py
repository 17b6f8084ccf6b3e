"""Draws how much each query retrieves from each token, from the arrays beside it: python3 read_weights.py

Needs numpy and matplotlib, and is yours to edit. A row is a query, `key > answer`; a column a token, `key:value`. Of a
language model rows and columns are tokens, `token > answer` where an answer is due.
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


def of_queries(weights):
    """Rows of a retrieval model: queries, in the order of the tokens that last wrote their answer."""
    keys, values = load("keys"), load("values")
    query, seen, answer, given = load("query"), load("query_position"), load("answer"), load("output").argmax(-1)
    used = [i for i in range(len(query)) if answer[i] >= 0]
    place = {i: max([t for t in range(seen[i]) if keys[t] == query[i] and values[t] == answer[i]] or [-1]) for i in used}
    used.sort(key=lambda i: (place[i], i))
    return dict(weights=weights[:, used], names=[f"{query[i]}>{answer[i]}" for i in used], places=[place[i] for i in used],
                asked=range(len(used)), wrong=[row for row, i in enumerate(used) if given[i] != answer[i]],
                xlabel="Token (key:value)", ylabel="Query (key>answer)")


def of_tokens(weights):
    """Rows of a language model: tokens. Its answer stands behind the last earlier token like the one that asks."""
    tokens, seen, answer, given = load("tokens"), load("query_position"), load("answer"), load("output").argmax(-1)
    due = {seen[i] - 1: i for i in range(len(answer)) if answer[i] >= 0}
    behind = lambda t: max([s for s in range(1, t) if tokens[s - 1] == tokens[t] and tokens[s] == answer[due[t]]] or [-1])
    return dict(weights=weights, names=[f"{token}>{answer[due[t]]}" if t in due else name
                                        for t, (token, name) in enumerate(zip(tokens, TOKENS))],
                places=[behind(t) if t in due else -1 for t in range(len(tokens))], asked=sorted(due),
                wrong=[t for t, i in sorted(due.items()) if given[i] != answer[i]],
                xlabel="Token", ylabel="Reading token (>answer)")


def main():
    weights = load("read_weights")
    weights = weights.reshape(*weights.shape[:2], len(TOKENS), -1).sum(-1)  # writes of one token together
    rows = of_queries(weights) if load("tokens") is None else of_tokens(weights)
    shown, wrong, right, queries = rows["weights"], rows["wrong"], rows["places"], rows["names"]
    note = NOTE if max(right, default=-1) >= 0 else ""
    if wrong:
        note = f"{note} Triangles: the {len(wrong)} of {len(rows['asked'])} queries that are answered wrongly.".lstrip()
    fig, axes, inches = maps(len(weights), rows["xlabel"], rows["ylabel"], TOKENS, queries, note)
    size = max(1.5, 0.92 * 72 * inches / max(len(queries), len(TOKENS)))
    for ax, head in zip(axes, shown):
        image = ax.imshow(head, aspect="auto", interpolation="nearest", **shades(shown))
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
