"""A model over HTTP: what it answers, what it refuses, and that nothing is lost."""

import io
import json
import random
import resource
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

from miniamp import MiniAMPClassifier, MiniAMPRegressor, load
from miniamp.app.learner import Log, LogEntry
from miniamp.app.service import Limits
from miniamp.cli import main
from miniamp.errors import CheckpointError, ConflictError

from .conftest import batch, body


def offline(seeds):
    model = MiniAMPRegressor()
    for seed in seeds:
        model.partial_fit(*batch(seed))
    return model


def same(one, other):
    """Whether two models agree in every bit."""
    return one.coef_.tobytes() == other.coef_.tobytes() and np.array_equal(
        one.coef_std_, other.coef_std_
    )


def test_learns_and_predicts_like_the_estimator(serving):
    client = serving()
    for seed in range(3):
        status, answer = client.post("/learn", body(seed, id=f"b{seed}"))
        assert status == 200
        assert answer == {
            "id": f"b{seed}",
            "batch": seed + 1,
            "rows": 40,
            "rows_seen": 40 * (seed + 1),
            "repeated": False,
        }
    model = offline(range(3))
    X, _ = batch(9)
    status, answer = client.post("/predict", {"X": X.tolist(), "level": 0.8})
    mean, std = model.predict(X, return_std=True)
    low, high = model.predict_interval(X, level=0.8)
    assert status == 200
    assert answer == {
        "mean": mean.tolist(),
        "std": std.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }
    about = client.get("/model")
    assert about["rows_seen"] == 120
    assert about["coef"] == model.coef_.tolist()
    assert client.get("/health")["status"] == "ok"


def test_a_batch_sent_again_is_learned_once(serving):
    client = serving()
    first = client.post("/learn", body(0, id="a"))
    again = client.post("/learn", body(0), **{"X-Request-Id": "a"})
    assert again == (200, {**first[1], "repeated": True})
    assert client.get("/model")["rows_seen"] == 40
    status, answer = client.post("/learn", body(1, id="a"))
    assert status == 409
    assert answer["error"]["argument"] == "request id"
    assert client.get("/model")["rows_seen"] == 40


def test_ids_are_remembered_after_a_restart(serving, tmp_path):
    client = serving()
    client.post("/learn", body(0, id="a"))
    client.stop()
    assert load(tmp_path / "m.amp").n_samples_seen_ == 40
    client = serving()
    assert client.post("/learn", body(0, id="a"))[1]["repeated"]
    assert not client.post("/learn", body(1, id="b"))[1]["repeated"]
    assert same(client.learner.model, offline(range(2)))


def test_classes_with_probabilities(serving):
    client = serving(MiniAMPClassifier(), {"classes": ["no", "yes"]})
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no").tolist()
    assert client.post("/learn", {"X": X.tolist(), "y": y})[0] == 200
    status, answer = client.post("/predict", {"X": [[3.0, 0.0], [-3.0, 0.0]]})
    assert status == 200
    assert answer["label"] == ["yes", "no"]
    assert answer["classes"] == ["no", "yes"]
    assert np.allclose(np.sum(answer["probabilities"], axis=1), 1.0)


def test_records_by_name(serving):
    client = serving(stream={"names": ["a", "b", "c"]})
    X, y = batch(0)
    records = [dict(zip("cab", row[[2, 0, 1]], strict=True)) for row in X]
    assert client.post("/learn", {"X": records, "y": y.tolist()})[0] == 200
    assert same(client.learner.model, offline([0]))
    with_target = [{**record, "y": target} for record, target in zip(records, y, strict=True)]
    assert client.post("/learn", with_target)[0] == 200
    assert client.get("/model")["features"] == ["a", "b", "c"]
    status, answer = client.post("/predict", {"X": [{"a": 1.0, "b": 1.0}]})
    assert status == 422
    assert "'c'" in answer["error"]["message"]


def test_a_model_of_the_command_line_takes_its_columns(serving, tmp_path):
    """Records have the columns of the file: categories are encoded as they were learned."""
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(20, 60)},{rng.choice(['Bern', 'Basel'])}" for _ in range(200)]
    rows = [f"{line},{2 * int(line[:2]) + 10 * line.endswith('Bern')}" for line in lines]
    (tmp_path / "rows.csv").write_text("\n".join(["age,city,price", *rows]))
    path = str(tmp_path / "m.amp")
    assert main(["fit", str(tmp_path / "rows.csv"), "--target", "price", "-o", path]) == 0
    client = serving()
    assert client.get("/model")["columns"] == ["age", "city"]
    record = {"age": 41, "city": "Bern"}
    status, answer = client.post("/predict", {"X": [record]})
    assert status == 200
    assert answer["mean"][0] == pytest.approx(92.0, abs=1.0)
    status, answer = client.post("/learn", [{**record, "price": 92.0}])
    assert (status, answer["rows_seen"]) == (200, 201)
    status, answer = client.post("/predict", {"X": [{"age": 41, "city": "Rome"}]})
    assert status == 422
    assert answer["error"]["message"].startswith("row 1, column 'city': got the category 'Rome'")
    assert not set("{}") & set(answer["error"]["remedy"])
    client.stop()
    assert main(["predict", path, str(tmp_path / "rows.csv"), "-o", f"{path}.csv"]) == 0


@pytest.mark.parametrize("rule", ["mean", "drop"])
def test_gaps_are_filled_as_in_the_fit(serving, tmp_path, rule):
    rng = np.random.default_rng(0)
    ages = rng.integers(20, 60, 200)
    rows = [f"{'' if i % 9 == 5 else age},{i % 2},{2 * age}" for i, age in enumerate(ages)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,sex,price", *rows]))
    asked = ["--target", "price", "--missing", rule, "-o", str(tmp_path / "m.amp")]
    assert main(["fit", str(tmp_path / "rows.csv"), *asked]) == 0
    client, gap = serving(), {"age": None, "sex": 1}
    status, answer = client.post("/predict", {"X": [gap]})
    assert status == (200 if rule == "mean" else 422)
    if rule == "mean":
        mean = np.mean([age for i, age in enumerate(ages) if i % 9 != 5])
        full = client.post("/predict", {"X": [{"age": mean, "sex": 1}]})[1]
        assert answer["mean"] == pytest.approx(full["mean"])


def arrow(table, **options):
    pa = pytest.importorskip("pyarrow")
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_arrow(serving):
    pa = pytest.importorskip("pyarrow")
    client = serving(limits=Limits(rows=100))
    kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
    X, y = batch(0)
    columns = {name: X[:, i] for i, name in enumerate("abc")}
    table = pa.table({**columns, "y": y})
    assert client.post("/learn", arrow(table), **kind)[0] == 200
    assert same(client.learner.model, offline([0]))
    assert client.post("/predict", arrow(pa.table(columns)), **kind)[0] == 200
    assert client.post("/learn", arrow(table, compression="zstd"), **kind)[0] == 400
    many = pa.table({"a": np.zeros(10_000)})
    assert client.post("/predict", arrow(many), **kind)[0] == 413


def test_limits(serving):
    client = serving(limits=Limits(body=2_000, rows=5))
    assert client.post("/predict", {"X": [[0.0] * 3] * 6})[0] == 413
    assert client.post("/predict", {"X": [[0.123456789] * 300]})[0] == 413
    status, _, _ = client.ask("POST", "/learn", b"{}", **{"Content-Encoding": "gzip"})
    assert status == 415
    assert client.ask("POST", "/learn", b"{}", **{"Content-Type": "text/plain"})[0] == 415


def test_a_token_is_asked_for(serving):
    client = serving(token="secret")
    assert client.get("/health")["status"] == "ok"
    client.token = "secre"
    status, headers, _ = client.ask("GET", "/health")
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"


def test_other_host_names_are_refused(serving):
    client = serving()
    assert client.get("/health")
    assert client.ask("GET", "/health", Host="evil.example")[0] == 421


def test_pages_of_other_sites_are_refused_but_their_links_work(serving):
    client = serving()
    site = {"Sec-Fetch-Site": "cross-site"}
    assert client.ask("GET", "/health", **site, **{"Sec-Fetch-Mode": "no-cors"})[0] == 403
    assert client.ask("GET", "/health", **site, **{"Sec-Fetch-Mode": "navigate"})[0] == 200


def test_too_many_batches_are_turned_away(serving, monkeypatch):
    """With the writer held up, two batches wait and the next ones are told to come back."""
    client = serving(waiting=2)
    held, release = threading.Event(), threading.Event()
    learn = client.learner._learned

    def slow(*arguments):
        held.set()
        release.wait(30)
        return learn(*arguments)

    monkeypatch.setattr(client.learner, "_learned", slow)
    answers = []
    threads = [
        threading.Thread(target=lambda k=k: answers.append(client.post("/learn", body(k))))
        for k in range(3)
    ]
    threads[0].start()
    held.wait(30)
    for thread in threads[1:]:
        thread.start()
    while client.learner.depth < 2:
        pass
    status, headers, content = client.ask("POST", "/learn", body(8))
    assert status == 429
    assert headers["retry-after"] == "1"
    assert b"batches that wait" in content
    release.set()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * 3


def test_a_refused_batch_changes_nothing(serving, monkeypatch):
    client = serving()
    client.post("/learn", body(0))
    before = client.get("/model")

    def refuse(*_):
        raise ConflictError("X, y", "rows that contradict", "others", "look at {noise}")

    with monkeypatch.context() as patch:
        patch.setattr(client.learner, "_learned", refuse)
        status, answer = client.post("/learn", body(1, id="b"))
    assert status == 409
    assert answer["error"]["remedy"] == "look at noise"
    assert client.get("/model") == before
    assert client.get("/health")["refused"] == 1
    # It was not learned, so its id is free.
    assert not client.post("/learn", body(1, id="b"))[1]["repeated"]


def test_metrics_and_openapi(serving):
    client = serving()
    client.post("/learn", body(0))
    _, _, text = client.ask("GET", "/metrics")
    assert b"miniamp_rows_seen 40.0" in text
    assert b'miniamp_requests_total{path="/learn",status="200"} 1.0' in text
    api = client.get("/openapi.json")
    assert {"/learn", "/predict", "/model", "/health", "/metrics"} <= set(api["paths"])
    _, _, page = client.ask("GET", "/docs")
    assert b"<script" not in page
    assert b"http://" not in page
    assert b"https://" not in page


def test_one_server_per_model(serving, tmp_path):
    """While a server has a model, another process cannot learn into it."""
    serving()
    code = (
        "import sys, pathlib; from miniamp.app.learner import Learner;"
        "Learner(pathlib.Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.amp")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "another process" in done.stderr


def test_a_torn_log_is_read_up_to_the_tear(tmp_path):
    log = Log(tmp_path / "log")
    entries = [LogEntry(k, f"b{k}", "", *batch(k)) for k in range(1, 4)]
    for entry in entries:
        log.append([entry])
    log.close()
    content = log.path.read_bytes()
    each = len(content) // 3
    for cut in (each, each + 5, 2 * each - 1, 2 * each, 3 * each - 1):
        log.path.write_bytes(content[:cut])
        log = Log(log.path)
        assert [entry.request for entry in log.entries()] == ["b1", "b2", "b3"][: cut // each]
        log.append([entries[2]])
        assert [entry.request for entry in log.entries()][-1] == "b3"
        log.close()


def test_a_log_damaged_in_the_middle_is_refused(tmp_path):
    log = Log(tmp_path / "log")
    log.append([LogEntry(k, f"b{k}", "", *batch(k)) for k in range(1, 4)])
    log.close()
    content = bytearray(log.path.read_bytes())
    content[len(content) // 2] ^= 1
    log.path.write_bytes(content)
    with closing(Log(log.path)) as log, pytest.raises(CheckpointError, match="log"):
        list(log.entries())


def test_a_crash_between_checkpoint_and_log_learns_nothing_twice(serving, tmp_path):
    """The log still has batches that are in the checkpoint already."""
    client = serving()
    client.post("/learn", body(0, id="a"))
    kept = (tmp_path / "m.amp.log").read_bytes()
    client.stop()
    (tmp_path / "m.amp.log").write_bytes(kept)
    assert same(serving().learner.model, offline([0]))


def malformed(rng):
    """A request that no client should send."""
    good = json.dumps(body(rng.randrange(5))).encode()
    kind = rng.randrange(9)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return good[: rng.randrange(len(good))]
    if kind == 2:
        place = rng.randrange(len(good))
        # A digit that becomes another digit is a sound request.
        return good[:place] + b"\x00" + good[place + 1 :]
    values = [None, True, "x", [], {}, -1, 1e400, [[1]], "1" * 5000, {"a": 1}, [["1.5"]], 10**30]
    if kind == 3:
        return json.dumps(rng.choice(values)).encode()
    if kind == 4:
        return b"[" * rng.randrange(1, 100_000)
    if kind == 5:
        key = rng.choice(["X", "records"])
        return json.dumps({key: rng.choice(values), "y": rng.choice(values)}).encode()
    if kind == 6:
        X = [[1.0, 2.0, 3.0], [1.0, 2.0]]
        return json.dumps({"X": X, "y": [1.0, 2.0]}).encode()
    if kind == 7:
        X = [[1.0, rng.choice([float("nan"), float("inf")]), 0.0]]
        return json.dumps({"X": X, "y": [1.0]}).encode()
    return json.dumps({"X": [[1.0] * rng.choice([1, 2, 4])], "y": [rng.choice(values)]}).encode()


def storm(client, count, seed):
    rng = random.Random(seed)
    kinds = ["application/json"] * 8 + ["application/vnd.apache.arrow.stream", "text/plain", ""]
    statuses = set()
    for _ in range(count):
        path = rng.choice(["/learn", "/predict", "/learn", "/predict", "/nothing", "/model"])
        status, _, _ = client.ask(
            "POST", path, malformed(rng), **{"Content-Type": rng.choice(kinds)}
        )
        statuses.add(status)
    return statuses


def test_malformed_requests_are_4xx(serving):
    client = serving()
    client.post("/learn", body(0))
    before = client.get("/model")
    statuses = storm(client, 500, seed=1)
    assert all(400 <= status < 500 for status in statuses), statuses
    assert client.get("/model") == before


@pytest.mark.slow
def test_ten_thousand_malformed_requests_leave_no_trace(serving):
    """Peak memory after 2,000 requests and after 10,000 more: less than 20 MB apart."""
    client = serving()
    client.post("/learn", body(0))
    before = client.get("/model")
    storm(client, 2_000, seed=2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statuses = storm(client, 10_000, seed=3)
    assert all(400 <= status < 500 for status in statuses), statuses
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 20_000
    assert client.get("/model") == before
