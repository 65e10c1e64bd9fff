"""Make the monitor of `mdvpf filter` from its options, or compare them with a checkpoint.

`given` has the options of the predictor and the detector that the user set, and `lines` those of
the input.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from mdvpf.cli import shared
from mdvpf.detect import SurpriseDetector
from mdvpf.filter import ParticleFilter
from mdvpf.model import Gaussian, Poisson
from mdvpf.predictor import Predictor, Vocabulary
from mdvpf.streams.formats import FORMATS, LineFormat, make_format
from mdvpf.streams.formats.lines import Lines
from mdvpf.streams.methods import (
    AUTO,
    BASE,
    SETTINGS,
    found_settings,
    make_number_filter,
    make_predictor,
    method_of,
    read_family,
    resolve_method,
)
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.reading import format_of

METHOD_OPTIONS = ("method", "algorithm")  # the second is the old name of the first
MONITOR_OPTIONS = ("max_keys", "key_ttl", "n_expected")
UNKNOWN = "OTHER"  # with --max-labels, unless --unknown is given


def read_vocabulary(
    path: Path | None, max_labels: int | None, unknown: str | None
) -> dict[str, Any]:
    """Return the vocabulary that the options describe, by the name of its setting; or raise."""
    if path is None and max_labels is None:
        if unknown is not None:
            raise ValueError(
                f"unknown={unknown!r}: expected only with --vocabulary or --max-labels"
            )
        return {}
    labels: list[str] = []
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected text in UTF-8 ({error.reason})") from error
        # Lines of the stream are split and stripped in the same way.
        labels = [line.strip() for line in text.split("\n") if line.strip()]
        if not labels and unknown is None and max_labels is None:
            raise ValueError(f"{path}: no labels; expected at least one line, or --unknown")
    if max_labels is None:
        return {"vocabulary": Vocabulary.from_data(labels, unknown)}
    unknown = UNKNOWN if unknown is None else unknown
    return {"vocabulary": Vocabulary.open(labels, max_labels=max_labels, unknown=unknown)}


def read_emission(emission: str | None, prior: str | None) -> Gaussian | Poisson | None:
    """Return the family of --emission with the parameters of --prior, or raise."""
    if emission is not None:
        return read_family(emission, prior or "")
    if prior is not None:
        raise ValueError(f"prior={prior!r}: expected only with --emission")
    return None


def read_method(method: str | None, algorithm: str | None) -> dict[str, str]:
    """Return the name of the method, keyed by the option that named it."""
    given = shared.given(method=method, algorithm=algorithm)
    if len(given) == 2:
        raise ValueError(f"algorithm={algorithm!r}: expected only --method, its new name")
    return {option: resolve_method(name, argument=option) for option, name in given.items()}


def new_monitor(given: dict[str, Any], lines: dict[str, Any], seed: int | None) -> Monitor:
    """Return the monitor that the options describe, or raise."""
    if "emission" in given:
        return _monitor_of(_filter_of_numbers(given, seed), None, given, lines)
    vocabulary, background = given.get("vocabulary"), None
    if "background" in given:
        background = Monitor.load(given["background"]).predictor
        if vocabulary is None and "symbols" not in given:
            vocabulary = background.vocabulary
            if vocabulary is None:
                given = given | {"symbols": background.n_symbols}
    if (vocabulary is None) == ("symbols" not in given):
        raise ValueError(
            "expected one of --max-labels N (labels as they appear, up to N), --vocabulary FILE "
            "(its lines), --symbols N (integers below N) and --emission FAMILY (numbers)"
        )
    predictor = make_predictor(
        given.get("method") or given.get("algorithm") or AUTO,
        given["symbols"] if vocabulary is None else vocabulary.capacity,
        given.get("particles"),
        seed,
        **{name: given[name] for name in SETTINGS if name in given},
    )
    predictor.vocabulary = vocabulary
    return _monitor_of(predictor, background, given, lines)


def _filter_of_numbers(given: dict[str, Any], seed: int | None) -> ParticleFilter:
    for name in ("symbols", "vocabulary", "background"):
        if name in given:
            raise ValueError(f"{name}={given[name]!r}: expected not together with --emission")
    return make_number_filter(
        given["emission"],
        given.get("method") or given.get("algorithm") or BASE,
        given.get("particles"),
        seed,
        **{name: given[name] for name in SETTINGS if name in given},
    )


def _monitor_of(
    predictor: Predictor,
    background: Predictor | None,
    given: dict[str, Any],
    lines: dict[str, Any],
) -> Monitor:
    others = {name: given[name] for name in MONITOR_OPTIONS if name in given}
    alarms = _alarm_settings(given)
    detector = SurpriseDetector(predictor, background=background, **alarms)
    if set(lines) <= {"missing"}:
        monitor = Monitor(detector, missing=lines.get("missing"), **others)
    else:
        monitor = Monitor(detector, format=_make_format(lines), **others)
    half_life = given.get("half_life")
    if monitor.format.fields.time is None:
        if isinstance(half_life, timedelta):
            raise ValueError(
                f"half_life={str(half_life)!r}: a time span needs events with times; expected "
                "--time, or a number of symbols"
            )
        shared.require_times(alarms)
    return monitor


def _make_format(lines: dict[str, Any]) -> LineFormat:
    """Return the format that the options of the input describe, or raise."""
    options = {name: value for name, value in lines.items() if name != "format"}
    name = lines.get("format", Lines.name)
    if name == Lines.name:
        _require_no_fields(options)
    return make_format(name, options)


def _require_no_fields(options: dict[str, Any]) -> None:
    """Raise if options name fields, which plain lines do not have."""
    for name, value in options.items():
        if name not in Lines.takes:
            option = "column" if name == "symbol" else name
            formats = ", ".join(form for form in FORMATS if form != Lines.name)
            raise ValueError(f"{option}={value!r}: expected only with --format ({formats})")


def warn_of_fields(file: Path) -> None:
    """Warn if the suffix of the file says that it has fields."""
    form = format_of(file)
    if form in FORMATS and form != Lines.name:
        shared.complain(
            f"warning: {file}: each line is read as one symbol, in spite of the suffix; expected "
            f"--format {form} and --column to read a field, or --format {Lines.name}"
        )


def _alarm_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return when the detector raises alarms; over numbers, by default at a fixed share."""
    if "emission" not in given or not {"false_incidents", "cooldown"}.isdisjoint(given):
        return shared.alarm_settings(given)
    return {name: given[name] for name in ("false_alarms", "smoothing") if name in given}


def check_unchanged(monitor: Monitor, given: dict[str, Any], lines: dict[str, Any]) -> None:
    """Raise if an option contradicts the checkpoint: a run keeps its settings."""
    predictor = monitor.predictor
    found: dict[str, Any] = {
        "vocabulary": predictor.vocabulary,
        "symbols": predictor.n_symbols,
        "emission": predictor._family,
        **monitor.detector.settings,
        **dict.fromkeys(METHOD_OPTIONS, method_of(predictor)),
        **found_settings(predictor),
        **{name: getattr(monitor, name) for name in MONITOR_OPTIONS},
        "format": monitor.format.name,
        **monitor.format.options,
    }
    if monitor.detector.background is not None:
        # The checkpoint holds the background itself, and not the path of its file.
        found["background"] = given.get("background")
    if lines and monitor.format.name == lines.get("format", Lines.name):
        lines = {**lines, **_make_format(lines).options}
    for name, value in {**given, **lines}.items():
        if found.get(name) != value and not _has_grown(value, found.get(name)):
            own = _method_text(predictor) if name in METHOD_OPTIONS else repr(found.get(name))
            option = "column" if name == "symbol" else name
            raise ValueError(
                f"{option}={value!r}: the checkpoint has {own}; expected the same, or none"
            )


def _has_grown(first: Any, now: Any) -> bool:
    """Tell whether the second vocabulary is the first, open one with labels added."""
    if not (isinstance(first, Vocabulary) and isinstance(now, Vocabulary) and first.is_open):
        return False
    return (now.max_labels, now.unknown) == (first.max_labels, first.unknown) and now.labels[
        : len(first.labels)
    ] == first.labels


def _method_text(predictor: Predictor) -> str:
    if isinstance(predictor, ParticleFilter):
        return repr(predictor.algorithm)
    return repr(method_of(predictor))
