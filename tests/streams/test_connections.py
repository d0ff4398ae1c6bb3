"""Sources with an address: resumed after their last row, whenever the process was killed.

SQL runs on DuckDB and Redis streams on a real server. Kafka runs on the mock cluster of librdkafka
(`test.mock.num.brokers`), which speaks the protocol on a socket; no real broker was tried.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import miniamp
from miniamp import cli
from miniamp.errors import InvalidInputError, MissingExtraError
from miniamp.streams import open_stream

ROWS = 240


def row_of(i):
    return {"a": math.sin(i), "city": "uvw"[i % 3], "y": 2 * math.sin(i) + math.cos(7 * i)}


@pytest.fixture
def sql(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "x.duckdb") as database:
        database.execute("CREATE TABLE t (id INTEGER, a DOUBLE, city VARCHAR, y DOUBLE, day DATE)")
        order = np.random.default_rng(0).permutation(ROWS).tolist()
        rows = [[i, *row_of(i).values(), f"2020-{1 + i // 28:02}-{1 + i % 28:02}"] for i in order]
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    query = "sql:SELECT id, a, city, y FROM t"
    return query, {"database": str(tmp_path / "x.duckdb"), "key": "id"}


@pytest.fixture(scope="module")
def redis_port():
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("there is no redis-server; Debian has it in the package redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if "Ready to accept connections" in line:
                break
        yield port
        server.terminate()
        server.stdout.read()


@pytest.fixture
def redis_stream(redis_port):
    """Every other row as one field of JSON."""
    import redis

    with redis.Redis(port=redis_port) as client:
        client.delete("rows")
        for i in range(ROWS):
            client.xadd("rows", {"json": json.dumps(row_of(i))} if i % 2 else row_of(i))
    return f"redis://127.0.0.1:{redis_port}/rows", {"rows": str(ROWS)}


@pytest.fixture
def kafka_topic():
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    for i in range(ROWS):
        producer.produce("rows", json.dumps(row_of(i)), partition=0)
    producer.flush()
    yield f"kafka://{broker.host}:{broker.port}/rows", {"rows": str(ROWS)}
    producer.flush()


@pytest.fixture(params=["sql", "redis_stream", "kafka_topic"])
def address(request):
    return request.getfixturevalue(request.param)


def opened(address, **more):
    options = {name: int(v) if name == "rows" else v for name, v in address[1].items()}
    return open_stream(address[0], "y", 50, **(options | more))


def same(batches, others):
    assert len(batches) == len(others) > 0
    for one, other in zip(batches, others, strict=True):
        assert np.array_equal(one.X, other.X)
        assert np.array_equal(one.y, other.y)
        assert one.state() == other.state()


def test_a_stream_resumes_after_its_mark(address):
    whole = list(opened(address))
    assert [batch.rows for batch in whole] == [50, 50, 50, 50, 40]
    assert whole[0].feature_names == ("a", "city=u", "city=v", "city=w")
    np.testing.assert_allclose(whole[1].y, [row_of(i)["y"] for i in range(50, 100)])
    for k in (0, 3):
        same(whole[k + 1 :], list(opened(address, resume=whole[k].state())))
    assert list(opened(address, resume=whole[-1].state(), **idle(address))) == []


def idle(address):
    return {} if address[0].startswith("sql:") else {"idle_seconds": 0.5, "rows": None}


def test_rows_that_come_later_are_learned_and_silence_ends_it(redis_stream, redis_port):
    import redis

    def add():
        time.sleep(0.5)
        with redis.Redis(port=redis_port) as client:
            for i in range(ROWS, ROWS + 60):
                client.xadd("rows", row_of(i))

    writer = threading.Thread(target=add)
    writer.start()
    batches = list(opened(redis_stream, rows=None, idle_seconds=1.5))
    writer.join()
    assert sum(batch.rows for batch in batches) == ROWS + 60


def fit(address, *more):
    options = [word for n, value in address[1].items() for word in (f"--{n}", value)]
    fixed = ("--prior", "gaussian:var=2", "--noise", "0.5", "--target", "y", "--every", "1")
    return ["fit", address[0], *options, *fixed, "--batch-size", "10", *more]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.slow
def test_two_kills_change_not_a_bit(address, tmp_path, monkeypatch):
    """240 rows in 24 batches, a checkpoint after each; killed twice soon after one was written."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(fit(address, "--checkpoint", "whole.amp")) == 0
    path = tmp_path / "killed.amp"
    command = [sys.executable, "-m", "miniamp", *fit(address, "--checkpoint", "killed.amp")]
    kills = 0
    for _ in range(2):
        before = path.stat().st_mtime_ns if path.exists() else 0
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            while process.poll() is None:
                if path.exists() and path.stat().st_mtime_ns != before:
                    process.kill()
                time.sleep(0.001)
        kills += process.returncode == -signal.SIGKILL
    assert kills == 2
    assert miniamp.load(path).n_samples_seen_ < ROWS
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert path.read_bytes() == (tmp_path / "whole.amp").read_bytes()
    assert miniamp.load(path).n_samples_seen_ == ROWS


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_while_waiting_saves(redis_stream, tmp_path, monkeypatch, capsys):
    """Without a stop rule the run waits for row 241; the rows of whole batches are kept."""
    monkeypatch.chdir(tmp_path)
    words = fit((redis_stream[0], {}), "--checkpoint", "m.amp", "--batch-size", "100")
    timer = threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    assert cli.main(words) == 128 + signal.SIGINT
    assert "interrupted after 200 rows, saved in m.amp" in capsys.readouterr().err
    assert miniamp.load("m.amp").n_samples_seen_ == 200


def test_keys_of_dates_and_texts_order_the_rows_too(sql):
    query, options = sql
    for key in ("day", "CAST(1000 + id AS VARCHAR) AS word"):
        name = key.rpartition(" ")[2]
        address = (query.replace("id,", f"{key},"), options | {"key": name})
        whole = list(opened(address))
        np.testing.assert_allclose(whole[0].y, [row_of(i)["y"] for i in range(50)])
        same(whole[2:], list(opened(address, resume=whole[1].state())))


def test_files_are_tables_without_a_database(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    lines = [f"{row_of(i)['a']!r},{row_of(i)['y']!r}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]))
    stream = open_stream("sql:SELECT a, a * a AS square, y FROM 't.csv' WHERE a > 0; ", "y", 10)
    assert stream.feature_names == ("a", "square")
    assert stream.rows == sum(batch.rows for batch in stream) == 20


def test_what_is_wrong_with_a_query_is_named(sql, monkeypatch):
    query, options = sql
    for wrong, key, reason in (
        ("sql:SELEC 1", None, "Parser Error"),
        ("sql:SELECT * FROM nothing", None, "nothing"),
        (query, "city", "twice"),
        (query, "ID2", "no column 'ID2'"),
        ("sql:SELECT NULL AS id, y, a FROM t", "id", "a missing value"),
        ("sql:DROP TABLE t", None, "Error"),
    ):
        given = options if key is None else {**options, "key": key}
        with pytest.raises(InvalidInputError, match=reason):
            list(open_stream(wrong, None, 50, **given))
    first = next(iter(open_stream(query, "y", 50, database=options["database"])))
    with pytest.raises(InvalidInputError, match="start over with key='id'"):
        open_stream(query, "y", 50, database=options["database"], resume=first.state())
    with pytest.raises(InvalidInputError, match="DuckDB file"):
        open_stream(query, "y", 50, database="absent.duckdb")


@pytest.mark.parametrize(
    "given", ["redis://localhost", "kafka:///topic", "redis://localhost:1/a/b", "kafka:topic"]
)
def test_an_address_without_its_parts_is_refused(given):
    with pytest.raises(InvalidInputError, match="host:port/name"):
        open_stream(given, "y", 50)


@pytest.mark.parametrize("extra", ["sql", "redis", "kafka"])
def test_the_extra_is_named(extra, monkeypatch):
    package = {"sql": "duckdb", "redis": "redis", "kafka": "confluent_kafka"}[extra]
    monkeypatch.setitem(sys.modules, package, None)
    given = "sql:SELECT 1" if extra == "sql" else f"{extra}://127.0.0.1:1/rows"
    with pytest.raises(MissingExtraError, match=rf'pip install "miniamp\[{extra}\]"'):
        next(iter(open_stream(given, None, 50)))


MEASURE = """
import resource, sys
from miniamp.streams import open_stream
query = "sql:SELECT i AS id, sin(i) AS a, cos(i) AS b, i % 7 AS y FROM range({}) AS r(i)"
for batch in open_stream(query.format(1000), "y", 1000, key="id"):
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = 0
for batch in open_stream(query.format(sys.argv[1]), "y", 1000, key=sys.argv[2] or None):
    rows += batch.rows
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss in kilobytes")
@pytest.mark.slow
@pytest.mark.parametrize(("key", "limit"), [("", 60.0), ("id", 400.0)])
def test_a_query_of_many_rows_takes_bounded_memory(key, limit):
    """8 million rows, 256 MB as Arrow: streamed as they come, or sorted within DuckDB's limit."""
    pytest.importorskip("duckdb")
    words = [sys.executable, "-c", MEASURE, "8000000", key]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    rows, megabytes = done.stdout.split()
    assert rows == "8000000"
    assert float(megabytes) < limit


def test_rows_are_skipped_at_the_start(address):
    whole = list(opened(address))
    rest = list(opened(address, start=50))
    assert np.array_equal(
        np.concatenate([b.y for b in rest]), np.concatenate([b.y for b in whole[1:]])
    )
    assert rest[-1].state()["mark"] == whole[-1].state()["mark"]
