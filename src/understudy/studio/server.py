"""The server of the studio: on the loopback interface, for the one browser that was given the token.

Every request passes the guard before it reaches a route:

1. `Host` is an address of this server. A name that somebody has pointed at 127.0.0.1 is refused (DNS rebinding).
2. `Origin`, where there is one, is that of this server, and `Sec-Fetch-Site`, where there is one, says "same-origin",
   or "none" for a page that somebody typed. A page on another port of this machine is of the same *site*, and is
   refused.
3. The token in the printed address is good once. It is exchanged for a cookie that scripts cannot read and that is sent
   with requests of the same site only; its name has the port in it. Everything else needs the cookie.
4. What changes something is a POST with a header that no form can send.
5. What is uploaded says its length, and is refused before it is read where that is too long.

Each answer forbids the browser to run, to load, to frame and to keep anything but what the page needs. Nothing is
logged: an address has the token in it. Files are kept in a folder for their owner alone, which is removed at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from understudy.errors import ConfigurationError, MissingExtraError, UnderstudyError

try:
    import orjson
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import RedirectResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    raise MissingExtraError(
        "the studio needs starlette, uvicorn and orjson (the extra `studio`): pip install 'understudy[studio]'"
    ) from None

from understudy._types import Plain
from understudy.studio import takeaway
from understudy.studio.desk import Desk, safe_name, size_words

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
MARK = "x-understudy"
"""A header that scripts of the page send and forms cannot."""
BODY = 64 << 10
"""Bytes of a request that is no upload."""
LIMIT = 512 << 20
"""Bytes of an upload, unless told."""
IDLE = 3600.0
"""Seconds without a request after which the studio stops."""
BEAT = 1.0
"""Seconds from one sign of life to the next."""
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Options:
    """How the studio is served."""

    port: int = 0
    traces: bool = True
    limit: int = LIMIT
    idle: float = IDLE


# The guard ------------------------------------------------------------------------------------------------------------


class Keys:
    """The token, which is good once, and the secret of the cookie that it is exchanged for."""

    def __init__(self, port: int) -> None:
        self.token: str | None = secrets.token_urlsafe(32)
        self.cookie = f"understudy-studio-{port}"
        self._secret = secrets.token_urlsafe(32)

    def exchange(self, token: str) -> str | None:
        """The secret of the cookie for the token; None the second time, and for any other."""
        if self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = None
        return self._secret

    def admits(self, cookies: str) -> bool:
        """Whether a header of cookies has the secret."""
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie and hmac.compare_digest(value.encode(), self._secret.encode()):
                return True
        return False


class Guard:
    """What stands before every route."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int, options: Options, touched: Callable[[], None]) -> None:
        self._app, self._keys, self._options, self._touched = app, keys, options, touched
        self.hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "[::1]", "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with the headers of every answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is no other protocol here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *((name, value) for name, value in message["headers"] if name.decode("latin-1") not in HEADERS),
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            status, key = refusal
            response: ASGIApp = failure(status, takeaway.words()["refusals"][key])
        elif scope["path"] == "/" and scope["query_string"]:
            response = self._enter(scope)
        else:
            self._touched()
            response = self._app
        await response(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if host not in self.hosts:
            return 421, "host"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return 403, "origin"
        site = headers.get("sec-fetch-site", "same-origin")
        if site != "same-origin" and (site != "none" or scope["method"] not in ("GET", "HEAD")):
            return 403, "site"
        if scope["path"] == "/" and b"token=" in scope["query_string"] and scope["method"] == "GET":
            return None
        if not self._keys.admits(headers.get("cookie", "")):
            return 403, "cookie"
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return 405, "method"
        if headers.get(MARK) != "studio":
            return 403, "mark"
        length = headers.get("content-length", "")
        if not length.isdigit():
            return 411, "length"
        if int(length) > (self._options.limit if scope["path"] == "/api/open" else BODY):
            return 413, "size"
        return None

    def _enter(self, scope: Scope) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        secret = self._keys.exchange(token)
        if secret is None:
            return failure(403, takeaway.words()["refusals"]["token"])
        self._touched()
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(self._keys.cookie, secret, httponly=True, samesite="strict", path="/")
        return response


def failure(status: int, words: str) -> Response:
    """A refusal, in words."""
    return Response(orjson.dumps({"error": words}), status, media_type="application/json")


def answer(found: Any, status: int = 200) -> Response:
    """Plain data as JSON; what is not finite is null."""
    return Response(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS), status, media_type="application/json")


# The routes -----------------------------------------------------------------------------------------------------------


class Latest:
    """Of many requests of one tab only the newest is worked out; older ones that wait are dropped."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def run(self, tab: str, number: int, work: Callable[[], Plain]) -> Plain | None:
        """What the work comes to, or None where a newer request has come."""
        if number <= self._newest.get(tab, -1):
            return None
        self._newest[tab] = number
        while len(self._newest) > 64:
            self._newest.pop(next(iter(self._newest)))
        async with self._lock:
            await asyncio.sleep(0)  # those that have arrived meanwhile are counted first
            if number < self._newest.get(tab, number):
                return None
            return work()


class Studio:
    """The desk, its routes, and the tabs that hear what is new."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.options, self.folder = options, folder
        self.changed = asyncio.Event()
        self.stopping = False
        self.touched = time.monotonic()
        self.desk = Desk(folder, options.traces, self._wake)
        self._latest = Latest()
        self._page = _load_page()

    def _wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def touch(self) -> None:
        """Somebody is here."""
        self.touched = time.monotonic()

    def stop(self) -> None:
        """End the streams of events and the job."""
        self.stopping = True
        self.desk.jobs.cancel()
        self._wake()

    def app(self) -> Starlette:
        """All routes."""
        posts: dict[str, Callable[[Plain], Any]] = {
            "data": self.desk.look_at_data,
            "fit": self.desk.fit_models,
            "tune": self.desk.tune,
            "base": self.desk.find_costs,
            "causal": self.desk.causal,
            "coin": self.desk.coin,
            "looks": self.desk.look,
            "audit": lambda _: self.desk.attack(),
            "cancel": lambda _: self.desk.jobs.cancel(),
            "pin": lambda given: self.desk.pin(given.get("slot"), given.get("label")),
            "note": self.desk.note,
        }
        routes = [
            Route("/", self._index),
            Route("/words.json", self._words),
            Route("/page/{name:path}", self._static),
            Route("/api/state", self._state),
            Route("/api/design", self._design),
            Route("/api/events", self._events),
            Route("/take/{name}", self._take),
            Route("/api/open", self._open, methods=["POST"]),
            Route("/api/room", self._room, methods=["POST"]),
            Route("/api/solve", self._solve, methods=["POST"]),
            *(Route(f"/api/{name}", _post(work), methods=["POST"]) for name, work in posts.items()),
        ]
        handlers: Any = {404: _not_found, 405: _not_found}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def _index(self, request: Request) -> Response:
        return Response(self._page["index.html"], media_type="text/html")

    async def _words(self, request: Request) -> Response:
        return answer({**takeaway.words(), "limit": size_words(self.options.limit)})

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._page:
            return failure(404, takeaway.words()["refusals"]["path"])
        return Response(self._page[name], media_type=_TYPES.get(Path(name).suffix, "text/plain"))

    async def _state(self, request: Request) -> Response:
        return answer(self.desk.state())

    async def _design(self, request: Request) -> Response:
        design, recipe = self.desk.design, self.desk.recipe
        if design is None or recipe is None:
            return answer(None)
        return answer(await asyncio.to_thread(self.desk.whole_design, design, recipe))

    async def _room(self, request: Request) -> Response:
        await self.desk.open_room()
        return answer({"revision": self.desk.revision})

    async def _solve(self, request: Request) -> Response:
        try:
            given = await body(request)
            tab, number = str(given.get("tab", ""))[:40], given.get("number")
            if isinstance(number, bool) or not isinstance(number, int):
                raise ConfigurationError("number must be that of the request")
            demand = str(given.get("demand")), given.get("amount")
            found = await self._latest.run(tab, number, lambda: self.desk.solve(demand))
        except UnderstudyError as error:
            return failure(422, str(error))
        if found is None:
            return answer({"stale": True})
        return answer({**found, "number": number, "revision": self.desk.revision})

    async def _open(self, request: Request) -> Response:
        """An upload, into a folder of its own."""
        try:
            name = safe_name(unquote(request.headers.get("x-file-name", "")))
            folder = Path(tempfile.mkdtemp(prefix="upload-", dir=self.folder))
            path, size = folder / name, 0
            try:
                with path.open("xb") as file:
                    async for part in request.stream():
                        size += len(part)
                        if size > self.options.limit:
                            return failure(413, takeaway.words()["refusals"]["size"])
                        file.write(part)
                await self.desk.open(path, name, name)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._forget_uploads(folder)
        except UnderstudyError as error:
            return failure(422, str(error))
        except ClientDisconnect:
            return failure(400, takeaway.words()["refusals"]["length"])
        return answer({"revision": self.desk.revision})

    def _forget_uploads(self, kept: Path) -> None:
        for folder in self.folder.glob("upload-*"):
            if folder != kept:
                shutil.rmtree(folder, ignore_errors=True)

    async def _take(self, request: Request) -> Response:
        try:
            found = await asyncio.to_thread(self.desk.download, request.path_params["name"])
        except KeyError:
            return failure(404, takeaway.words()["refusals"]["path"])
        except UnderstudyError as error:
            return failure(409, str(error))
        content, kind, name = found
        return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})

    async def _events(self, request: Request) -> Response:
        """Server-sent events: the revision and the job whenever they change, and a sign of life every second."""

        async def stream() -> AsyncIterator[bytes]:
            while not self.stopping:
                changed = self.changed
                job = self.desk.jobs.running
                told = {
                    "revision": self.desk.revision, "busy": self.desk.busy, "job": None if job is None else job.plain(),
                }  # fmt: skip
                yield b"data: " + orjson.dumps(told) + b"\n\n"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), BEAT)
                    await asyncio.sleep(0.05)  # many changes are told as one

        return StreamingResponse(stream(), media_type="text/event-stream")


def _post(work: Callable[[Plain], Any]) -> Callable[[Request], Awaitable[Response]]:
    """A route that does one thing with a JSON object."""

    async def route(request: Request) -> Response:
        try:
            work(await body(request))
        except UnderstudyError as error:
            return failure(422, str(error))
        return answer({"done": True})

    return route


async def body(request: Request) -> Plain:
    """The JSON object of a request."""
    try:
        found = orjson.loads(await request.body() or b"{}")
    except orjson.JSONDecodeError:
        raise ConfigurationError("the request is not JSON") from None
    if not isinstance(found, dict):
        raise ConfigurationError("the request is no JSON object")
    return found


async def _not_found(request: Request, error: Exception) -> Response:
    status = int(getattr(error, "status_code", 404))
    return failure(status, takeaway.words()["refusals"]["path" if status == 404 else "method"])


def _load_page() -> dict[str, bytes]:
    """All files of the page, by name: a name that is not here is no file."""
    found = {}
    root = files("understudy.studio").joinpath("page")
    for each in root.iterdir():
        if each.is_file():
            found[each.name] = each.read_bytes()
        else:
            found |= {f"{each.name}/{part.name}": part.read_bytes() for part in each.iterdir() if part.is_file()}
    return found


# Serving --------------------------------------------------------------------------------------------------------------


def listen(port: int) -> tuple[list[socket.socket], int]:
    """Sockets on 127.0.0.1 and ::1 with one port; the second only where the machine has it."""
    first = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", port))
    except OSError as error:
        first.close()
        why = (error.strerror or "refused").lower()
        raise ConfigurationError(f"port {port} cannot be used ({why}); another one can: --port 0") from None
    found, port = [first], first.getsockname()[1]
    with contextlib.suppress(OSError):
        second = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        try:
            second.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            second.bind(("::1", port))
            found.append(second)
        except OSError:
            second.close()
    for each in found:
        each.listen(128)  # who comes before the server is ready waits
    return found, port


class _Server(uvicorn.Server):
    """A server that a signal ends in order: what was uploaded is removed then."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the studio."""
        yield

    def end(self) -> None:
        """Take no more requests."""
        self.should_exit = True


async def serve(path: Path | None, options: Options, ready: Callable[[str], None]) -> None:
    """Serve until somebody ends it, or nobody has been here for the idle time; `ready` hears the address."""
    if path is not None and not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    if path is not None and path.stat().st_size > options.limit:
        raise ConfigurationError(
            f"{path} has {size_words(path.stat().st_size)}; the studio takes {size_words(options.limit)}, --limit says "
            "otherwise, and `understudy fit` takes files of any length"
        )
    sockets, port = listen(options.port)
    before = os.umask(0o077)
    folder = Path(tempfile.mkdtemp(prefix="understudy-studio-"))
    studio = Studio(folder, options)
    try:
        if path is not None:
            await studio.desk.open(path.resolve(), path.name, str(path))
        keys = Keys(port)
        guard = Guard(studio.app(), keys, port, options, studio.touch)
        config = uvicorn.Config(
            guard, log_config=None, access_log=False, log_level="critical", ws="none", lifespan="off",
            server_header=False, date_header=False, timeout_graceful_shutdown=1, h11_max_incomplete_event_size=BODY,
        )  # fmt: skip
        server = _Server(config)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.end)
        watch = asyncio.create_task(_watch(server, studio, options.idle))
        ready(f"http://127.0.0.1:{port}/?token={keys.token}")
        await server.serve(sockets=sockets)
        watch.cancel()
    finally:
        studio.stop()
        for _ in range(100):
            if studio.desk.jobs.running is None:
                break
            await asyncio.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)
        os.umask(before)
        for each in sockets:
            each.close()


async def _watch(server: uvicorn.Server, studio: Studio, idle: float) -> None:
    """End streams when the server ends, and the server when nobody has been here for long."""
    while not server.should_exit:
        await asyncio.sleep(0.1)
        if studio.desk.jobs.running is not None:
            studio.touch()
        if time.monotonic() - studio.touched > idle:
            server.should_exit = True
    studio.stop()


def run(path: Path | None, options: Options, as_json: bool, say: Callable[[str], None]) -> None:
    """The command: serve, and say where."""

    def ready(address: str) -> None:
        if as_json:
            told = {"address": address, "limit_bytes": options.limit, "idle_seconds": options.idle}
            say(orjson.dumps(told).decode())
            return
        for line in takeaway.words()["terminal"]["ready"]:
            say(line.format(address=address, limit=size_words(options.limit), minutes=f"{options.idle / 60:g}"))

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(path, options, ready))
    if not as_json:
        say(takeaway.words()["terminal"]["ended"])
