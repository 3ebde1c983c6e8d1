"""
Which edges of a graph do not belong there?
===========================================

A copy of a graph has lost its names, and somebody has added a fifth more edges. Matched
by plain Gromov-Wasserstein transport, the spurious edges count as much as the true ones
and bend the match. :class:`SRGWMatcher <skicml.transport.SRGWMatcher>` learns, together
with the match, which pairs disagree with all others. See the :ref:`user guide
<user_guide_srgw>`. The example takes a few seconds.
"""

# %%
# The graph and its copy
# ----------------------
# Who meets whom in *Les Misérables*: 77 characters and 254 edges, whose weights count
# common chapters. The copy is shuffled and has 51 edges more, of weights 5 to 31.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import ot
from scipy.optimize import linear_sum_assignment

from skicml import SRGWMatcher

graph = nx.les_miserables_graph()
names = list(graph)
weights = nx.to_numpy_array(graph)
rng = np.random.default_rng(0)
order = rng.permutation(len(names))
noisy = weights[np.ix_(order, order)]
absent = np.argwhere(np.triu(noisy == 0, 1))
added = absent[rng.choice(len(absent), round(0.2 * 254), replace=False)]
for i, k in added:
    noisy[i, k] = noisy[k, i] = rng.integers(5, 32)
spurious = {(int(i), int(k)) for i, k in added}

# %%
# Two matches
# -----------
# The graph goes in as it is, the copy as a matrix. What counts is how many edges of the
# graph fall onto edges of the copy that were there before.

matcher = SRGWMatcher("precomputed").fit(graph, noisy)
plan = ot.gromov.gromov_wasserstein(weights, noisy)
plain = linear_sum_assignment(-plan)[1]


def edges_kept(match):
    """Share of the edges that fall onto true edges of the copy."""
    pairs = match[np.argwhere(np.triu(weights, 1))]
    pairs.sort(axis=1)
    true = [noisy[i, k] > 0 and (i, k) not in spurious for i, k in map(tuple, pairs)]
    return np.mean(true)


print(f"Gromov-Wasserstein: {edges_kept(plain):.0%} of the edges on edges")
print(f"SRGWMatcher: {edges_kept(matcher.assignment_):.0%}")

# %%
# The graph, three times
# ----------------------
# Every character is drawn at its own place. In the copy each node has the place of the
# character that it is matched with: on the left by plain transport, in the middle with
# masks. On the right the pairs that the mask filters are gone.

place = nx.kamada_kawai_layout(graph, weight=None)
TRUE, FALSE = "#9aa5b1", "#d55e00"


def draw(ax, match, title, keep):
    """Draw the copy where its nodes were matched to."""
    back = np.argsort(match)
    for i, k in np.argwhere(np.triu(noisy, 1)):
        if keep[i, k]:
            wrong = (i, k) in spurious
            ends = np.array([place[names[back[i]]], place[names[back[k]]]])
            color, front = (FALSE, 2) if wrong else (TRUE, 1)
            ax.plot(*ends.T, color=color, lw=0.6 + 0.4 * wrong, zorder=front)
    points = np.array([place[name] for name in names])
    ax.scatter(*points.T, s=14, color="#1f2933", zorder=3)
    ax.set_title(title, fontsize="medium")
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.axis("off")


everything = np.ones_like(noisy, dtype=bool)
figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
draw(axes[0], plain, "plain Gromov-Wasserstein", everything)
draw(axes[1], matcher.assignment_, "SRGWMatcher", everything)
draw(axes[2], matcher.assignment_, "without filtered pairs", matcher.target_mask_ > 0.5)
handles = [plt.Line2D([], [], color=c) for c in (TRUE, FALSE)]
figure.legend(
    handles, ["true edge", "spurious edge"], loc="outside lower center", ncols=2
)
plt.show()

# %%
# The mask
# --------
# One entry for each pair of nodes of the copy. What it filters are 51 pairs, and
# :meth:`~skicml.transport.SRGWMatcher.edge_outliers` lists them. Nodes with several
# spurious edges are trusted less.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
matcher.plot_masks("target", ax=axes[0])
axes[0].set_title("mask of the copy", fontsize="medium")
matcher.plot_trust("target", ax=axes[1])
axes[1].set_title("mean trust in the pairs of a node", fontsize="medium")
plt.show()

found = {(i, k) for i, k, _ in matcher.edge_outliers("target")}
print(f"{len(found & spurious)} of {len(spurious)} spurious edges found,")
print(f"{len(found - spurious)} true pairs filtered")

# %%
# Conclusion
# ----------
# The match is that of the clean graph up to characters that cannot be told apart, and
# the mask names the edges to remove. This needs weights, or other costs that take many
# values: of an unweighted graph every disagreement is as large as every other, and masks
# do not help there.
