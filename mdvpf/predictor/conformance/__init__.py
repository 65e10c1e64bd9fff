"""`check_predictor`: test whether a user's predictor follows the protocol.

Mixtures, detectors, monitors and coders rely on promises of the protocol: a prediction is a
distribution, a step is scored with that prediction, copies are independent. Each function here
tests one promise on copies of the predictor and short streams, and reports it if it is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdvpf.predictor.conformance import abilities, keys, sequences
from mdvpf.predictor.conformance.trials import named
from mdvpf.predictor.protocol import Predictor

__all__ = ["check_predictor"]


def check_predictor(predictor: Predictor | Callable[[], Predictor]) -> None:
    """Check that a predictor, typically one of your own, follows the protocol.

    The checks use copies of the predictor and short streams. They cover predictions and reports,
    missing and bad symbols, new sequences, `run`, `score` and `copy`. They also cover keys if
    `update` takes them, an open alphabet if there is one, and `freeze` and `save` if supported.

    Parameters
    ----------
    predictor : Predictor, or callable
        The predictor, in any state, or a callable without arguments that returns one.

    Raises
    ------
    AssertionError
        If a promise is broken. The message names the promise and the values.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> class Forgetful(mdvpf.Markov):
    ...     def predict_proba(self, key=None):
    ...         return np.array([0.5, 0.4])
    >>> mdvpf.check_predictor(mdvpf.Markov(2))
    >>> mdvpf.check_predictor(Forgetful(2))
    Traceback (most recent call last):
        ...
    AssertionError: Forgetful: predict_proba is a distribution: at first its sum is 0.9, not 1
    """
    found = predictor if isinstance(predictor, Predictor) else _create(predictor)
    checks = [
        ("copy is independent", sequences.check_copy),
        ("n_symbols and is_open describe the alphabet", sequences.check_alphabet),
        ("predict_proba is a distribution", sequences.check_distribution),
        ("update returns a Step", sequences.check_step),
        ("update scores a symbol by the prediction before it", sequences.check_score_of_update),
        ("a missing symbol has log predictive 0", sequences.check_missing),
        ("copies behave alike", sequences.check_determinism),
        ("new_sequence ends a sequence", sequences.check_new_sequence),
        ("run is update of each symbol", sequences.check_run),
        ("score is the run of a copy", sequences.check_score),
        ("a bad symbol is refused and changes nothing", sequences.check_bad_symbols),
        ("freeze returns a predictor that does not learn", abilities.check_freeze),
    ]
    if found.is_open:
        checks.append(("an open alphabet grows with each new symbol", sequences.check_open))
    if found._takes_keys:
        checks += [
            ("predict_proba and new_sequence take a key, as update does", keys.check_key_arguments),
            ("a key is a sequence like any other", keys.check_one_key),
            ("run with keys is update of each symbol with its key", keys.check_run_with_keys),
            ("a key whose sequence ends is back at the start", keys.check_end_of_key),
            ("keys have positions of their own", keys.check_positions),
            ("n_keys counts the keys in use", keys.check_number_of_keys),
            ("max_keys ends the key used longest ago", keys.check_max_keys),
            ("a bad key is refused and changes nothing", keys.check_bad_keys),
        ]
    checks.append(("load continues where save left off", abilities.check_save))
    for promise, check in checks:
        with named(found, promise):
            check(found)


def _create(make: Any) -> Predictor:
    if not callable(make):
        raise TypeError(f"predictor={make!r}: expected a Predictor, or a callable that returns one")
    found = make()
    if not isinstance(found, Predictor):
        raise TypeError(f"predictor() returned {found!r}: expected a Predictor")
    return found
