"""
A drifting sensor
=================

Follow coefficients that change with time: `forget` lets old rows fade. Without it the model
averages over all of the past, and its health report says when that went wrong.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from miniamp import MiniAMPRegressor

# %%
# A sensor whose gain drifts slowly, and jumps once when it is replaced.
rng = np.random.default_rng(2)
batches, rows = 60, 50
gain = 1.0 + 0.5 * np.sin(np.arange(batches) / 20.0) + 1.0 * (np.arange(batches) >= 40)
models = {0.8: MiniAMPRegressor(forget=0.8), 1.0: MiniAMPRegressor()}
followed = {forget: [] for forget in models}
for g in gain:
    X = rng.normal(size=(rows, 3))
    y = X @ [g, -1.0, 0.5] + rng.normal(0, 0.3, rows)
    for forget, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # health warnings: printed below
            model.partial_fit(X, y)
        followed[forget].append((model.coef_[0], model.coef_std_[0]))

# %%
# What was found, and in which batch for the first time.
for forget, model in models.items():
    print(f"forget={forget}: {model.health_.past or 'nothing was ever wrong'}")

# %%
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(gain, color="black", lw=1.5, label="true gain")
for (forget, found), colour in zip(followed.items(), ("#4269d0", "#e4572e"), strict=True):
    mean, std = np.array(found).T
    ax.plot(mean, color=colour, label=f"forget={forget}")
    ax.fill_between(range(batches), mean - 2 * std, mean + 2 * std, color=colour, alpha=0.2)
ax.set(xlabel="batch", ylabel="gain of the sensor")
ax.legend(frameon=False)
plt.show()
