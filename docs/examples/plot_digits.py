"""
Clustering handwritten digits
=============================

Find groups in images that arrive in batches, with an error bar on every pixel of every centre.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from miniamp import MiniAMPClusterer

# %%
# Four kinds of digits, 64 pixels each, in random order.
X, y = load_digits(n_class=4, return_X_y=True)
order = np.random.default_rng(4).permutation(len(y))
X, y = X[order], y[order]
model = MiniAMPClusterer(n_clusters=4, random_state=0)
for part in np.array_split(np.arange(len(y)), 4):
    model.partial_fit(X[part])
agreement = adjusted_rand_score(y, model.predict(X))
print(model.summary_text())

# %%
# Above, the centres; below, an image of each cluster.
fig, axes = plt.subplots(2, 4, figsize=(7, 4), layout="constrained")
for k, (above, below) in enumerate(axes.T):
    member = X[np.flatnonzero(model.predict(X) == k)[0]]
    for ax, image in ((above, model.cluster_centers_[k]), (below, member)):
        ax.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
    share, std = model.cluster_weights_[k], model.cluster_std_[k].mean()
    above.set_title(f"{share:.0%} of rows, ± {std:.1f}", fontsize=9)
fig.suptitle(f"Agreement with the true digits (adjusted Rand index): {agreement:.2f}", fontsize=10)
plt.show()
