"""The server is killed under load: no acknowledged batch is lost, none is learned twice."""

import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import miniamp
from miniamp import MiniAMPRegressor
from miniamp.app.learner import Learner, Log
from miniamp.cli import main

from .conftest import Client, batch, body

KILLS, CLIENTS, SECONDS = 20, 3, 90.0


class Server:
    """`miniamp serve` in a process of its own, on a port that stays the same.

    Processes are forked from one that has imported everything, so that the time goes into kills and
    not into imports.
    """

    def __init__(self, path):
        self.path = path
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["miniamp.app.service", "miniamp.cli.app"])
        self.start()

    def start(self):
        command = ["serve", str(self.path), "--new", "regression", "--port", str(self.port)]
        self.process = self.context.Process(target=main, args=(command,))
        self.process.start()

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def load(server, number, acknowledged, stopped):
    """Send batches, each until it is acknowledged, as a careful client does."""
    k = 0
    while not stopped.is_set():
        name = f"{number}-{k}"
        content = json.dumps(body(1000 * number + k, id=name)).encode()
        while not stopped.is_set():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                connection.request("POST", "/learn", content, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # killed: try again with the same id
                continue
            finally:
                connection.close()
            if answer.status == 429:
                time.sleep(0.05)
                continue
            assert answer.status == 200, text
            acknowledged[name] = json.loads(text)
            break
        k += 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
@pytest.mark.timeout(300)
def test_twenty_kills_lose_nothing_and_learn_nothing_twice(tmp_path, monkeypatch):
    """20 kills at random moments, 3 clients, 90 s at most, loopback only."""
    path = tmp_path / "m.amp"
    server = Server(path)
    acknowledged, stopped = {}, threading.Event()
    clients = [
        threading.Thread(target=load, args=(server, number, acknowledged, stopped))
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    rng, end, kills = random.Random(0), time.monotonic() + SECONDS, 0
    try:
        while kills < KILLS and time.monotonic() < end:
            # Some kills hit the start itself, when the log is being read.
            if rng.random() < 0.8:
                while not server.answers() and time.monotonic() < end:
                    time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.6))
            server.kill()
            kills += 1
            server.start()
        while not server.answers() and time.monotonic() < end + 10:
            time.sleep(0.05)
        time.sleep(1.0)
    finally:
        stopped.set()
        for client in clients:
            client.join()
        server.kill()
    assert kills == KILLS
    assert len(acknowledged) > KILLS  # there was load

    # What is on disk, read as the next start would read it.
    order = {}
    monkeypatch.setattr("miniamp.app.learner.LOG_BYTES", 0)
    learner = Learner(path)
    for name, (_, number, rows, _) in learner._requests.items():
        assert number not in order
        order[number] = name
        assert rows == 40
    assert sorted(order) == list(range(1, learner.batches + 1))
    assert set(acknowledged) <= set(order.values())
    assert len(set(order.values())) == len(order)
    for name, answer in acknowledged.items():
        assert order[answer["batch"]] == name

    offline = MiniAMPRegressor()
    for number in sorted(order):
        client, k = map(int, order[number].split("-"))
        offline.partial_fit(*batch(1000 * client + k))
    assert learner.model.n_samples_seen_ == offline.n_samples_seen_ == 40 * learner.batches
    for name in ("coef_", "coef_std_"):
        assert getattr(learner.model, name).tobytes() == getattr(offline, name).tobytes()
    assert (
        np.float64(learner.model.intercept_).tobytes() == np.float64(offline.intercept_).tobytes()
    )
    learner.stop()
    log = Log(path.with_name("m.amp.log"))
    assert log.size == 0
    log.close()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGTERM is a signal of POSIX systems")
def test_the_command_serves_and_ends_with_a_checkpoint(tmp_path):
    path = tmp_path / "m.amp"
    words = ["serve", str(path), "--new", "regression", "--columns", "a,b,c", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "miniamp", *words], stdout=subprocess.PIPE, text=True
    )
    client = Client(int(process.stdout.readline().rsplit(":", 1)[1]))
    assert client.post("/learn", body(0, id="a"))[0] == 200
    process.terminate()
    assert process.wait(30) in (0, -signal.SIGTERM)
    process.stdout.close()
    model = miniamp.load(path)
    assert model.n_samples_seen_ == 40
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
