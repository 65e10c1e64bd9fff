"""The service: many named streams behind HTTP, with nothing lost and nothing counted twice.

`config` reads the TOML file. Events go through `ingest` to the `event_log`, which is synced before
they are acknowledged, and from there to their stream (`stream`), whose `state` is saved now and
then. `engine` holds these together and needs nothing but this package. On top of it, with the extra
`service`: `application` (HTTP), `metrics` (Prometheus), `openapi` (the description for clients),
`guards` (access and limits), `server` (sockets and signals) and `page` (static files).
"""

from mdvpf.streams.service.config import ServiceConfig, StreamConfig
from mdvpf.streams.service.engine import Engine

__all__ = ["Engine", "ServiceConfig", "StreamConfig"]
