"""
What lies between two shapes?
=============================

The mean of two clouds is not defined while they have no common coordinates. A
Gromov-Wasserstein barycenter is the cloud whose distances are closest to those of both,
and moving the weights from one to the other morphs the shapes. See the :ref:`user guide
<user_guide_transport>`. The example takes half a minute
on one core.
"""

# %%
# Two shapes
# ----------
# Points inside two characters of a font, turned against each other.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.textpath import TextPath

from skicml.transport import gw_barycenter

rng = np.random.default_rng(0)


def points_in(character, n):
    """Sample the inside of a character, centered."""
    path = TextPath((0, 0), character, size=1)
    low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
    inside = []
    while len(inside) < n:
        drawn = low + (high - low) * rng.random((20 * n, 2))
        inside.extend(drawn[path.contains_points(drawn)])
    points = np.array(inside[:n])
    return points - points.mean(axis=0)


first, last = points_in("2", 200), points_in("S", 220)
angle = 0.6
last = last @ [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]

# %%
# Five barycenters
# ----------------
# Each starts from the last. A coordinate system of its own is left to every barycenter:
# since each one starts from the first shape, all lie as that does.

shares = (0.0, 0.25, 0.5, 0.75, 1.0)
shapes = []
cloud = first
for share in shares:
    found = gw_barycenter(
        [first, last],
        [1 - share, share],
        init=cloud,
        n_steps=25,
        epsilon=2e-3,
    )
    cloud = found.X
    shapes.append(cloud)
    print(f"share {share:.2f}: objective {found.loss[0]:.2e} to {found.loss[-1]:.2e}")

figure, axes = plt.subplots(1, 7, figsize=(12, 2.4), layout="constrained")
color = first[:, 1]
for ax, points, title in zip(
    axes,
    (first, *shapes, last),
    ("first shape", *(f"{share:.0%}" for share in shares), "second shape"),
    strict=True,
):
    # the second shape has other points, and so no colors
    shade = {"color": "#7F7F7F"} if points is last else {"c": color, "cmap": "viridis"}
    ax.scatter(*points.T, s=5, **shade)
    ax.set_title(title, fontsize="medium")
    ax.set(xticks=[], yticks=[], xlim=(-0.6, 0.6), ylim=(-0.6, 0.6), aspect="equal")
plt.show()

# %%
# Conclusion
# ----------
# Colors follow the points: the barycenters bend one character into the other, without
# any point being told where to go.
