"""A server of a model in a thread, and a client that speaks plain HTTP."""

import http.client
import json
import shutil
import threading
import time

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("sklearn")

import uvicorn

from miniamp import MiniAMPRegressor
from miniamp.app.learner import Learner
from miniamp.app.server import listening, only_local
from miniamp.app.service import service


class Client:
    """Requests to a port of this machine."""

    def __init__(self, port, token=None):
        self.port, self.token = port, token

    def ask(self, method, path, body=None, **headers):
        """(status, headers, content)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers = {"Content-Type": "application/json", **headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, content = self.ask("GET", path)
        assert status == 200, content
        return json.loads(content)

    def post(self, path, body, **headers):
        status, _, content = self.ask("POST", path, body, **headers)
        return status, json.loads(content)


def batch(seed, rows=40, features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    return X, X @ np.arange(1.0, features + 1.0) + rng.normal(size=rows)


def body(seed, **more):
    X, y = batch(seed)
    return {"X": X.tolist(), "y": y.tolist(), **more}


@pytest.fixture
def running():
    """A function that serves an application on this machine and gives its port and its end."""
    servers = []

    def run(app):
        config = uvicorn.Config(only_local(app), port=0, log_level="error", ws="none")
        socket = listening("127.0.0.1", 0)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        servers.append((server, thread, socket))
        return socket.getsockname()[1], lambda: _stop(server, thread, socket)

    yield run
    for each in servers:
        _stop(*each)


def _stop(server, thread, socket):
    server.should_exit = True
    thread.join(timeout=30)
    socket.close()
    assert not thread.is_alive()


@pytest.fixture
def serving(tmp_path, running):
    """A function that serves a model and gives a client; all are stopped at the end."""

    def serve(model=None, stream=None, path=None, waiting=64, **options):
        learner = Learner(
            path or tmp_path / "m.amp", model or MiniAMPRegressor(), stream, waiting=waiting
        )
        port, stop = running(service(learner, **options))
        client = Client(port, options.get("token"))
        client.learner, client.stop = learner, stop
        return client

    return serve


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="session")
def browser():
    """A real browser; tests that need it are skipped where there is none."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with sync.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address and gives the page; errors and foreign requests fail."""
    contexts, problems = [], []

    def opened(url, width=1280, scheme="light"):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("request", lambda request: check(request.url))
        page.goto(url)
        return page

    def check(url):
        if not url.startswith(("http://127.0.0.1", "data:", "blob:")):
            problems.append(f"request to {url}")

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def shown(running):
    """A function that serves a page and gives its address."""
    return lambda app: f"http://127.0.0.1:{running(app)[0]}/"
