"""The configuration of the service: a TOML file, checked as a whole before anything starts.

The top of the file is about the service, and each table ``[streams.NAME]`` about a stream. The
page *Run it as a service* of the documentation explains the entries; the tables `SERVICE_ENTRIES`
and `STREAM_ENTRIES` define them.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mdvpf._support import validate
from mdvpf.detect import SurpriseDetector
from mdvpf.predictor import Vocabulary
from mdvpf.streams.formats import make_format
from mdvpf.streams.methods import AUTO, SETTINGS, make_predictor
from mdvpf.streams.monitor import MAX_KEYS, Monitor
from mdvpf.streams.rates import read_rate
from mdvpf.streams.records import FIELD_OPTIONS

STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FIELDS = (*FIELD_OPTIONS, "id")
ALPHABET = ("symbols", "vocabulary", "vocabulary_file", "max_labels", "unknown")
DETECTOR = ("false_incidents", "cooldown", "false_alarms", "smoothing", "block", "warm_up", "trace")
MONITOR = ("max_keys", "key_ttl", "n_expected")
STREAM_ENTRIES = (
    *ALPHABET,
    *("method", "particles", "seed", "remember_ids"),
    *SETTINGS,
    *DETECTOR,
    *MONITOR,
    *FIELDS,
)
REMEMBERED_IDS = 10_000
UNKNOWN = "OTHER"  # with max_labels, unless `unknown` is given
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """One stream of the service.

    Parameters
    ----------
    name : str
        Letters, digits, ``-`` and ``_``; 64 at most.
    options : mapping
        The entries of its table. Those that would make another predictor or read events in another
        way cannot change once the stream has begun.

    Examples
    --------
    >>> from mdvpf.streams.service import StreamConfig
    >>> clicks = StreamConfig("clicks", {"symbols": 17, "method": "Markov 1", "key": "user"})
    >>> clicks.new_monitor().predictor
    Markov(17, order=1, beta=0.3, decay=1.0)
    """

    name: str
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not STREAM_NAME.fullmatch(self.name):
            raise ValueError(
                f"stream {self.name!r}: expected a name of at most 64 letters, digits, - and _"
            )
        if not isinstance(self.options, Mapping):
            raise TypeError(f"streams.{self.name}={self.options!r}: expected a table")
        for entry in self.options:
            if entry not in STREAM_ENTRIES:
                raise ValueError(
                    f"streams.{self.name}.{entry}: unknown; expected one of "
                    + ", ".join(STREAM_ENTRIES)
                )
        with _named(self.name):
            size = self.options.get("remember_ids", REMEMBERED_IDS)
            validate.integer("remember_ids", size, low=0, high=10_000_000)
            name = self.options.get("id")
            if name is not None and (not isinstance(name, str) or not name):
                raise TypeError(f"id={name!r}: expected the name of a field")

    @property
    def id_field(self) -> str | None:
        """The field of events that holds their id."""
        return self.options.get("id")

    @property
    def remember_ids(self) -> int:
        """How many ids are remembered."""
        size: int = self.options.get("remember_ids", REMEMBERED_IDS)
        return size

    @property
    def lasting(self) -> dict[str, Any]:
        """The options that cannot change once the stream has begun."""
        return {name: value for name, value in self.options.items() if name != "remember_ids"}

    def new_monitor(self) -> Monitor:
        """Return a monitor as the options describe it, or raise.

        Examples
        --------
        >>> from mdvpf.streams.service import StreamConfig
        >>> StreamConfig("x", {"symbols": 2, "method": "Markov 1"}).new_monitor().n_lines
        0
        """
        with _named(self.name):
            return self._new_monitor()

    def _new_monitor(self) -> Monitor:
        options = self.options
        vocabulary = _vocabulary(options)
        if (vocabulary is None) == ("symbols" not in options):
            raise ValueError(
                "expected either symbols, or one of vocabulary, vocabulary_file and max_labels"
            )
        n_symbols: Any = options["symbols"] if vocabulary is None else vocabulary.capacity
        predictor = make_predictor(
            options.get("method", AUTO),
            n_symbols,
            options.get("particles"),
            options.get("seed", 0),
            **{name: options[name] for name in SETTINGS if name in options},
        )
        predictor.vocabulary = vocabulary
        fields = {name: options[name] for name in FIELD_OPTIONS if name in options}
        fields.setdefault("symbol", "symbol")
        alarms = _alarms(options)
        if alarms.get("per") == "day" and "time" not in fields:
            rate = options["false_incidents"]
            raise ValueError(f"false_incidents={rate!r}: expected time, the field of times")
        if "key" in fields:
            # Set before the first key, so that the first checkpoint has it.
            most = predictor.max_keys or MAX_KEYS
            predictor.max_keys = options.get("max_keys", most)
        return Monitor(
            SurpriseDetector(predictor, **alarms),
            format=make_format("json", fields),
            **{name: options[name] for name in MONITOR if name in options},
        )


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    r"""The configuration of the service.

    Parameters
    ----------
    folder : path
        Where the log and the checkpoints are.
    streams : mapping of str to StreamConfig
        The streams, at least one.
    host : str, default "127.0.0.1"
        The address to listen on. An address that other machines can reach needs a token.
    port : int, default 8765
        The port; 0 takes a free one.
    token : str, optional
        The token that clients must send (``Authorization: Bearer TOKEN``); 16 characters or more.
    hosts : tuple of str
        Further names by which clients may call the service (the header ``Host``).
    max_body_bytes : int, default 1,000,000
        Largest number of bytes in the body of a request.
    max_events : int, default 10,000
        Largest number of events in a batch.
    max_lag : int, default 50,000
        Largest number of events of a stream that may wait; beyond that, batches are refused.
    requests_per_second : float, default 500
        Limit for each client address; bursts may be twice as large.
    request_seconds : float, default 10
        How long a client may take to send a request.
    max_connections : int, default 200
        Largest number of connections at a time.
    max_watchers : int, default 50
        Largest number of clients that watch reports at a time.
    checkpoint_events : int, default 20,000
        A checkpoint of a stream is written after this many events.
    checkpoint_seconds : float, default 60
        It is also written after this many seconds, if there were any events.
    segment_bytes : int, default 16,000,000
        Size of the files of the log, approximately.
    threads : int, default 1
        How many streams absorb events at the same time.

    Examples
    --------
    >>> from mdvpf.streams.service import ServiceConfig
    >>> text = 'folder = "state"\n[streams.clicks]\nsymbols = 17\nmethod = "Markov 1"\n'
    >>> config = ServiceConfig.from_toml(text)
    >>> config.port, list(config.streams)
    (8765, ['clicks'])
    """

    folder: Path
    streams: Mapping[str, StreamConfig]
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    hosts: tuple[str, ...] = ()
    max_body_bytes: int = 1_000_000
    max_events: int = 10_000
    max_lag: int = 50_000
    requests_per_second: float = 500.0
    request_seconds: float = 10.0
    max_connections: int = 200
    max_watchers: int = 50
    checkpoint_events: int = 20_000
    checkpoint_seconds: float = 60.0
    segment_bytes: int = 16_000_000
    threads: int = 1

    def __post_init__(self) -> None:
        if not self.streams:
            raise ValueError("streams: expected one at least, as a table [streams.NAME]")
        validate.integer("port", self.port, low=0, high=65535)
        # A record of the log holds at most 2**30 bytes.
        validate.integer("max_body_bytes", self.max_body_bytes, low=1, high=10**9)
        for name in ("max_events", "max_lag", "max_connections"):
            validate.integer(name, getattr(self, name), low=1)
        validate.integer("max_watchers", self.max_watchers, low=0)
        validate.integer("checkpoint_events", self.checkpoint_events, low=1)
        validate.integer("segment_bytes", self.segment_bytes, low=1000)
        validate.integer("threads", self.threads, low=1, high=1000)
        for name in ("requests_per_second", "request_seconds", "checkpoint_seconds"):
            validate.real(name, getattr(self, name), low=1e-3, high=1e9)
        if not isinstance(self.host, str) or not self.host:
            raise TypeError(f"host={self.host!r}: expected an address")
        if not isinstance(self.hosts, tuple) or not all(
            isinstance(name, str) and name for name in self.hosts
        ):
            raise TypeError(f"hosts={self.hosts!r}: expected a list of names")
        if self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host={self.host!r}: other machines can reach it; expected a token_file, or "
                "127.0.0.1"
            )
        if self.token is not None and (
            not isinstance(self.token, str)
            or len(self.token) < SHORTEST_TOKEN
            or not re.fullmatch(r"[!-~]+", self.token)
        ):
            raise ValueError(
                f"token: expected {SHORTEST_TOKEN} characters or more, without spaces, in ASCII"
            )

    @classmethod
    def from_toml(cls, text: str, where: Path | None = None, **given: Any) -> Self:
        r"""Return the configuration that a TOML text describes, or raise.

        Parameters
        ----------
        text : str
            The file.
        where : Path, optional
            The folder that paths in it start from; by default the current one.
        **given
            Entries that override those in the file, unless they are None.

        Examples
        --------
        >>> from mdvpf.streams.service import ServiceConfig
        >>> text = "[streams.x]\nsymbols = 2\n"
        >>> ServiceConfig.from_toml(text, folder="state", port=8000).port
        8000
        """
        where = Path() if where is None else where
        try:
            found: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"expected a file in TOML ({error})") from None
        found |= {name: value for name, value in given.items() if value is not None}
        for entry in found:
            if entry not in SERVICE_ENTRIES:
                raise ValueError(f"{entry}: unknown; expected one of {', '.join(SERVICE_ENTRIES)}")
        tables = found.pop("streams", {})
        if not isinstance(tables, dict):
            raise TypeError(f"streams={tables!r}: expected tables [streams.NAME]")
        streams = {
            name: StreamConfig(name, _read_files(name, table, where))
            for name, table in tables.items()
        }
        if not isinstance(found.get("folder"), (str, Path)):
            raise ValueError("folder: expected the folder of the log and the checkpoints")
        found["folder"] = where / found["folder"]
        if isinstance(found.get("hosts"), list):
            found["hosts"] = tuple(found["hosts"])
        token_file = found.pop("token_file", None)
        if token_file is not None:
            found["token"] = _read_text("token_file", token_file, where).strip()
        return cls(streams=streams, **found)


SERVICE_ENTRIES = (
    *(field.name for field in dataclasses.fields(ServiceConfig) if field.name != "token"),
    "token_file",
)


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only.

    Examples
    --------
    >>> from mdvpf.streams.service.config import is_loopback
    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put the name of a stream before the messages of errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"streams.{name}: {error}") from error


def _read_text(entry: str, path: Any, where: Path) -> str:
    """Return the text of the file that an entry names, or raise."""
    if not isinstance(path, (str, Path)):
        raise TypeError(f"{entry}={path!r}: expected the name of a file")
    try:
        return (where / path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{entry}={str(path)!r}: {error.strerror}; expected a file") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{entry}={str(path)!r}: expected text in UTF-8 ({error.reason})"
        ) from error


def _read_files(name: str, table: Any, where: Path) -> Any:
    """Return the table of a stream, with the labels of `vocabulary_file` as its `vocabulary`."""
    if not isinstance(table, dict) or "vocabulary_file" not in table:
        return table
    if "vocabulary" in table:
        raise ValueError(f"streams.{name}: expected vocabulary or vocabulary_file, not both")
    entry = f"streams.{name}.vocabulary_file"
    lines = _read_text(entry, table["vocabulary_file"], where).split("\n")
    labels = [line.strip() for line in lines if line.strip()]
    rest = {entry: value for entry, value in table.items() if entry != "vocabulary_file"}
    return {**rest, "vocabulary": labels}


def _vocabulary(options: Mapping[str, Any]) -> Vocabulary | None:
    labels, most = options.get("vocabulary"), options.get("max_labels")
    unknown = options.get("unknown")
    if labels is not None and not isinstance(labels, list):
        raise TypeError(f"vocabulary={labels!r}: expected a list of labels")
    if labels is None and most is None:
        if unknown is not None:
            raise ValueError(f"unknown={unknown!r}: expected only with vocabulary or max_labels")
        return None
    if most is None:
        return Vocabulary.from_data(labels or [], unknown)
    unknown = UNKNOWN if unknown is None else unknown
    return Vocabulary.open(labels or [], max_labels=most, unknown=unknown)


def _alarms(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the detector; the default is incidents at a target rate."""
    found = {name: options[name] for name in DETECTOR if name in options}
    if "false_alarms" in found or "smoothing" in found:
        return found
    rate = found.setdefault("false_incidents", 1.0)
    return found | read_rate(rate) if isinstance(rate, str) else found
