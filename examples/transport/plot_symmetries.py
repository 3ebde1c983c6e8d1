"""
How many ways are there to lay a rectangle onto itself?
=======================================================

A match by distances is not unique where a shape is symmetric, and near-symmetric shapes
have matches that are only nearly as good. A single fit shows one of them.
:meth:`LiftedGWAligner.explore <skicml.transport.LiftedGWAligner.explore>` starts from
many random maps and tells apart where they end. See the :ref:`user guide
<user_guide_transport>`. The example takes a few seconds.
"""

# %%
# A grid of points
# ----------------
# Eight by five points with unequal steps: the only rigid maps of this rectangle onto
# itself are the identity, two reflections, and the half turn.

import matplotlib.pyplot as plt
import numpy as np

from skicml import LiftedGWAligner

x, y = np.meshgrid(np.arange(8.0), 1.2 * np.arange(5.0))
grid = np.column_stack([x.ravel(), y.ravel()])
aligner = LiftedGWAligner(n_components=10, epsilon=5e-3, random_state=0).fit(grid, grid)
minima = aligner.explore(24, random_state=0)

# %%
# Where 24 random starts end
# --------------------------
# Each panel shows one solution: a point is drawn where it is, in the color of the point
# that it is matched with. The first panel is the key.

best = minima[0].egw
unit = aligner.scale_[0] ** 2
tied = [m for m in minima if m.egw <= best + 1e-3 * unit]
color = plt.get_cmap("viridis")(np.linspace(0, 1, 8))[np.arange(40) % 8]
color[:, :3] *= (1 - 0.15 * (np.arange(40) // 8))[:, None]

figure, axes = plt.subplots(1, 1 + len(tied), figsize=(11, 1.9), layout="constrained")
axes[0].scatter(*grid.T, c=color, s=60)
axes[0].set_title("the points", fontsize="medium")
for ax, found in zip(axes[1:], tied, strict=True):
    ax.scatter(*grid.T, c=color[found.matching], s=60)
    ax.set_title(f"{found.count} starts", fontsize="medium")
for ax in axes:
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.margins(0.1)
plt.show()

for found in minima:
    print(
        f"objective {found.egw / unit:.4f} of the mean squared cost: {found.count} starts"
    )

# %%
# Conclusion
# ----------
# The four panels are the four symmetries, with equal objectives. The other starts end in
# local minima whose objective is several times as high: where an objective stands out
# like this, more starts are worth their time.
