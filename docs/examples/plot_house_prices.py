"""
House prices from a CSV file
============================

Fit a file that is read in batches, print the table of effects, and check that the intervals contain
as many prices as they should. The file has a price, numbers and a category, as such files do.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from miniamp import from_formula

# %%
# A file of 3000 sales: prices grow with the area, fall with the age, and depend on the zone.
rng = np.random.default_rng(0)
sales = pd.DataFrame(
    {
        "area": rng.gamma(8.0, 12.0, 3000),
        "age": rng.integers(0, 80, 3000),
        "zone": rng.choice(["centre", "north", "south"], 3000, p=[0.2, 0.5, 0.3]),
    }
)
worth = sales.zone.map({"centre": 90.0, "north": 20.0, "south": 0.0})
sales["price"] = 50.0 + 2.5 * sales.area - 0.8 * sales.age + worth + rng.normal(0, 25, 3000)
sales.to_csv("sales.csv", index=False)

# %%
# Read it in pieces of 500 rows. The first piece decides the levels of the zone; "south" is the
# reference, so that the other zones are differences from it.
model = from_formula(
    "price ~ area + age + C(zone, contr.treatment('south'))", estimator="regressor"
)
*learned, last = pd.read_csv("sales.csv", chunksize=500)
for piece in learned:
    model.partial_fit(piece)
print(model.summary_text())

# %%
# The last 500 sales have not been seen. Nine in ten should lie within their intervals.
mean, (low, high) = model.predict(last), model.predict_interval(last, level=0.9)
inside = (low <= last.price) & (last.price <= high)
order = np.argsort(mean)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(mean[order], low[order], high[order], color="#4269d0", alpha=0.2, label="90 %")
ax.plot(mean[inside], last.price[inside], ".", ms=4, color="#4269d0", label="inside")
ax.plot(mean[~inside], last.price[~inside], "x", ms=5, color="#e4572e", label="outside")
ax.set(xlabel="predicted price", ylabel="price", title=f"{inside.mean():.0%} of new sales inside")
ax.legend(frameon=False)
plt.show()
