"""Who may ask a dashboard: a token, the Host and the Origin of a request, and what a page may load.

The token keeps other users and other programs of the machine out. Host and Origin keep out web pages of other sites
that a browser on this machine shows (DNS rebinding, cross-site requests).
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = "/static/"
"""Path of the package's own scripts and styles. They say nothing of any run."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
)
NOTEBOOKS = "http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:* vscode-webview:"
MOST_BODY = 64 * 2**10
"""Bytes of a request. Tags and notes are short."""


class Gate:
    """Passes requests that may be answered, and adds the headers of every answer.

    Args:
        app: answers the requests.
        token: what a request must bring, as a cookie, as a bearer token, or once in the address of the page.
        cookie: the name of the cookie.
        hosts: names of this machine under which it may be asked, beside numbers and localhost.
        framed: whether a notebook may show the page.
    """

    def __init__(self, app: App, *, token: str, cookie: str, hosts: frozenset[str], framed: bool) -> None:
        self._app, self._token, self._cookie, self._hosts = app, token.encode(), cookie, hosts
        frames = NOTEBOOKS if framed else "'none'"
        self._framed = framed
        self._headers = [
            (b"content-security-policy", POLICY.format(frames=frames).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
            *([] if framed else [(b"x-frame-options", b"DENY")]),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        why = self._refusal(scope, headers)
        if why is not None:
            await self._refuse(send, *why)
            return
        if scope["path"] == "/" and not self._framed and self._asked_by_address(scope):
            await self._take_in(send)
            return
        await self._app(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not known_host(host, self._hosts):
            return 421, "This dashboard does not answer for that host name. Open the address that it printed."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "A page of another site must not ask this dashboard."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and scope["method"] != "GET":
            return 403, "A page of another site must not ask this dashboard."
        length = headers.get("content-length", "0")
        if scope["method"] == "POST" and not (length.isdecimal() and int(length) <= MOST_BODY):
            return 413, "The request is too long."
        if scope["path"].startswith(OPEN) or self._known(scope, headers):
            return None
        return 401, "The token is missing or wrong. Open the address that `neuro-divergent dashboard` printed."

    def _known(self, scope: Scope, headers: dict[str, str]) -> bool:
        bearer = headers.get("authorization", "")
        given = [bearer[7:]] if bearer.lower().startswith("bearer ") else []
        given += self._cookies(headers.get("cookie", ""))
        known = [self._same(one) for one in given]
        return any(known) or (scope["path"] == "/" and self._asked_by_address(scope))

    def _cookies(self, text: str) -> list[str]:
        try:
            found = SimpleCookie(text).get(self._cookie)
        except CookieError:
            return []
        return [] if found is None else [found.value]

    def _asked_by_address(self, scope: Scope) -> bool:
        query = scope["query_string"].decode("latin-1")
        return any(self._same(given) for given in parse_qs(query, max_num_fields=20).get("token", ()))

    def _same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    async def _take_in(self, send: Send) -> None:
        """Keep the token in a cookie, and go on without it in the address."""
        cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), *self._headers]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, send: Send, status: int, sentence: str) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *self._headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": sentence.encode()})

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in self._headers}
                given = [pair for pair in message.get("headers", ()) if pair[0].lower() not in own]
                message["headers"] = [*given, *self._headers]
            await send(message)

        return sending


def known_host(header: str, hosts: frozenset[str]) -> bool:
    """Whether a Host header is a number, localhost, or one of the names. A page of another site has a name of its own.

    >>> known_host("127.0.0.1:8188", frozenset()), known_host("[::1]:80", frozenset())
    (True, True)
    >>> known_host("evil.example", frozenset())
    False
    """
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    name = name.strip().lower()
    if name == "localhost" or name in hosts:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
