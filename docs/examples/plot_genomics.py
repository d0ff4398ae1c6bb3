"""
Sparse effects among many genes
===============================

Find a few effects among more columns than rows. A sparse prior learns how many coefficients
are not zero, and gives each the probability that it is one of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from miniamp import MiniAMPRegressor

# %%
# 400 samples, 2000 markers with values 0, 1, 2, of which 12 have an effect on the trait.
rng = np.random.default_rng(3)
samples, markers = 400, 2000
frequency = rng.uniform(0.1, 0.5, markers)
X = rng.binomial(2, frequency, size=(samples, markers)).astype(float)
effects = np.zeros(markers)
causal = rng.choice(markers, 12, replace=False)
effects[causal] = rng.choice([-1.0, 1.0], 12) * rng.uniform(0.5, 1.5, 12)
trait = X @ effects + rng.normal(0, 0.8, samples)

# %%
model = MiniAMPRegressor(prior="sparse").fit(X, trait)
print(model.summary_text(most=15))

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
chance, other = model.inclusion_probability_, effects == 0.0
left.plot(np.flatnonzero(other), chance[other], ".", ms=3, color="grey", label="no effect")
left.plot(causal, chance[causal], "o", color="#e4572e", label="effect")
left.set(xlabel="marker", ylabel="P(effect is not zero)")
left.legend(frameon=False)
right.axline((0, 0), slope=1, color="grey", lw=0.8)
right.errorbar(
    effects[causal],
    model.coef_[causal],
    yerr=1.64 * model.coef_std_[causal],
    fmt="o",
    color="#4269d0",
)
right.set(xlabel="true effect", ylabel="estimate, with 90 % interval")
plt.show()
