"""A browser for the studio's tests: Debian's chromium, in which a complaint or a foreign request is a failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from studio_cases import Running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, without a sandbox, which containers do not have."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("there is no chromium: `make system` installs it (on Debian, apt-get install chromium)")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page of a studio; at the end nothing may have been said on the console or asked of anybody else."""
    contexts: list[Any] = []
    said: list[str] = []

    def open_page(running: Running, quiet: bool = True, **options: Any) -> Page:
        context = browser.new_context(viewport=options.pop("viewport", {"width": 1280, "height": 900}), **options)
        contexts.append(context)
        running.guests.append(context.close)
        page = context.new_page()
        page.set_default_timeout(150_000)  # on a machine that is busy
        if quiet:
            page.on("console", lambda message: said.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: said.append(f"error: {error}"))
            page.on("request", lambda request: None if own(request.url) else said.append(f"request: {request.url}"))

        def own(url: str) -> bool:
            return url.startswith((running.origin + "/", "data:"))

        if running.cookie:  # the token is spent
            name, secret = running.cookie.split("=", 1)
            context.add_cookies([{"name": name, "value": secret, "url": running.origin}])
        page.goto(running.origin if running.cookie else running.address)
        page.locator("body[data-ready=yes]").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
