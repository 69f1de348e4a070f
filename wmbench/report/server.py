"""Serves a report to this machine: fixed files from memory, bound to loopback, for requests that name loopback."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from wmbench.errors import ConfigError
from wmbench.report import FORMS, render
from wmbench.report.document import Document

_TYPES: Final = {
    "html": "text/html",
    "json": "application/json",
    "csv": "text/csv",
    "tex": "text/plain",
    "md": "text/plain",
}
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost"})


def report_server(document: Document, port: int = 0) -> ThreadingHTTPServer:
    """Ready to serve; port 0 takes any free one."""
    pages = {f"/report.{form}": (_TYPES[form], render(document, form).encode()) for form in FORMS}
    pages["/"] = pages["/report.html"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            # Another name that leads to 127.0.0.1 would let a foreign page read the report (DNS rebinding).
            if self.headers.get("Host", "").partition(":")[0] not in _LOOPBACK:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
                return
            found = pages.get(self.path)
            if found is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            kind, content = found
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if with_body:
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Silent: the terminal belongs to the user."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigError(
            f"port {port} cannot be used", why=error.strerror, hint="choose another --port, or leave it out"
        ) from error
