"""The routes of the dashboard. Every answer but the page itself is JSON, or a stream of events."""

from __future__ import annotations

import asyncio
import html
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from neuro_divergent._version import __version__
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, first_line
from neuro_divergent.core.json import parse_json
from neuro_divergent.dashboard.compare import compared
from neuro_divergent.dashboard.detail import detail, layer_table, logged_curve
from neuro_divergent.dashboard.security import Gate
from neuro_divergent.dashboard.studies import study
from neuro_divergent.dashboard.thinning import MOST_POINTS, finite_only
from neuro_divergent.dashboard.watch import Watch

STATIC = Path(__file__).parent / "static"
SECONDS_BETWEEN_SIGNS = 10.0
"""A stream without events sends a comment after this time, so that a closed page is noticed."""
POINTS = 800
log = logging.getLogger(__name__)


def make_app(watch: Watch, *, token: str, cookie: str, hosts: frozenset[str], framed: bool = False) -> Gate:
    """The application: its routes behind the gate."""
    routes = Routes(watch, token if framed else "")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        routes.close()

    app = Starlette(
        routes=[
            Route("/", routes.page),
            Route("/api/runs", routes.answer(lambda _: watch.table())),
            Route("/api/runs/{run}", routes.answer(routes.run)),
            Route("/api/runs/{run}/curves", routes.answer(routes.curves)),
            Route("/api/runs/{run}/details", routes.answer(routes.details)),
            Route("/api/runs/{run}/table/{name}", routes.answer(routes.table)),
            Route("/api/runs/{run}/logged/{name}", routes.answer(routes.logged)),
            Route("/api/runs/{run}/snapshots/{epoch:int}", routes.answer(routes.snapshot)),
            Route("/api/runs/{run}/stop", routes.stop, methods=["POST"]),
            Route("/api/runs/{run}/notes", routes.notes, methods=["POST"]),
            Route("/api/compare", routes.answer(routes.compare)),
            Route("/api/studies/{study}", routes.answer(routes.study)),
            Route("/api/live", routes.live),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        lifespan=lifespan,
        exception_handlers={Exception: _failed},
    )
    return Gate(app, token=token, cookie=cookie, hosts=hosts, framed=framed)


class Answer(JSONResponse):
    """JSON in ASCII: names of files and texts of runs may have half characters, which UTF-8 cannot express."""

    def render(self, content: Any) -> bytes:
        """The bytes of the answer."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


async def _failed(_: Request, error: Exception) -> Response:
    log.error("a request failed: %s", repr(error)[:500])
    return Answer({"error": f"the dashboard failed: {type(error).__name__}"}, 500)


class Routes:
    """The answers to requests."""

    def __init__(self, watch: Watch, token: str) -> None:
        self.watch = watch
        self._page = _page(token)
        self._closed = False

    def close(self) -> None:
        """End the streams and the watch."""
        self._closed = True
        self.watch.close()

    async def page(self, _: Request) -> Response:
        """The page. What it shows comes by the other routes."""
        return HTMLResponse(self._page)

    def answer(self, read: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """The route of a function that reads files, which a thread does."""

        async def route(request: Request) -> Response:
            return await _answered(lambda: read(request))

        return route

    def run(self, request: Request) -> Any:
        """One run."""
        row = self.watch.row(request.path_params["run"])
        return detail(row, self.watch.logs.of(row))

    def curves(self, request: Request) -> Any:
        """The curves of one run, between two steps."""
        asked, query = self.watch.row(request.path_params["run"]), request.query_params
        found = self.watch.logs.of(asked)
        points, width = _whole(query.get("points"), POINTS, MOST_POINTS), _whole(query.get("smooth"), 1, 100_000)
        return {
            "steps": found.step_curves(_number(query.get("from")), _number(query.get("to")), points, width),
            "epochs": found.epoch_curves(points, max(1, min(width, 50)) if width > 1 else 1),
            "run": asked.shown(),
        }

    def details(self, request: Request) -> Any:
        """The layers of the network and the series of the table."""
        return finite_only(self.watch.row(request.path_params["run"]).record().details)

    def table(self, request: Request) -> Any:
        """A logged value by layer and step."""
        row = self.watch.row(request.path_params["run"])
        return layer_table(self.watch.logs.of(row), request.path_params["name"])

    def logged(self, request: Request) -> Any:
        """A logged number by step."""
        row = self.watch.row(request.path_params["run"])
        return logged_curve(self.watch.logs.of(row), request.path_params["name"])

    def snapshot(self, request: Request) -> Any:
        """The forecasts of held-out rows after an epoch."""
        row = self.watch.row(request.path_params["run"])
        return finite_only(row.record().snapshot(request.path_params["epoch"]))

    def compare(self, request: Request) -> Any:
        """Several runs side by side."""
        query = request.query_params
        ids = [one for one in query.get("runs", "").split(",") if one]
        if not ids:
            raise ConfigError("a comparison needs the ids of runs, but got none")
        rows = [self.watch.row(one) for one in ids]
        return compared(rows, self.watch.logs, query.get("metric"), _whole(query.get("points"), 300, MOST_POINTS))

    def study(self, request: Request) -> Any:
        """A search."""
        return study(self.watch.study(request.path_params["study"]))

    async def stop(self, request: Request) -> Response:
        """Ask a training to stop, with or without a checkpoint."""
        given = await _body(request)

        def act() -> Any:
            row = self.watch.row(request.path_params["run"])
            row.record().stop(wait=False, save=given.get("save") is not False)
            return {"asked": True}

        return await _answered(act)

    async def notes(self, request: Request) -> Response:
        """Replace the tags and the note of a run."""
        given = await _body(request)

        def act() -> Any:
            tags, note = given.get("tags"), given.get("note")
            if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags) and isinstance(note, str)):
                raise ConfigError("notes are a list of tags and a text")
            row = self.watch.row(request.path_params["run"])
            row.record().annotate(tags=tags, note=note)
            row.look()
            return row.shown()

        return await _answered(act)

    async def live(self, request: Request) -> Response:
        """A stream of events: the ids of runs that changed."""
        shown = frozenset(request.query_params.get("runs", "").split(",")[:100])
        return StreamingResponse(self._events(shown), media_type="text/event-stream")

    async def _events(self, shown: frozenset[str]) -> AsyncIterator[str]:
        loop, changes = asyncio.get_running_loop(), asyncio.Queue[list[str]]()

        def tell(changed: list[str]) -> None:
            loop.call_soon_threadsafe(changes.put_nowait, changed)

        self.watch.listen(tell, shown)
        try:
            yield "event: hello\ndata: {}\n\n"
            silent = 0.0
            while not self._closed:
                try:
                    changed = set(await asyncio.wait_for(changes.get(), 0.5))
                except TimeoutError:
                    silent += 0.5
                    if silent >= SECONDS_BETWEEN_SIGNS:
                        silent = 0.0
                        yield ": still here\n\n"
                    continue
                while not changes.empty():
                    changed |= set(changes.get_nowait())
                yield f"data: {json.dumps(sorted(changed))}\n\n"
        finally:
            self.watch.leave(tell)


async def _answered(act: Callable[[], Any]) -> Response:
    try:
        return Answer(await run_in_threadpool(act))
    except ConfigError as error:
        return Answer({"error": str(error)}, 400)
    except (NeuroDivergentError, OSError) as error:
        return Answer({"error": first_line(error)}, 422)


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = parse_json(await request.body(), "the request")
    except NeuroDivergentError:
        return {}
    return found if isinstance(found, dict) else {}


def _whole(text: str | None, otherwise: int, most: int) -> int:
    return max(1, min(int(text), most)) if text and text.isascii() and text.isdecimal() else otherwise


def _number(text: str | None) -> float | None:
    try:
        found = float(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found - found == 0 else None


def _page(token: str) -> str:
    """The page. In a notebook it brings the token, because a browser gives a framed page no strict cookie."""
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    return text.replace("{token}", html.escape(token, quote=True)).replace("{version}", html.escape(__version__))
