"""
Planning an experiment
======================

Decide how many rows to collect before collecting any: theory predicts the error after every
batch, for the signal and the noise that you expect.
"""

import matplotlib.pyplot as plt
import numpy as np

from miniamp import MiniAMPRegressor, channels, priors, theory

# %%
# 1000 coefficients, one in ten not zero, noise of variance 0.01: rows for an error of 1e-3?
features, sparsity, noise, batch_rows = 1000, 0.1, 0.01, 180
prior, channel = priors.GaussBernoulli(rho=sparsity), channels.Gaussian(var=noise)
plan = theory.plan(prior, channel, features, target_mse=1e-3)
print(plan)

# %%
# Then the experiment: rows with entries of variance 1/N, as theory assumes, in equal batches.
rng = np.random.default_rng(5)
coef = prior.sample(rng, features)
model, errors = MiniAMPRegressor(prior, noise=noise, solver="amp", fit_intercept=False), []
for _ in range(16):
    X = rng.normal(size=(batch_rows, features)) / np.sqrt(features)
    model.partial_fit(X, X @ coef + rng.normal(0, np.sqrt(noise), batch_rows))
    errors.append(np.mean(np.square(model.coef_ - coef)))
expected = [entry["theory_variance"] for entry in model.history_]

# %%
rows = batch_rows * np.arange(1, 17)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.semilogy(rows, expected, "-", color="black", label="predicted before the experiment")
ax.semilogy(rows, errors, "o", color="#e4572e", label="measured")
ax.axhline(1e-3, color="grey", lw=0.8, ls="--", label="target")
ax.set(xlabel="rows", ylabel="mean squared error of a coefficient")
ax.legend(frameon=False)
plt.show()
