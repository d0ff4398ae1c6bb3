"""Work is shared between threads, also in a process that was forked."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from miniamp import MiniAMPRegressor
from miniamp.designs import threads
from miniamp.estimators import targets


@pytest.fixture
def fresh():
    threads.cores.cache_clear()
    yield
    threads.cores.cache_clear()


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
@pytest.mark.parametrize(("asked", "most"), [("1", 1), ("1000", 1000), ("", 1000), ("many", 1000)])
@pytest.mark.usefixtures("fresh")
def test_threads_by_environment(name, asked, most, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv(name, asked)
    assert 1 <= threads.cores() <= most


@pytest.mark.parametrize("rows", [1, 2, 3, 100, 101])
def test_shares_cover_all_rows_once(rows, monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 4)
    parts = threads.shares(rows, 10**9)
    assert [m for part in parts for m in range(rows)[part]] == list(range(rows))
    assert len(parts) == min(4, rows)


def test_a_worker_takes_what_it_was_given(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 1)  # what a cluster tells all of its workers
    assert len(threads.shares(100, 10**9)) == 1
    with threads.limit(3):
        assert len(threads.shares(100, 10**9)) == 3
    assert len(threads.shares(100, 10**9)) == 1


def test_small_work_stays_in_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 4)
    assert threads.shares(1000, 10**5) == [slice(0, 1000)]


def test_an_error_in_a_share_reaches_the_caller():
    def work(part):
        if part.start:
            raise ArithmeticError(part.start)

    with pytest.raises(ArithmeticError):
        threads.each(work, [slice(0, 1), slice(1, 2)])


def test_what_no_thread_has_begun_the_caller_does(monkeypatch):
    """The only other thread is held up by the second part: the caller does the third and fourth."""
    pool = ThreadPoolExecutor(1)
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    by_caller, last_done = [], threading.Event()

    def work(part):
        if threading.current_thread() is threading.main_thread():
            by_caller.append(part.start)
            if part.start == 2:
                last_done.set()
        else:
            assert last_done.wait(timeout=30.0)
        return part.start

    parts = [slice(k, k + 1) for k in range(4)]
    assert threads.each(work, parts) == [0, 1, 2, 3]
    assert by_caller in ([0, 3, 2], [0, 3, 2, 1])


def two_shares() -> list[int]:
    return threads.each(lambda part: part.stop, [slice(0, 1), slice(1, 2)])


def test_a_forked_process_makes_its_own_threads():
    assert two_shares() == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: the point here
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(two_shares).get(timeout=30) == [1, 2]


def threads_of_blas():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.mark.parametrize(("shape", "expected"), [((500, 100), 1), ((2000, 500), 2)])
def test_small_batches_take_one_thread_of_blas(shape, expected, monkeypatch):
    """On a busy machine the second thread of OpenBLAS makes them ten times slower."""
    seen = []

    def one_target(*arguments, learn=targets._one_target, **options):
        seen.append(threads_of_blas())
        return learn(*arguments, **options)

    monkeypatch.setattr(targets, "_one_target", one_target)
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    y = X @ rng.normal(size=shape[1]) + rng.normal(size=len(X))
    with threadpool_limits(limits=2, user_api="blas"):
        MiniAMPRegressor().partial_fit(X, y)
        assert threads_of_blas() == {2}
    assert seen == [{expected}]
