"""Exceptions of the client."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """The base of the client's exceptions."""


class ConnectionFailed(Error):
    """The server cannot be reached, or the connection broke."""


class ProgramNotFound(Error):
    """The program mm was not found."""


class ServerExited(Error):
    """A started mm ended before it was ready; the message has its last output."""


class StatusError(Error):
    """The server refused a request, or ended a stream with an error.

    status is the HTTP status, 0 for an error inside a stream.
    """

    def __init__(
        self,
        message: str,
        status: int = 0,
        code: Optional[str] = None,
        param: Optional[str] = None,
        request_id: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.request_id = request_id


class RateLimited(StatusError):
    """The server's queue is full (429)."""


class Unauthorized(StatusError):
    """The key is missing, invalid or not allowed (401, 403)."""
