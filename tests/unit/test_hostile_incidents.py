"""Backgrounds, incidents and detectors of keys from untrusted files: refused, or they work."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.kernel.sealing import saved, sealed, unsealed

SYMBOLS = np.random.default_rng(7).integers(4, size=300)
KEYS = [f"key {i % 3}" for i in range(len(SYMBOLS))]
VALUES = [-1, 0, 1, 3, 7, 10**6, 2**62, -1.0, 0.5, 1e9, 1e300, None, "x", [], [0], {}, True]
N_CHANGES = 90


def everybody() -> mdvpf.Markov:
    chain = mdvpf.Markov(4, order=1)
    chain.run(SYMBOLS[::-1])
    return chain


def with_incidents() -> mdvpf.SurpriseDetector:
    settings: dict[str, Any] = {"false_incidents": 300.0, "warm_up": 10, "memory": 30, "trace": 50}
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(4, order=1), **settings)
    detector.run([*SYMBOLS[:163], *[1] * 40], keys=KEYS[:203])
    assert detector.incidents
    return detector


def with_background() -> mdvpf.SurpriseDetector:
    chain = mdvpf.Markov(4, order=1)
    chain.run(SYMBOLS)
    detector = mdvpf.SurpriseDetector(chain, block=6, background=everybody(), learn="own")
    detector.run(SYMBOLS[:101])
    return detector


def keyed() -> mdvpf.KeyedDetector:
    template = mdvpf.SurpriseDetector(
        mdvpf.Markov(4), background=everybody(), false_incidents=300.0, warm_up=5
    )
    users = mdvpf.KeyedDetector(template, max_keys=5)
    users.run(SYMBOLS[:200], KEYS[:200])
    return users


def background() -> mdvpf.Background:
    return mdvpf.Background(everybody(), learn=True)


def over_numbers() -> mdvpf.SurpriseDetector:
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(), kappa=10.0)
    settings: dict[str, Any] = {"false_incidents": 300.0, "warm_up": 10, "memory": 30, "trace": 50}
    detector = mdvpf.SurpriseDetector(mdvpf.ParticleFilter(model, n_particles=3), **settings)
    noise = np.random.default_rng(8).normal(size=163)
    detector.run([*noise, *[0.5] * 40], keys=KEYS[:203])
    assert detector.incidents
    return detector


Maker = Callable[[], Any]
KINDS: dict[str, Maker] = {
    "incidents": with_incidents,
    "background": with_background,
    "keys": keyed,
    "shared": background,
    "numbers": over_numbers,
}


def places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a tree of lists and dictionaries, as what holds it and where."""
    entries = values.items() if isinstance(values, dict) else enumerate(values)
    for where, each in list(entries):
        yield values, where
        if isinstance(each, dict | list):
            yield from places(each)


def go_on(thing: Any) -> None:
    """Use what was loaded, as its owner would, and save it."""
    if isinstance(thing, mdvpf.Background):
        thing = mdvpf.SurpriseDetector(mdvpf.Markov(4), block=5, background=thing)
    result = thing.run(SYMBOLS[:60], keys=KEYS[:60])
    assert len(result) == 60
    assert not np.isnan(result.surprise).any()
    twin = type(thing).load(io.BytesIO(saved(thing)))
    assert twin.copy().update(1, "key 0") == thing.update(1, "key 0")
    for incident in getattr(thing, "incidents", ())[-1:]:
        if isinstance(incident, mdvpf.Incident) and incident.end >= thing.trace.first_time:
            thing.explain(incident)


@pytest.mark.parametrize("kind", KINDS)
def test_what_loads_after_a_change_goes_on(kind: str) -> None:
    made = KINDS[kind]()
    go_on(type(made).load(io.BytesIO(saved(made))))
    opened = unsealed(saved(made))
    chance = random.Random(0)
    refused = 0
    for _ in range(N_CHANGES):
        twin = copy.deepcopy(opened)
        holder, where = chance.choice(list(places(twin.values())))
        if isinstance(holder, dict) and chance.random() < 0.1:
            del holder[where]
        else:
            holder[where] = chance.choice(VALUES)
        try:
            found = type(made).load(io.BytesIO(sealed(twin)))
        except mdvpf.CheckpointError:
            refused += 1
            continue
        go_on(found)
    assert refused > N_CHANGES / 4


@pytest.mark.parametrize("kind", ["incidents", "keys", "numbers"])
def test_arrays_that_no_stream_leads_to_are_refused_or_harmless(kind: str) -> None:
    made = KINDS[kind]()
    opened = unsealed(saved(made))
    chance = np.random.default_rng(0)
    # of the detectors of keys, the first stands for all
    names = sorted(name for name in opened.arrays if not name.endswith((" 1", " 2")))
    assert names
    for i in range(3 * len(names)):
        twin = copy.deepcopy(opened)
        array = twin.arrays[names[i % len(names)]]
        if array.size == 0:
            continue
        if i // len(names) == 0:
            twin.arrays[names[i % len(names)]] = array[:-1]
        else:
            bad = {"f": np.nan, "i": -7, "u": np.iinfo(np.uint8).max}[array.dtype.kind]
            array.flat[int(chance.integers(array.size))] = bad
        try:
            found = type(made).load(io.BytesIO(sealed(twin)))
        except mdvpf.CheckpointError:
            continue
        go_on(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_cut_or_flipped_is_refused(kind: str) -> None:
    made = KINDS[kind]()
    content = saved(made)
    chance = random.Random(1)
    for _ in range(20):
        at = chance.randrange(len(content))
        flipped = bytearray(content)
        flipped[at] ^= 1 << chance.randrange(8)
        for bad in (content[:at], bytes(flipped)):
            with pytest.raises(mdvpf.CheckpointError):
                type(made).load(io.BytesIO(bad))


def test_without_incidents_and_background_files_are_those_of_version_1() -> None:
    """So that detectors written before incidents and backgrounds existed load, and are written."""
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(4), block=6, learn="unflagged")
    detector.run(SYMBOLS[:100])
    opened = unsealed(saved(detector))
    assert set(opened.values()) == {"settings", "running"}
    assert set(opened.values()["settings"]) == {
        "block",
        "smoothing",
        "false_alarms",
        "learn",
        "warm_up",
        "memory",
        "gain",
        "change_limit",
    }
