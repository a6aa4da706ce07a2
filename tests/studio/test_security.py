"""What the studio refuses, and the twin of each that it accepts."""

from __future__ import annotations

import socket
import stat

import pytest
from studio_cases import MARK, history, studio

import understudy.studio.server as server


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    with studio(folder, "--port", "0") as found:
        yield found.enter()


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    with studio(tmp_path_factory.mktemp("other")) as found:
        yield found.enter()


def test_a_token_is_good_once(tmp_path):
    """The second use is refused, and so is a wrong token; the first one gives a cookie that scripts cannot read."""
    with studio(tmp_path) as one:
        path = "/" + one.address.split("/", 3)[3]
        assert one.request("GET", "/?token=wrong").status == 403
        first = one.request("GET", path)
        assert (first.status, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert one.request("GET", path).status == 403
        assert one.request("GET", "/", {"Cookie": first.headers["set-cookie"].split(";")[0]}).status == 200


READ = ("GET", "/api/state", {}, 200)
WRITE = ("POST", "/api/cancel", MARK, 200)
CASES = {
    "no cookie": (READ, {"Cookie": None}, 403),
    "wrong cookie": (READ, {"Cookie": "understudy-studio-{port}=wrong"}, 403),
    "cookie under another name": (READ, {"Cookie": "session={secret}"}, 403),
    "foreign host": (READ, {"Host": "studio.example:{port}"}, 421),
    "host without the port": (READ, {"Host": "127.0.0.1"}, 421),
    "no host": (READ, {"Host": None}, 400),
    "origin null": (WRITE, {"Origin": "null"}, 403),
    "origin of another port": (WRITE, {"Origin": "http://127.0.0.1:9"}, 403),
    "origin by https": (WRITE, {"Origin": "https://127.0.0.1:{port}"}, 403),
    "cross-site": (READ, {"Sec-Fetch-Site": "cross-site"}, 403),
    "same site, another port": (READ, {"Sec-Fetch-Site": "same-site"}, 403),
    "typed, but a POST": (WRITE, {"Sec-Fetch-Site": "none"}, 403),
    "no header of the page": (WRITE, {"x-understudy": None}, 403),
    "GET on a POST route": (("GET", "/api/cancel", MARK, 405), {}, 405),
    "another method": (("PUT", "/api/cancel", MARK, 405), {}, 405),
    "10 GB announced": (("POST", "/api/open", MARK, 422), {"Content-Length": str(10 << 30)}, 413),
    "a large body beside uploads": (WRITE, {"Content-Length": str(1 << 20)}, 413),
    "no length": (WRITE, {"Content-Length": None}, 411),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_a_twin_that_is_accepted(running, name):
    """One header is wrong, and the request is refused; the same request without it is answered."""
    (method, path, headers, accepted), wrong, status = CASES[name]
    facts = {"port": str(running.port), "secret": running.cookie.split("=", 1)[1]}
    filled = {key: None if value is None else value.format(**facts) for key, value in wrong.items()}
    refused = running.request(method, path, {**headers, **filled})
    assert refused.status == status
    assert running.request(method, path, headers).status == accepted
    own = {"Origin": running.origin, "Sec-Fetch-Site": "same-origin"}
    assert running.request(method, path, {**headers, **own}).status == accepted


def test_the_cookie_of_another_studio_is_refused(running, other):
    """Browsers send cookies to every port of a machine, so the secret and the name are those of one port."""
    renamed = other.cookie.replace(str(other.port), str(running.port))
    assert running.get("/api/state", Cookie=other.cookie).status == 403
    assert running.get("/api/state", Cookie=renamed).status == 403
    assert running.get("/api/state", Cookie=f"{other.cookie}; {running.cookie}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py",
        "/page/..%2fserver.py",
        "/page/%2e%2e/%2e%2e/etc/passwd",
        "/page//etc/passwd",
        "/take/../state",
        "/page/vendor/../../worker.py",
        "/page/",
        "/page/vendor",
        "/static/app.js",
    ],
)
def test_no_path_leads_out_of_the_page(running, path):
    """What is no file of the page is not found; the page itself is."""
    assert running.get(path).status == 404
    assert running.get("/page/app.js").status == 200


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/words.json", "/api/state", "/nowhere", "/api/design"])
def test_every_answer_forbids_what_the_page_does_not_need(running, path):
    """The policy stands on every answer, refusals too."""
    for found in (running.get(path), running.get(path, Cookie=None)):
        headers = found.headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert not [name for name in headers if name.startswith("access-control")]
        assert "server" not in headers


def test_only_the_loopback_interface_is_served(running):
    """127.0.0.1 answers, other addresses of the machine do not."""
    assert running.get("/api/state").status == 200
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; names the address of the machine
        outside = probe.getsockname()[0]
    with (
        pytest.raises((ConnectionRefusedError, TimeoutError)),
        socket.create_connection((outside, running.port), timeout=2),
    ):
        pass


def test_both_loopback_addresses_have_the_port():
    """IPv4 and IPv6 where there is one, never any other address."""
    sockets, port = server.listen(0)
    try:
        assert {each.getsockname()[:2] for each in sockets} <= {("127.0.0.1", port), ("::1", port)}
        assert sockets[0].getsockname()[0] == "127.0.0.1"
    finally:
        for each in sockets:
            each.close()


def test_uploads_lie_in_a_folder_of_their_owner_and_are_removed(tmp_path):
    """0700 while it runs; nothing is left at the end, whether by Ctrl-C or by a signal to end."""
    path = history(tmp_path / "room.csv", days=3)
    for how in ("interrupt", "terminate"):
        with studio(tmp_path) as one:
            one.enter()
            assert one.upload("room.csv", path.read_bytes()).status == 200
            (folder,) = one.folder.glob("understudy-studio-*")
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert list(folder.rglob("room.csv"))
            one.settle()
            if how == "terminate":
                one.process.terminate()
                one.process.wait(timeout=20)
            assert one.end() == 0
            assert not folder.exists()


def test_a_studio_that_nobody_asks_stops(tmp_path):
    """After the idle time the process ends by itself; one that is asked goes on."""
    with studio(tmp_path, "--idle", "0.05") as idle, studio(tmp_path, "--idle", "5") as busy:
        busy.enter()
        assert idle.process.wait(timeout=30) == 0
        assert busy.get("/api/state").status == 200


def test_nothing_that_is_printed_or_answered_names_the_secret(running):
    """The address is printed once; the cookie's secret is in no answer but that of the exchange."""
    secret = running.cookie.split("=", 1)[1]
    assert sum("token=" in line for line in running.printed) == 1
    for path in ("/", "/api/state", "/words.json", "/nowhere"):
        assert secret not in running.get(path).body.decode()
