"""Types of requests and answers, as in schemas/request.schema.json and schemas/openapi.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, TypedDict

JSON = Dict[str, Any]


class Input(TypedDict, total=False):
    """One input: text, or an image, a sound or a video by path or by data."""

    type: str
    text: str
    path: str
    data: bytes


class Preferences(TypedDict, total=False):
    """How to answer."""

    cot: bool
    max_tokens: int
    budget_ms: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    stop: List[str]


class Request(TypedDict, total=False):
    """One inference request."""

    build: str
    inputs: List[Input]
    messages: List[JSON]
    tools: List[JSON]
    preferences: Preferences
    tools_allowed: List[str]
    outputs: List[str]


@dataclass(frozen=True)
class Event:
    """One event of a stream.

    A type text or reasoning has text; tool has name, arguments and result; output has
    modality, media_type and data; done has the whole answer.
    """

    type: str
    text: str = ""
    name: str = ""
    arguments: Any = None
    result: Any = None
    modality: str = ""
    media_type: str = ""
    data: bytes = b""
    answer: JSON = field(default_factory=dict)


@dataclass(frozen=True)
class JobEvent:
    """One numbered event of a job.

    A type state has state in data; step has step and detail; progress has task, done and
    total; done has the job.
    """

    number: int
    type: str
    data: JSON
