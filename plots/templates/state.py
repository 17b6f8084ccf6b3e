"""Draws the singular values of the state and its effective rank against tokens, from the arrays beside it:
python3 state.py. Needs numpy and matplotlib, and is yours to edit.
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


def main():
    values, rank, at = load("singular_values"), load("effective_rank"), load("spectrum_positions")
    most = min(values.shape[-1], max(at))
    fig, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, most))
    for i in range(most):  # of the first head
        left.plot(at, values[:, 0, i], color=colours[i], linewidth=0.7, clip_on=False)
    left.set(xlabel="Tokens", ylabel="Singular values" + (", head 0" if values.shape[1] > 1 else ""))
    left.set_ylim(0, None)
    looks = ["-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5))]
    for head in range(rank.shape[1]):
        right.plot(at, rank[:, head], color="#0072B2", linestyle=looks[head % 4], clip_on=False,
                   label=f"Head {head}")
    full = values.shape[-1]
    right.plot(at, np.minimum(at, full), color=GREY, linewidth=0.7, linestyle=":", label="Full rank")
    right.set(xlabel="Tokens", ylabel="Effective rank")
    right.set_ylim(0, 1.15 * min(full, max(at)))
    if rank.shape[1] > 1:
        right.legend(frameon=False, handlelength=1.6, borderaxespad=0.2, loc="lower right")
    else:
        right.annotate("Full rank", (max(at), min(max(at), full)), (0, 2), textcoords="offset points",
                       color=GREY, fontsize=6.5, ha="right", va="bottom")
    for ax in (left, right):
        ax.set_xlim(0, max(at))
        ax.spines[["top", "right"]].set_visible(False)
        ax.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4, integer=True))
        ax.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:.6g}"))
        ax.grid(color="#E6E6E6", linewidth=0.5)
    place(fig, np.array([[left, right]]), 1.25)
    save(fig)


if __name__ == "__main__":
    main()
