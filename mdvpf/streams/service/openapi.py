"""The OpenAPI description of the service, for clients and tests."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mdvpf.streams.service.config import ServiceConfig

_ERROR = {"$ref": "#/components/schemas/Error"}
_REPORT = {"$ref": "#/components/schemas/Report"}
_NUMBER = {"type": ["number", "null"]}
_LABEL = {"type": ["string", "integer", "array", "null"]}


def description(config: ServiceConfig) -> dict[str, Any]:
    r"""Return the description as values for JSON.

    Examples
    --------
    >>> from mdvpf.streams.service import ServiceConfig
    >>> from mdvpf.streams.service.openapi import description
    >>> config = ServiceConfig.from_toml("[streams.x]\nsymbols = 2\n", folder="state")
    >>> description(config)["openapi"]
    '3.1.0'
    """
    stream = _path("stream", {"type": "string", "enum": list(config.streams)})
    number = _path("number", {"type": "integer", "minimum": 0})
    key = _query("key", {"type": "string", "maxLength": 1000}, "The key of a sequence, as text.")
    key_json = _query("key_json", {"type": "string", "maxLength": 1000}, "The key, as JSON.")
    top = _query("top", _range(1, 100, 5), "How many symbols.")
    of_stream = "/v1/streams/{stream}"
    paths: dict[str, Any] = {
        "/healthz": {"get": _get("Whether the service takes events.", "Health", 503)},
        "/v1/streams": {"get": _get("All streams.", "Streams")},
        of_stream: {"get": _get("State, memory and speed.", "Status", 404, given=[stream])},
        f"{of_stream}/events": {"post": _events(stream)},
        f"{of_stream}/prediction": {
            "get": _get(
                "The likeliest next symbols of a key.",
                "Prediction",
                404,
                422,
                given=[stream, key, key_json, top],
            )
        },
        f"{of_stream}/forecast": {
            "get": _get(
                "The likeliest symbols of each of the next steps.",
                "Forecast",
                404,
                409,
                422,
                given=[
                    stream,
                    key,
                    key_json,
                    top,
                    _query("horizon", _range(1, 50, 5), "How many steps."),
                    _query("size", _range(1, 2000, 100), "Continuations to average over."),
                ],
            )
        },
        f"{of_stream}/incidents": {
            "get": _get("The last incidents, the latest first.", "Incidents", 404, given=[stream])
        },
        f"{of_stream}/incidents/{{number}}/feedback": {"post": _feedback(stream, number)},
        f"{of_stream}/model": {
            "get": _get("States of the heaviest particle.", "Model", 404, given=[stream])
        },
        f"{of_stream}/recent": {
            "get": _get("Surprise of the last symbols.", "Recent", 404, given=[stream])
        },
        f"{of_stream}/reports": {
            "get": _get(
                "Reports as they are made: server-sent events.",
                None,
                404,
                422,
                503,
                given=[
                    stream,
                    _query("brief", {"type": "boolean"}, "Only line, surprise and alarm."),
                    _query("alarms_only", {"type": "boolean"}, "Only alarms."),
                ],
            )
        },
        "/metrics": {"get": _get("Metrics for Prometheus.", None)},
    }
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "mdvpf", "version": version("mdvpf")},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }
    if config.token is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _range(low: int, high: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}


def _path(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _errors(*codes: int) -> dict[str, Any]:
    texts = {
        400: "The request is cut off.",
        404: "Not found.",
        408: "The body took too long.",
        409: "There is another answer already, or the predictor has no forecast.",
        413: "The body is too long.",
        415: "The content type is not supported.",
        422: "A parameter or an event is invalid.",
        429: "Too many requests.",
        503: "Temporarily unavailable; try again.",
    }
    return {
        str(code): {"description": texts[code], "content": _json(_ERROR)}
        for code in (*codes, *(() if 429 in codes else (429,)))
    }


def _get(
    text: str, schema: str | None, *codes: int, given: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": text}
    if schema is not None:
        answer["content"] = _json({"$ref": f"#/components/schemas/{schema}"})
    return {
        "summary": text,
        "parameters": given or [],
        "responses": {"200": answer} | _errors(*codes),
    }


def _events(stream: dict[str, Any]) -> dict[str, Any]:
    text = "Events, one JSON object a line; acknowledged when they are on the disk."
    return {
        "summary": text,
        "parameters": [
            stream,
            _query("wait", {"type": "boolean"}, "Wait until they are absorbed; return reports."),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "object"}},
            },
        },
        "responses": {
            "200": {
                "description": "The events are on the disk, each once.",
                "content": _json({"$ref": "#/components/schemas/Accepted"}),
            }
        }
        | _errors(400, 404, 408, 413, 415, 422, 503),
    }


def _feedback(stream: dict[str, Any], number: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"strange": {"type": "boolean"}},
        "required": ["strange"],
        "additionalProperties": False,
    }
    return {
        "summary": "Give feedback on an incident: a true or a false alarm.",
        "parameters": [stream, number],
        "requestBody": {"required": True, "content": _json(schema)},
        "responses": {
            "200": {
                "description": "The feedback is on the disk.",
                "content": _json({"$ref": "#/components/schemas/Feedback"}),
            }
        }
        | _errors(400, 404, 408, 409, 413, 415, 422, 503),
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _array(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


_INTEGER = {"type": "integer"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_LIKELY = _array(_object(symbol=_LABEL, probability={"type": "number"}))
_SCHEMAS: dict[str, Any] = {
    "Error": {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]},
    "Health": _object(status=_TEXT),
    "Accepted": {
        "type": "object",
        "properties": {
            "accepted": _INTEGER,
            "repeated": _INTEGER,
            "record": {"type": ["integer", "null"]},
            "reports": _array(_REPORT),
        },
        "required": ["accepted", "repeated", "record"],
    },
    "Report": _object(line=_INTEGER, symbol=_LABEL, surprise=_NUMBER, alarm=_FLAG),
    "Feedback": _object(number=_INTEGER, strange=_FLAG),
    "Status": _object(name=_TEXT, method=_TEXT, events=_INTEGER, lag=_INTEGER),
    "Streams": _object(streams=_array({"$ref": "#/components/schemas/Status"}), log_bytes=_INTEGER),
    "Prediction": _object(events=_INTEGER, symbols=_LIKELY),
    "Forecast": _object(events=_INTEGER, steps=_array(_LIKELY)),
    "Incidents": _object(
        incidents=_array(
            _object(
                number=_INTEGER,
                start=_INTEGER,
                end=_INTEGER,
                p_value=_NUMBER,
                why=_TEXT,
                strange={"type": ["boolean", "null"]},
            )
        )
    ),
    "Model": _object(
        filter={"type": ["string", "null"]},
        states=_array({"type": "object"}),
        transitions=_array({"type": "object"}),
    ),
    "Recent": _object(points=_array(_object(line=_INTEGER, surprise=_NUMBER, alarm=_FLAG))),
}
