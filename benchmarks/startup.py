"""What a fresh process waits for: the import, the first call, and, once, the compiler.

In seconds of CPU, which others on the machine do not change: all of it runs in one thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.timing import Row, below

IMPORT = "import time; t = time.process_time(); import miniamp; print(time.process_time() - t)"

#: AMP and GAMP on a matrix that is worth compiling for.
FIRST = """
import time
import numpy as np
from miniamp import Posterior, Stop, absorb, channels, designs, evidence, priors
rng = np.random.default_rng(0)
Phi, y = rng.normal(size=(700, 2000)), rng.normal(size=700)
t = time.process_time()
for design in (designs.Averaged(Phi), designs.Fused(Phi)):
    batch = evidence.Batch(design, y, channels.Gaussian(1.0))
    absorb(Posterior(priors.GaussBernoulli(0.3), 2000), batch, Stop(max_iter=1))
print(time.process_time() - t)
"""

#: Every other kernel there is: sparse rows, ADF, mean field, labels.
REST = """
import time
import numpy as np
from scipy import sparse
from miniamp import Posterior, Stop, absorb, channels, evidence, priors
rng = np.random.default_rng(0)
Phi, y = rng.normal(size=(700, 2000)), rng.normal(size=700)
belief, noise, stop = Posterior(priors.GaussBernoulli(0.3), 2000), channels.Gaussian(1.0), Stop(1)
t = time.process_time()
for rows in (Phi, sparse.csr_array(Phi)):
    absorb(belief, evidence.Batch(rows, y, noise), stop)
    absorb(belief, evidence.Batch(rows, np.sign(y), channels.Probit()), stop)
    absorb(belief, evidence.MeanFieldBatch(rows, y, noise), stop)
    evidence.adf(belief, rows, y, noise)
print(time.process_time() - t)
"""


def seconds(script: str, **environment: str) -> float:
    """What the script prints, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def waits() -> Iterator[Row]:
    imported = min(seconds(IMPORT) for _ in range(5))
    yield below("import miniamp", imported, 1.0, "s of CPU")
    seconds(FIRST)
    warm = min(seconds(FIRST) for _ in range(5))
    yield below("first AMP and GAMP iteration of a process, kernels on disk", warm, 1.0, "s of CPU")
    with tempfile.TemporaryDirectory() as folder:
        cold = seconds(FIRST, NUMBA_CACHE_DIR=folder)
        yield below("the same, nothing compiled yet", cold, 15.0, "s of CPU")
    with tempfile.TemporaryDirectory() as folder:
        cold = seconds(REST, NUMBA_CACHE_DIR=folder)
        yield below("every kernel there is, nothing compiled yet", cold, 15.0, "s of CPU")


CASES = (waits,)
