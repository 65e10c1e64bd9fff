"""Smoke test of an installed mdvpf: run it from outside the source tree."""

import importlib.metadata
import importlib.resources
import math
import sys

import mdvpf

assert mdvpf.__file__.startswith(sys.prefix), mdvpf.__file__
assert importlib.metadata.version("mdvpf") == mdvpf.__version__
assert importlib.resources.files("mdvpf").joinpath("py.typed").is_file()

model = mdvpf.InfiniteHMM(n_symbols=3)
for algorithm in (mdvpf.MDVPA(), mdvpf.VPA(), mdvpf.SMC()):
    pf = mdvpf.ParticleFilter(model, algorithm, n_particles=50, rng=0)
    result = pf.run([0, 1, 2] * 40)
    late = result.log_predictive[60:].mean()
    assert math.isclose(pf.predict_proba().sum(), 1.0, rel_tol=1e-9), algorithm
    assert late > math.log(1 / 3), (algorithm, late)

print(f"mdvpf {mdvpf.__version__} works in {sys.prefix}")
