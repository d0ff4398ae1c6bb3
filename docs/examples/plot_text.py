"""
Text classification from hashed words
=====================================

Classify messages while they arrive. Words are hashed into a fixed number of columns, so that
new words need no new model, and rows stay sparse.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from miniamp import MiniAMPClassifier

# %%
# Messages of two kinds: most words are common to both, some are typical of one.
rng = np.random.default_rng(1)
common = [f"word{i}" for i in range(800)]
typical = {
    "spam": ["prize", "winner", "cash", "free", "click"],
    "mail": ["meeting", "draft", "lunch"],
}


def message(kind):
    words = list(rng.choice(common, 12))
    if rng.random() < 0.9:
        words += list(rng.choice(typical[kind], 2))
    return " ".join(rng.permutation(words))


# %%
# Batches of 100 messages. Each is predicted before it is learned from.
vectorizer = HashingVectorizer(n_features=2**10, alternate_sign=False, norm=None)
model, errors = MiniAMPClassifier(), []
for batch in range(15):
    kinds = rng.choice(["spam", "mail"], 100, p=[0.3, 0.7])
    X = vectorizer.transform([message(kind) for kind in kinds])
    if batch:
        errors.append(np.mean(model.predict(X) != kinds))
    model.partial_fit(X, kinds, classes=["mail", "spam"])

# %%
# Which words matter: look their columns up.
words = typical["spam"] + typical["mail"] + common[:4]
column = vectorizer.transform(words).indices
effect, spread = model.coef_[0, column], model.coef_std_[0, column]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(range(2, 16), errors, "o-", color="#4269d0")
left.set(xlabel="batch", ylabel="share of mistakes before learning", ylim=(0, None))
right.errorbar(effect, range(len(words)), xerr=1.64 * spread, fmt="o", color="#e4572e")
right.axvline(0.0, color="grey", lw=0.8)
right.set_yticks(range(len(words)), words)
right.set(xlabel="coefficient for spam, with 90 % interval")
right.invert_yaxis()
plt.show()
