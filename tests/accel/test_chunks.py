"""Pieces of the rows, and threads over them."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skicml_accel._chunks import (
    DEFAULT_CHUNK_BYTES,
    n_threads,
    row_chunks,
    thread_rows,
)


@given(
    n_rows=st.integers(0, 500),
    bytes_per_row=st.integers(0, 100),
    chunk_bytes=st.integers(0, 5000),
)
def test_chunks_cover_the_rows_within_the_budget(n_rows, bytes_per_row, chunk_bytes):
    chunks = list(row_chunks(n_rows, bytes_per_row, chunk_bytes))
    covered = [row for chunk in chunks for row in range(chunk.start, chunk.stop)]
    assert covered == list(range(n_rows))
    for chunk in chunks:
        rows = chunk.stop - chunk.start
        assert rows == 1 or rows * bytes_per_row <= chunk_bytes


def test_chunks_have_a_default_budget():
    first, second = row_chunks(3, DEFAULT_CHUNK_BYTES // 2, None)
    assert (first, second) == (slice(0, 2), slice(2, 3))


def test_number_of_threads_follows_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("SKICML_NUM_THREADS", raising=False)
    assert n_threads() == 5
    monkeypatch.setenv("SKICML_NUM_THREADS", "3")
    assert n_threads() == 3


@pytest.mark.parametrize("value", ["", "0", "-2", "many"])
def test_number_of_threads_ignores_what_is_no_count(monkeypatch, value):
    monkeypatch.setenv("SKICML_NUM_THREADS", value)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert 1 <= n_threads() <= os.cpu_count()


@pytest.mark.parametrize("n_rows", [0, 1, 7, 100, 101])
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_every_row_runs_once(monkeypatch, n_rows, threads):
    monkeypatch.setenv("SKICML_NUM_THREADS", threads)
    seen = np.zeros(n_rows, int)

    def run(rows):
        seen[rows] += 1

    thread_rows(n_rows, 10, run)
    assert np.all(seen == 1)


def test_pieces_are_not_smaller_than_asked(monkeypatch):
    monkeypatch.setenv("SKICML_NUM_THREADS", "8")
    sizes = []
    thread_rows(100, 30, lambda rows: sizes.append(rows.stop - rows.start))
    assert sum(sizes) == 100
    assert min(sizes) >= 30


def test_one_piece_runs_in_the_calling_thread(monkeypatch):
    monkeypatch.setenv("SKICML_NUM_THREADS", "1")
    ran_in = []
    thread_rows(100, 1, lambda rows: ran_in.append(threading.get_ident()))
    assert ran_in == [threading.get_ident()]


def test_error_of_a_piece_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("SKICML_NUM_THREADS", "2")

    def run(rows):
        if rows.start > 0:
            raise OverflowError("second piece")

    with pytest.raises(OverflowError, match="second piece"):
        thread_rows(100, 1, run)
