"""Jobs on memory: bytes a particle, a lower bound on them, and memory of the process.

`benchmarks.full` runs each job in a separate process, so that the memory of the process is that of
the filter.
"""

from __future__ import annotations

import ctypes
import math
import os
import tempfile
from pathlib import Path

import numpy as np

import mdvpf
from benchmarks.common import BETA, N_CATEGORIES, TEXT_MODEL, load_clicks, load_text, load_words
from benchmarks.figures import Figure, Point, Result
from benchmarks.particles import tables

MB = 1e6
CHUNK = 10_000  # symbols of a run, to bound the memory of its results


def resident() -> int:
    """Return the resident bytes of the process, after freed memory is returned to the system."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc keeps freed memory for later
        libc.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_resident() -> int:
    """Return the peak of the resident bytes; `resource` may report the peak of the parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("/proc/self/status: expected a line VmHWM")


def feed(pf: mdvpf.ParticleFilter, symbols: np.ndarray) -> None:
    for start in range(0, len(symbols), CHUNK):
        pf.run(symbols[start : start + CHUNK])


# ---- bytes a particle --------------------------------------------------------------------


class RowCensus:
    """Counts the rows and columns of all particles, their cells and their non-zeros.

    `unlike_rows` and `unlike_non_zeros` count each distinct content once.
    """

    def __init__(self, pf: mdvpf.ParticleFilter) -> None:
        self.rows = self.cells = self.non_zeros = 0
        self.unlike_rows = self.unlike_non_zeros = 0
        seen: set[tuple[str, int, bytes]] = set()
        for transition, emission in tables(pf):
            for kind, table in (("transition", transition), ("emission", emission.T)):
                for i in np.flatnonzero(table.any(axis=1)).tolist():
                    row = table[i].astype(np.uint16)
                    filled = np.flatnonzero(row)
                    self.rows += 1
                    self.cells += len(row)
                    self.non_zeros += len(filled)
                    # Rows of particles with more states may differ only by trailing zeros.
                    key = (kind, i, row[: filled[-1] + 1].tobytes())
                    if key not in seen:
                        seen.add(key)
                        self.unlike_rows += 1
                        self.unlike_non_zeros += len(filled)


def live_bytes(n_particles: int = 10_000, n: int = 10_000) -> Result:
    """Live bytes a particle on text, against dense tables and against packed distinct rows.

    Distinct rows are the rows that the core stores (`MemoryReport.rows`). Rows of separate lineages
    are distinct even if they hold the same counts. Their non-zeros are estimated as their number
    times the mean over the rows of all particles.
    """
    pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=n_particles)
    feed(pf, load_text(n))
    report = pf.memory()
    census = RowCensus(pf)
    pair = 4  # a state and a count, 16 bits each
    packed = pair * census.non_zeros / census.rows * report.rows
    unlike = pair * census.unlike_non_zeros
    where = f"text, K = {n_particles:,}, n = {n:,}"
    return [
        Figure(f"live bytes a particle, {where}", report.live / n_particles, "bytes"),
        Figure(
            "  against dense int32 tables",
            report.live / report.dense_equivalent,
            at_most=1 / 2.5,
            note=f"dense: {report.dense_equivalent / n_particles:,.0f} bytes a particle",
        ),
        Figure(
            "  against non-zeros of distinct rows, packed",
            report.live / packed,
            at_most=2.5,
            note=f"packed: {packed / n_particles:,.0f} bytes a particle",
        ),
        Figure("  sharing: rows of all particles to distinct rows", census.rows / report.rows),
        Figure("  sparsity: cells of rows to their non-zeros", census.cells / census.non_zeros),
        Figure(
            "  rows of all particles to rows with different content",
            census.rows / census.unlike_rows,
            note=f"packed: {unlike / n_particles:,.0f} bytes a particle",
        ),
    ]


def words(n_particles: int = 10_000, n_symbols: int = 10_000, n: int = 100_000) -> Result:
    """Live bytes a particle with an alphabet of words."""
    stream = load_words(n_symbols, n)
    before = resident()
    model = mdvpf.InfiniteHMM(n_symbols, beta=BETA)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=n_particles)
    feed(pf, stream)
    grown = resident() - before
    report = pf.memory()
    what = f"live bytes a particle, {n_symbols:,} words, K = {n_particles:,}, n = {n:,}"
    dense = report.dense_equivalent / n_particles
    return [
        Figure(what, report.live / n_particles, "bytes", at_most=6000, note=f"dense: {dense:,.0f}"),
        Figure("  RSS growth", grown / MB, "MB"),
    ]


# ---- the process -------------------------------------------------------------------------


def accounting(n_particles: int = 10_000, n: int = 10_000) -> Result:
    """`memory()` against the growth of the process, after runs and after updates."""
    text = load_text(n)
    mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=10).run(text[:100])
    before = resident()
    pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=n_particles)
    feed(pf, text[: n // 2])
    for symbol in text[n // 2 :].tolist():
        pf.update(symbol)
    grown_by_updates = resident() - before
    by_updates = pf.memory()
    pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=n_particles)
    feed(pf, text)
    grown = resident() - before
    report = pf.memory()
    result: Result = []
    for what, value in (("allocated", report.allocated), ("live", report.live)):
        title = f"memory().{what} against RSS growth"
        note = f"process grew by {grown / MB:.1f} MB"
        result += [
            Figure(f"{title}, at most", value / grown, at_most=1.15, note=note),
            Figure(f"{title}, at least", value / grown, at_least=0.85, note=note),
        ]
    note = f"process grew by {grown_by_updates / MB:.1f} MB"
    for what, value in (("allocated", by_updates.allocated), ("live", by_updates.live)):
        title = f"memory().{what} against RSS growth, between updates"
        result.append(Figure(title, value / grown_by_updates, note=note))
    return result


def profile(n_particles: int = 10_000, n: int = 20_000) -> Result:
    """Live, allocated and resident bytes over a stream, and allocations seen by memray."""
    text = load_text(n)
    mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=10).run(text[:100])
    before = resident()
    pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=n_particles)
    result: Result = []
    for start in range(0, n, n // 20):
        pf.run(text[start : start + n // 20])
        report = pf.memory()
        at = start + n // 20
        grown = resident() - before
        for curve, value in (
            ("live", report.live),
            ("allocated", report.allocated),
            ("process", grown),
            ("dense int32", report.dense_equivalent),
        ):
            result.append(Point(curve, at, value / n_particles))
    return result + _seen_by_memray(n_particles, text[:2000])


def _seen_by_memray(n_particles: int, text: np.ndarray) -> Result:
    try:
        import memray
    except ImportError:
        print("memray: skipped, it is not installed")
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.bin"
        with memray.Tracker(path):
            pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=n_particles)
            pf.run(text)
            report = pf.memory()
        with memray.FileReader(path) as reader:
            records = list(reader.get_high_watermark_allocation_records(merge_threads=True))
            n_allocations = reader.metadata.total_allocations
    largest = sum(record.size for record in records)
    where = f"K = {n_particles:,}, {len(text):,} characters"
    return [
        Figure(f"memray: most bytes requested, {where}", largest / MB, "MB",
               note=f"allocated: {report.allocated / MB:.1f} MB; the rest is only reserved"),
        Figure("memray: allocations a character", n_allocations / len(text), ""),
    ]  # fmt: skip


def clicks(n_particles: int = 1000, n: int = 1_000_000) -> Result:
    """A million clicks with breaks between sessions: the process must not grow."""
    symbols, lengths = load_clicks(n)
    ends = np.cumsum(lengths)
    base = resident()
    model = mdvpf.InfiniteHMM(N_CATEGORIES, beta=BETA)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=n_particles)
    early = 0
    first = 0
    while first < len(lengths):
        start = ends[first] - lengths[first]
        last = max(first + 1, int(np.searchsorted(ends, start + CHUNK, side="right")))
        pf.run(symbols[start : ends[last - 1]], lengths[first:last])
        first = last
        if not early and ends[last - 1] >= n // 10:
            early = resident()
    late = resident()
    what = f"RSS at n = {len(symbols):,} against n = {n // 10:,}, clicks, K = {n_particles:,}"
    return [
        Figure(what, late / early, at_most=1.1, note=f"{late / MB:.1f} MB"),
        Figure(
            "  less what the process took before the filter",
            (late - base) / (early - base),
            note=f"{(early - base) / MB:.1f} and {(late - base) / MB:.1f} MB",
        ),
    ]


def large(n_particles: int = 100_000, n: int = 100_000) -> Result:
    """The largest run with a target: half an hour or more."""
    pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=n_particles)
    feed(pf, load_text(n))
    live = pf.memory().live / n_particles
    what = f"peak RSS, K = {n_particles:,}, {n:,} characters"
    return [
        Figure(what, peak_resident() / MB, "MB", at_most=4000, note=f"live: {live:,.0f} a particle")
    ]


# ---- history -----------------------------------------------------------------------------


def history(n_particles: int = 1000, n: int = 100_000, short: int = 3000) -> Result:
    """Live nodes of the ancestry: of SMC against its bound, of other filters, and with a lag."""
    text = load_text(n)

    def nodes(algorithm, kept, length):
        pf = mdvpf.ParticleFilter(
            TEXT_MODEL, algorithm, n_particles=n_particles, rng=0, history=kept
        )
        feed(pf, text[:length])
        return pf.memory().history_nodes

    bound = n + 20 * n_particles * math.log(n_particles)
    result: Result = [
        Figure(
            f"history nodes, SMC, K = {n_particles:,}, n = {n:,}",
            nodes(mdvpf.SMC(), "full", n),
            "",
            at_most=bound,
            note="the bound is N + 20 K log K",
        )
    ]
    lag = 50
    for name, algorithm in {
        "VPA": mdvpf.VPA(),
        "MD-VPA": mdvpf.MDVPA(),
        "OptimalResampling": mdvpf.OptimalResampling(),
    }.items():
        what = f"history nodes, {name}, n = {short:,}"
        result.append(Figure(what, nodes(algorithm, "full", short), ""))
        what = f"  with a lag of {lag}"
        result.append(Figure(what, nodes(algorithm, lag, short), "", at_most=lag * n_particles))
    return result
