"""Packages that are loaded lazily are loaded before pytest looks at their files.

Otherwise pytest, which finds modules by path, would put the module `theory/plan.py` in the place of
the function `theory.plan` that the package exports under the same name.
"""

import importlib

for _name in ("estimators", "report", "streams", "theory", "theory.lowrank"):
    importlib.import_module(f"miniamp.{_name}")
