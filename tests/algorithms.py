"""Every algorithm in the settings that matter, for tests of what every filter promises.

Add a new algorithm here.
"""

from __future__ import annotations

import mdvpf
from mdvpf.model.algorithms import Algorithm

EVERY_ALGORITHM: dict[str, Algorithm] = {
    "MD-VPA": mdvpf.MDVPA(),
    "MD-VPA bold": mdvpf.MDVPA(discount=2.5, normalizer="sum"),
    "MD-VPA optimal": mdvpf.MDVPA(discount="1/sqrt(n)", normalizer="none", selection="optimal"),
    "MD-VPA without weights": mdvpf.MDVPA(carry_weights=False),
    "VPA": mdvpf.VPA(),
    "VPA without weights": mdvpf.VPA(carry_weights=False),
    "SMC": mdvpf.SMC(),
    "SMC systematic, ESS": mdvpf.SMC(resampling="systematic", ess_threshold=0.5),
    "SMC residual": mdvpf.SMC(resampling="residual"),
    "SMC stratified": mdvpf.SMC(resampling="stratified"),
    "ParticleLearning": mdvpf.ParticleLearning(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}
