"""The default of beta, the model of the paper, and what files of version 1 say about beta."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest

import mdvpf
from mdvpf.experiments import adversarial, artificial, compare, literal
from mdvpf.experiments.data import Data
from mdvpf.experiments.methods import Filter
from mdvpf.experiments.options import Options
from mdvpf.model import extensions
from mdvpf.streams.methods import found_settings, make_predictor
from tests.kernel.sealing import loaded, saved, sealed, unsealed

FILES = Path(__file__).resolve().parents[1] / "data"


@pytest.mark.parametrize("n_symbols", [1, 2, 3, 27, 10_000, 2**31 - 2])
def test_beta_is_one_observation_spread_over_the_symbols(n_symbols: int) -> None:
    model = mdvpf.InfiniteHMM(n_symbols)
    assert model.beta == 1 / n_symbols
    assert model == mdvpf.InfiniteHMM(n_symbols, beta=None)
    assert model == mdvpf.InfiniteHMM(n_symbols, beta=1 / n_symbols)


def test_every_reader_sees_the_number_in_force() -> None:
    model = mdvpf.InfiniteHMM(3)
    assert eval(repr(model), vars(mdvpf)) == model
    assert "beta=0.3333333333333333" in repr(model)
    assert hash(model) == hash(mdvpf.InfiniteHMM(3, beta=1 / 3))
    assert copy.deepcopy(model).beta == 1 / 3
    assert replace(model, alpha=2.0).beta == 1 / 3


def test_a_filter_uses_it() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4), mdvpf.VPA(), n_particles=5)
    pf.update(2)
    # One state, which came after S once: the next is that one or a new one, 1/2 each (alpha = 1,
    # U = 1, gamma = 1). In the first, 2 has (1 + 1/4) / (1 + 1).
    assert pf.predict_proba()[2] == pytest.approx(0.5 * 1.25 / 2 + 0.5 / 4)


def test_the_model_of_the_paper() -> None:
    model = mdvpf.InfiniteHMM.paper(5)
    assert model == mdvpf.InfiniteHMM(
        5, alpha=1.0, gamma=1.0, beta=0.3, oracle="unvisited", max_states=None
    )
    assert extensions(model) == {}
    with pytest.raises(ValueError, match="n_symbols=0"):
        mdvpf.InfiniteHMM.paper(0)


# ---- files -----------------------------------------------------------------------------------


def test_files_of_version_1_name_their_beta_and_keep_it() -> None:
    for name in ("mdvpa", "mdvpa-optimal", "vpa", "smc", "learning", "optimal"):
        path = FILES / f"version-1-{name}.mdvpf"
        assert unsealed(path.read_bytes()).values()["model"]["beta"] == 0.2
        assert mdvpf.ParticleFilter.load(path).model.beta == 0.2


def test_a_filter_with_the_old_default_keeps_it_through_a_file() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM.paper(6), n_particles=4)
    pf.run([0, 1, 5, 0])
    again = loaded(saved(pf))
    assert again.model.beta == 0.3
    assert again.predict_proba().tolist() == pf.predict_proba().tolist()


def test_a_file_always_names_the_number_in_force() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(8), n_particles=4)
    opened = unsealed(saved(pf))
    assert opened.values()["model"]["beta"] == 0.125
    opened.values()["model"]["beta"] = 0.3
    assert loaded(sealed(opened)).model.beta == 0.3


# ---- who takes which default -----------------------------------------------------------------


def test_experiments_keep_the_beta_of_the_paper() -> None:
    options = Options(particles=5, seeds=1, length=20)
    assert options.beta == Filter(mdvpf.VPA(), 5).beta == mdvpf.InfiniteHMM.paper(2).beta
    assert adversarial.ADVERSARIAL.defaults.beta == 0.3
    assert artificial.ARTIFICIAL.defaults.beta == 1.0
    assert literal.BETAS == (0.1, 0.3, 1.0, 3.0)


def test_methods_of_the_commands_take_the_new_default() -> None:
    for name in ("MD-VPA", "VPA", "SMC"):
        assert found_settings(make_predictor(name, 5))["beta"] == 0.2
        assert found_settings(make_predictor(name, 5, beta=0.3))["beta"] == 0.3


def test_a_comparison_on_an_own_stream_uses_the_new_default() -> None:
    data = Data("mine", mdvpf.datasets.switching_hmm(rng=0).symbols, 8)
    assert compare.completed(compare.DEFAULTS, data).beta == 1 / 8
    given = compare.DEFAULTS.changed(beta=0.3)
    assert compare.completed(given, data) == given


def test_a_bad_beta_is_refused_with_a_message_that_names_none() -> None:
    with pytest.raises(ValueError, match=r"beta=nan: expected a number in .*, or None"):
        mdvpf.InfiniteHMM(3, beta=math.nan)
