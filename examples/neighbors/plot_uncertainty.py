"""
Does the model know where it does not know?
===========================================

:class:`~skicml.neighbors.ENNRegressor` splits its uncertainty in two. The *epistemic*
part comes from missing data: more rows nearby make it smaller. The *aleatoric* part is
noise: no amount of data removes it. Here both are held against two real data sets that
differ in exactly this. The mathematics is in the
:ref:`user guide <user_guide_enn>`.
"""

# %%
# Terrain, with a hole in the survey
# ----------------------------------
# The first data set is a digital elevation model of the Jacksboro fault in Tennessee,
# which ships with matplotlib. A survey measures 3,000 of its cells, but none within a
# forbidden circle. Heights repeat when they are measured again, so there is no noise to
# speak of: whatever is uncertain is so for lack of data.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data

from skicml import ENNRegressor

with get_sample_data("jacksboro_fault_dem.npz") as file:
    height = file["elevation"].astype(float)
    km_per_cell = 111.2 * file["dy"] * np.array([1.0, np.cos(np.radians(36.6))])

row, column = np.indices(height.shape)
north = km_per_cell[0] * row[::-1].ravel()
east = km_per_cell[1] * column.ravel()
X, y = np.column_stack([east, north]), height.ravel()
circle = np.hypot(east - 20, north - 19) < 4

rng = np.random.default_rng(0)
allowed = np.flatnonzero(~circle)
survey = rng.choice(allowed, 3000, replace=False)
model = ENNRegressor(random_state=0).fit(X[survey], y[survey])
mean, epistemic, aleatoric = model.predict(X, return_parts=True)

for name, where in (("outside", ~circle), ("inside", circle)):
    error = np.sqrt(np.mean((y - mean)[where] ** 2))
    print(
        f"{name} the circle: epistemic {np.median(epistemic[where]):.0f} m, "
        f"aleatoric {np.median(aleatoric[where]):.1f} m, true error {error:.0f} m"
    )

# %%
# The epistemic part draws the circle, and the gaps of the survey too. Nobody told the
# model where they are. Inside, it is cautious rather than exact: the model lets its
# doubt grow with the distance to the data, while real terrain does not go on rising.

extent = (0, east.max(), 0, north.max())
figure, axes = plt.subplots(1, 3, figsize=(10, 4), sharey=True, layout="constrained")
panels = (
    (y, "true height", "cividis", None),
    (mean, "predicted height", "cividis", None),
    (epistemic, "epistemic standard deviation", "magma", epistemic.max()),
)
for ax, (values, title, colors, top) in zip(axes, panels, strict=True):
    low, high = (y.min(), y.max()) if top is None else (0, top)
    image = ax.imshow(
        values.reshape(height.shape), extent=extent, cmap=colors, vmin=low, vmax=high
    )
    ax.set(title=title, xlabel="east (km)")
    figure.colorbar(image, ax=ax, label="m", location="bottom", shrink=0.9)
axes[0].plot(*X[survey].T, ".", color="white", markersize=0.8, alpha=0.6)
axes[0].add_patch(plt.Circle((20, 19), 4, fill=False, color="white"))
axes[0].set_ylabel("north (km)")
plt.show()

# %%
# What more rows change
# ---------------------
# The second data set is the progression of diabetes in 442 patients. Ten measurements
# at the start do not decide how a disease goes on: this is noise, as far as any model
# of these ten columns can tell.

from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

patients, progression = load_diabetes(return_X_y=True)
patients = StandardScaler().fit_transform(patients)


def parts(X, y, n_rows, n_repeats):
    """Mean of both parts on unseen rows, over models of random training sets."""
    found = []
    for seed in range(n_repeats):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:n_rows], order[-90:]
        model = ENNRegressor(n_fit_samples=400, random_state=seed)
        model.fit(X[train], y[train])
        _, epistemic, aleatoric = model.predict(X[test], return_parts=True)
        found.append([epistemic.mean(), aleatoric.mean()])
    return np.mean(found, axis=0)


sizes = {
    "terrain": [100, 300, 1000, 3000, 10_000, 30_000],
    "diabetes": [25, 50, 100, 200, 350],
}
curves = {
    "terrain": [parts(X[allowed], y[allowed], n, 3) for n in sizes["terrain"]],
    "diabetes": [parts(patients, progression, n, 20) for n in sizes["diabetes"]],
}

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
units = {"terrain": "height (m)", "diabetes": "progression (score)"}
for ax, (name, curve) in zip(axes, curves.items(), strict=True):
    epistemic_curve, aleatoric_curve = np.array(curve).T
    ax.plot(sizes[name], epistemic_curve, "o-", color="#0072B2", label="epistemic")
    ax.plot(sizes[name], aleatoric_curve, "s--", color="#D55E00", label="aleatoric")
    ax.set(
        title=name,
        xscale="log",
        ylim=(0, None),
        xlabel="training rows",
        ylabel=f"standard deviation of {units[name]}",
    )
    ax.set_xticks(sizes[name], [f"{n:,}" for n in sizes[name]])
    ax.minorticks_off()
    ax.legend()
    print(
        f"{name}, {sizes[name][0]} to {sizes[name][-1]} rows: epistemic "
        f"{epistemic_curve[0]:.0f} to {epistemic_curve[-1]:.0f}, aleatoric "
        f"{aleatoric_curve[0]:.0f} to {aleatoric_curve[-1]:.0f}"
    )
plt.show()

# %%
# Do the intervals hold what they promise?
# ----------------------------------------
# An interval at a level of 80% should contain 80% of the values that the model has not
# seen. Five-fold cross-validation counts how many it does contain, at every level. The
# terrain is drawn with 3,000 cells.

from scipy.stats import norm
from sklearn.model_selection import KFold

levels = np.linspace(0.05, 0.99, 48)


def coverage(X, y):
    """Share of unseen values within the central interval of each level."""
    z = np.empty(len(y))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        model = ENNRegressor(random_state=0).fit(X[train], y[train])
        mean, std = model.predict(X[test], return_std=True)
        z[test] = np.abs(y[test] - mean) / std
    return np.mean(z[:, None] <= norm.ppf(0.5 + levels / 2), axis=0)


figure, ax = plt.subplots(figsize=(5, 4.6), layout="constrained")
ax.plot([0, 1], [0, 1], color="#7F7F7F", linewidth=1, label="as promised")
for name, data, style in (
    ("terrain", (X[survey], y[survey]), {"color": "#0072B2"}),
    ("diabetes", (patients, progression), {"color": "#D55E00", "linestyle": "--"}),
):
    share = coverage(*data)
    at95 = np.interp(0.95, levels, share)
    gap = np.abs(share - levels).max()
    ax.plot(levels, share, label=name, **style)
    print(f"{name}: the 95% interval holds {at95:.1%}, largest gap {gap:.1%}")
ax.set(xlabel="level of the interval", ylabel="share of unseen values inside")
ax.legend()
plt.show()

# %%
# Conclusion
# ----------
# Inside the circle without measurements the epistemic part is several times as large as
# outside, and there is next to no noise on terrain, as it should be. More cells shrink
# the epistemic part many times over. They shrink the aleatoric part too, while there are
# few: what happens between two distant neighbors looks like noise to any model that
# learns from neighbors. In the diabetes data the noise does not go away, however many
# patients there are. The intervals of both come close to their promise. All numbers are printed
# above. So the split answers a practical question: where the epistemic part dominates,
# collect rows; where the aleatoric part does, collect better columns.
