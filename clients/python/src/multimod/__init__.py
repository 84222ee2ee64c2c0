"""Run modular multimodal builds of mm over HTTP.

>>> for token in run({"inputs": [{"type": "text", "text": "Hello"}]}):  # doctest: +SKIP
...     print(token, end="")
"""

from __future__ import annotations

import atexit
import threading
from typing import Iterator, Optional

from .aio import AsyncClient, AsyncStream
from .client import Client, Stream
from .errors import ConnectionFailed, Error, ProgramNotFound, RateLimited, ServerExited, StatusError, Unauthorized
from .types import Event, Input, JobEvent, Preferences, Request
from .wire import VERSION as __version__


__all__ = [
    "AsyncClient", "AsyncStream", "Client", "ConnectionFailed", "Error", "Event", "Input", "JobEvent", "Preferences",
    "ProgramNotFound", "RateLimited", "Request", "ServerExited", "StatusError", "Stream", "Unauthorized", "run",
]

_lock = threading.Lock()
_client: Optional[Client] = None


def run(req: Request) -> Iterator[str]:
    """Yield the text of the answer to a request, in pieces.

    The server is that of MULTIMOD_BASE_URL; without it, mm is started for
    MULTIMOD_BUILD on first use and ends with this process.
    """
    global _client
    with _lock:
        if _client is None:
            _client = Client()
            atexit.register(_client.close)
    return _client.run(req)
