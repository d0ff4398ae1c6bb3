"""A served model against the daemon of Vowpal Wabbit, on the same rows.

    python -m benchmarks.serve [--rows 20000] [--out docs/benchmarks/serve.csv]

Both are processes of their own on this machine, spoken to over one connection, 100 rows at a time
(a batch, or 100 lines of text), and answer before the next 100 are sent. miniamp writes every batch
to disk before it answers; Vowpal Wabbit keeps its model in memory. Then single rows are predicted,
with nothing else going on and while another client keeps the server learning.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

BATCH, FEATURES, SINGLE = 100, 20, 500


def rows(count):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, FEATURES))
    return X, X @ rng.normal(size=FEATURES) + rng.normal(size=count)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(port):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(port)


def ours(path, port):
    from miniamp.cli.serve import serve

    serve(path, new="regression", port=port)


def theirs(port):
    from vowpalwabbit import Workspace

    options = f"--daemon --foreground --num_children 1 --port {port} --quiet"
    Workspace(options).run_parser()


class Ours:
    """One connection to miniamp."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def _ask(self, path, body, kind="application/json"):
        self.connection.request("POST", path, body, {"Content-Type": kind})
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text

    def learn(self, X, y):
        self._ask("/learn", json.dumps({"X": X.tolist(), "y": y.tolist()}))

    def predict(self, X):
        self._ask("/predict", json.dumps({"X": X.tolist()}))


class Arrow(Ours):
    """The same with Arrow instead of JSON."""

    def _table(self, X, **more):
        import pyarrow as pa

        table = pa.table({**{f"x{i}": column for i, column in enumerate(X.T)}, **more})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def learn(self, X, y):
        self._ask("/learn", self._table(X, y=y), "application/vnd.apache.arrow.stream")

    def predict(self, X):
        self._ask("/predict", self._table(X), "application/vnd.apache.arrow.stream")


class Theirs:
    """One connection to Vowpal Wabbit."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def learn(self, X, y):
        self._send([f"{b:.17g}" for b in y], X)

    def predict(self, X):
        self._send([""] * len(X), X)

    def _send(self, labels, X):
        lines = [
            label + " | " + " ".join(f"x{i}:{value:.17g}" for i, value in enumerate(row))
            for label, row in zip(labels, X.tolist(), strict=True)
        ]
        self.socket.sendall(("\n".join(lines) + "\n").encode())
        for _ in lines:
            self.file.readline()


def per_second(act, X, y):
    start = time.perf_counter()
    for k in range(0, len(X), BATCH):
        act(X[k : k + BATCH], y[k : k + BATCH])
    return len(X) / (time.perf_counter() - start)


def latencies(client, X):
    found = []
    for row in X[:SINGLE]:
        start = time.perf_counter()
        client.predict(row[None])
        found.append(1e3 * (time.perf_counter() - start))
    return np.percentile(found, [50, 99])


def measured(name, kind, port, X, y):
    client = kind(port)
    client.learn(X[:BATCH], y[:BATCH])  # compiled, connected
    client.predict(X[:BATCH])
    result = {
        "server": name,
        "learn, rows/s": round(per_second(client.learn, X, y)),
        "predict, rows/s": round(per_second(lambda X, _: client.predict(X), X, y)),
    }
    quiet = latencies(client, X)
    stopped = threading.Event()

    def load():
        other = kind(port)
        k = 0
        while not stopped.is_set():
            other.learn(X[k : k + BATCH], y[k : k + BATCH])
            k = (k + BATCH) % (len(X) - BATCH)

    thread = threading.Thread(target=load)
    # Vowpal Wabbit serves one connection after the other, so there is nothing to measure.
    if kind is not Theirs:
        thread.start()
    busy = latencies(client, X) if kind is not Theirs else [np.nan, np.nan]
    stopped.set()
    if kind is not Theirs:
        thread.join()
    for label, values in (("alone", quiet), ("while learning", busy)):
        for at, value in zip(("median", "p99"), values, strict=True):
            shown = "" if np.isnan(value) else round(float(value), 2)
            result[f"one row {label}, {at} ms"] = shown
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    X, y = rows(chosen.rows)
    context = multiprocessing.get_context("spawn")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, target in (
            ("miniamp, JSON", Ours, ours),
            ("miniamp, Arrow", Arrow, ours),
            ("Vowpal Wabbit, text", Theirs, theirs),
        ):
            port = free_port()
            path = Path(folder) / f"{kind.__name__}.amp"
            arguments = (path, port) if target is ours else (port,)
            process = context.Process(target=target, args=arguments)
            process.start()
            try:
                wait_for(port)
                found.append(measured(name, kind, port, X, y))
            finally:
                process.kill()
                process.join()
            print(found[-1])
    if chosen.out is not None:
        with chosen.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(found[0]))
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
