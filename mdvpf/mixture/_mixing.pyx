# cython: language_level=3
"""The compiled part of `GeometricMixture`: weights of distributions, and how they learn.

A *column* is one of the N distributions that are mixed; a member has one or more. A *head* is one
way of mixing them: linear heads average by fixed share, geometric heads multiply powers, by
gradient or by Newton steps. The prediction is the average of the heads, again by fixed share.

`Mixer` owns the weights. A chunk of distributions comes in as one contiguous buffer, and a call
releases the GIL. Every sum has a fixed order, so results do not depend on chunks or threads.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef enum:
    MISSING = -1

cdef extern from *:
    """
    #define MDVPF_LEAST_LOG (-40.0)
    #define MDVPF_LEAST_PROBABILITY 4.248354255291589e-18
    #define MDVPF_LARGEST_POWER 10.0
    """
    const double LEAST_LOG "MDVPF_LEAST_LOG"            # of a factor of a geometric head
    const double LEAST "MDVPF_LEAST_PROBABILITY"        # its exponential
    const double LARGEST_POWER "MDVPF_LARGEST_POWER"    # powers stay in [-this, this]


cdef inline double dot(const double* a, const double* b, Py_ssize_t n) noexcept nogil:
    """The scalar product, in four partial sums."""
    cdef double s0 = 0.0
    cdef double s1 = 0.0
    cdef double s2 = 0.0
    cdef double s3 = 0.0
    cdef Py_ssize_t i = 0
    while i + 4 <= n:
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        i += 4
    while i < n:
        s0 += a[i] * b[i]
        i += 1
    return (s0 + s1) + (s2 + s3)


cdef inline void add_scaled(
    double* out, const double* a, double scale, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] += scale * a[i]


cdef inline double bounded(double power) noexcept nogil:
    return min(max(power, -LARGEST_POWER), LARGEST_POWER)


cdef inline double share_at(double share, int64_t n) noexcept nogil:
    """The share after the n-th symbol, n = 1, 2, ...; a negative one is 1 / (n + 1)."""
    return 1.0 / (<double>n + 1.0) if share < 0.0 else share


cdef inline bint reweigh(
    double* weights, const double* prior, const double* likelihood, Py_ssize_t n, double share
) noexcept nogil:
    """Bayes' rule and a share back to the prior; False if nothing was possible: no change."""
    cdef double total = dot(weights, likelihood, n)
    cdef Py_ssize_t i
    if not total > 0.0:
        return False
    for i in range(n):
        weights[i] = (1.0 - share) * (weights[i] * likelihood[i] / total) + share * prior[i]
    return True


cdef class Mixer:
    """The weights of all heads over N columns, and their average.

    Parameters
    ----------
    prior : float64 array of length N
        First weights of the columns in every linear head; shares go back to it.
    shares : float64 array
        The share of each linear head, negative for 1 / (n + 1); at least one.
    rates : float64 array
        The rate of each gradient head.
    ridges : float64 array
        The ridge of each Newton head.
    head_prior : float64 array
        First weights of the heads: linear, gradient, Newton.
    head_share : float
        The share of the average of the heads, negative for 1 / (n + 1).
    """

    cdef readonly Py_ssize_t n_columns
    cdef Py_ssize_t n_factors       # inputs of a geometric head: first linear head, then columns
    cdef Py_ssize_t n_linear, n_gradient, n_newton, n_heads
    cdef double[::1] prior, shares, rates, head_prior
    cdef double head_share
    cdef double[:, ::1] linear      # [head][column]: weights
    cdef double[:, ::1] powers      # [gradient heads, then Newton heads][factor]
    cdef double[:, :, ::1] inverse  # [Newton head]: inverse of ridge + sum of g g'
    cdef double[::1] heads          # weights of the heads
    cdef readonly int64_t n_seen    # symbols that were not missing
    # Work space of a step, for distributions of `width` symbols.
    cdef Py_ssize_t width
    cdef double[:, ::1] logs        # [factor]: log probabilities
    cdef double[:, ::1] mixed       # [head]: the distribution of each
    cdef double[::1] gradient, direction, likelihood, head_likelihood

    def __init__(
        self, const double[::1] prior, const double[::1] shares, const double[::1] rates,
        const double[::1] ridges, const double[::1] head_prior, double head_share,
    ):
        cdef Py_ssize_t n = prior.shape[0]
        cdef Py_ssize_t k
        self.n_columns = n
        self.n_factors = n + 1
        self.n_linear = shares.shape[0]
        self.n_gradient = rates.shape[0]
        self.n_newton = ridges.shape[0]
        self.n_heads = self.n_linear + self.n_gradient + self.n_newton
        if n < 1 or self.n_linear < 1 or head_prior.shape[0] != self.n_heads:
            raise ValueError("prior, shares, head_prior: expected columns, and a linear head")
        self.prior = np.array(prior)
        self.shares = np.array(shares)
        self.rates = np.array(rates)
        self.head_prior = np.array(head_prior)
        self.head_share = head_share
        self.heads = np.array(head_prior)
        self.linear = np.tile(np.asarray(prior), (self.n_linear, 1))
        # A geometric head starts half way between the linear mixture and the columns alike.
        first = np.concatenate([[0.5], 0.5 * np.asarray(prior)])
        self.powers = np.tile(first, (self.n_gradient + self.n_newton, 1))
        self.inverse = np.empty((self.n_newton, self.n_factors, self.n_factors))
        for k in range(self.n_newton):
            np.asarray(self.inverse)[k] = np.eye(self.n_factors) / ridges[k]
        self.gradient = np.empty(self.n_factors)
        self.direction = np.empty(self.n_factors)
        self.likelihood = np.empty(n)
        self.head_likelihood = np.empty(self.n_heads)
        self.width = 0

    cdef int reserve(self, Py_ssize_t width) except -1:
        if width > self.width:
            width = max(width, 2 * self.width) if self.width else width
            logs = np.empty((self.n_factors, width))
            self.mixed = np.empty((self.n_heads, width))
            self.logs = logs
            self.width = width
        return 0

    # ---- one symbol --------------------------------------------------------------------------

    cdef void mix(self, const double* columns, Py_ssize_t stride, Py_ssize_t n) noexcept nogil:
        """Write what every head predicts, from the distributions of the columns, `stride` apart."""
        cdef Py_ssize_t j, k, y
        cdef const double* column
        cdef double* logs
        cdef double* out
        cdef double top, total
        for k in range(self.n_linear):
            out = &self.mixed[k, 0]
            for y in range(n):
                out[y] = 0.0
            for j in range(self.n_columns):
                add_scaled(out, columns + j * stride, self.linear[k, j], n)
        if self.n_heads == self.n_linear:
            return
        for j in range(self.n_factors):
            column = columns + (j - 1) * stride if j else &self.mixed[0, 0]
            logs = &self.logs[j, 0]
            for y in range(n):
                logs[y] = log(column[y]) if column[y] > LEAST else LEAST_LOG
        for k in range(self.n_gradient + self.n_newton):
            out = &self.mixed[self.n_linear + k, 0]
            for y in range(n):
                out[y] = 0.0
            for j in range(self.n_factors):
                add_scaled(out, &self.logs[j, 0], self.powers[k, j], n)
            top = -INFINITY
            for y in range(n):
                top = max(top, out[y])
            total = 0.0
            for y in range(n):
                out[y] = exp(out[y] - top)
                total += out[y]
            for y in range(n):
                out[y] /= total

    cdef double average(self, Py_ssize_t symbol) noexcept nogil:
        """Return the probability of a symbol, and note that of each head."""
        cdef double total = 0.0
        cdef Py_ssize_t k
        for k in range(self.n_heads):
            self.head_likelihood[k] = self.mixed[k, symbol]
            total += self.heads[k] * self.mixed[k, symbol]
        return total

    cdef void learn(
        self, const double* columns, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t symbol
    ) noexcept nogil:
        """Let all heads learn a symbol that `mix` has predicted and `average` has noted."""
        cdef Py_ssize_t j, k, i
        cdef const double* distribution
        cdef double* powers
        cdef double* row
        cdef double size
        self.n_seen += 1
        for j in range(self.n_columns):
            self.likelihood[j] = columns[j * stride + symbol]
        for k in range(self.n_linear):
            reweigh(
                &self.linear[k, 0], &self.prior[0], &self.likelihood[0], self.n_columns,
                share_at(self.shares[k], self.n_seen),
            )
        for k in range(self.n_gradient + self.n_newton):
            distribution = &self.mixed[self.n_linear + k, 0]
            powers = &self.powers[k, 0]
            for j in range(self.n_factors):
                self.gradient[j] = self.logs[j, symbol] - dot(&self.logs[j, 0], distribution, n)
            if k < self.n_gradient:
                for j in range(self.n_factors):
                    powers[j] = bounded(powers[j] + self.rates[k] * self.gradient[j])
                continue
            i = k - self.n_gradient
            for j in range(self.n_factors):
                self.direction[j] = dot(
                    &self.inverse[i, j, 0], &self.gradient[0], self.n_factors)
            size = dot(&self.gradient[0], &self.direction[0], self.n_factors)
            size = 1.0 + max(size, 0.0)     # rounding could make it negative
            for j in range(self.n_factors):
                row = &self.inverse[i, j, 0]
                add_scaled(row, &self.direction[0], -self.direction[j] / size, self.n_factors)
                powers[j] = bounded(powers[j] + self.direction[j] / size)
        reweigh(
            &self.heads[0], &self.head_prior[0], &self.head_likelihood[0], self.n_heads,
            share_at(self.head_share, self.n_seen),
        )

    # ---- many symbols ------------------------------------------------------------------------

    def advance(
        self, const int32_t[::1] symbols, const double[:, :, ::1] columns,
        const int64_t[::1] widths, bint learn, double[::1] log_predictive,
        double[:, ::1] weights, double[:, ::1] heads, double[:, ::1] mixed=None,
    ):
        """Predict and learn a chunk of symbols.

        Parameters
        ----------
        symbols : int32 buffer
            Symbols, -1 for missing.
        columns : float64 buffer of shape (N, n, width)
            The distribution of each column before each symbol.
        widths : int64 buffer
            How many symbols each distribution has.
        learn : bool
            Whether the weights change.
        log_predictive : float64 buffer
            Receives the log probability of each symbol, 0 for a missing one.
        weights, heads : float64 buffers, one row a symbol
            Receive the weights of the columns in the first linear head, and those of the heads.
        mixed : float64 buffer of shape (n, width), optional
            Receives the distribution before each symbol.
        """
        cdef bint is_wanted = mixed is not None
        cdef Py_ssize_t n = symbols.shape[0]
        cdef Py_ssize_t stride = columns.shape[1] * columns.shape[2]
        cdef Py_ssize_t t, j
        if columns.shape[0] != self.n_columns or columns.shape[1] != n or widths.shape[0] != n \
                or log_predictive.shape[0] != n or weights.shape[0] != n \
                or weights.shape[1] != self.n_columns or heads.shape[0] != n \
                or heads.shape[1] != self.n_heads or (
                    is_wanted and (mixed.shape[0] != n or mixed.shape[1] < columns.shape[2])):
            raise ValueError("symbols, columns, widths, ...: expected one length")
        for t in range(n):
            if not 1 <= widths[t] <= columns.shape[2] or not MISSING <= symbols[t] < widths[t]:
                raise ValueError(f"symbols[{t}]={symbols[t]}: expected one of the alphabet, or -1")
        self.reserve(columns.shape[2])
        with nogil:
            for t in range(n):
                for j in range(self.n_columns):
                    weights[t, j] = self.linear[0, j]
                for j in range(self.n_heads):
                    heads[t, j] = self.heads[j]
                log_predictive[t] = 0.0
                if symbols[t] == MISSING and not is_wanted:
                    continue
                self.mix(&columns[0, t, 0], stride, widths[t])
                if is_wanted:
                    for j in range(widths[t]):
                        mixed[t, j] = self.average(j)
                if symbols[t] == MISSING:
                    continue
                log_predictive[t] = log(self.average(symbols[t]))
                if learn:
                    self.learn(&columns[0, t, 0], stride, widths[t], symbols[t])

    def predict(self, const double[:, ::1] columns, double[::1] out):
        """Write the distribution of the next symbol, given those of the columns."""
        cdef Py_ssize_t n = columns.shape[1]
        cdef Py_ssize_t y
        if columns.shape[0] != self.n_columns or out.shape[0] != n or n < 1:
            raise ValueError("columns, out: expected one length")
        self.reserve(n)
        with nogil:
            self.mix(&columns[0, 0], n, n)
            for y in range(n):
                out[y] = self.average(y)

    # ---- the weights -------------------------------------------------------------------------

    def export(self):
        """Copies of everything that was learnt, by name."""
        return {
            "linear": np.array(self.linear),
            "powers": np.array(self.powers),
            "inverse": np.array(self.inverse),
            "heads": np.array(self.heads),
        }

    def restore(
        self, const double[:, ::1] linear, const double[:, ::1] powers,
        const double[:, :, ::1] inverse, const double[::1] heads, int64_t n_seen,
    ):
        """Take what `export` returned, of a mixer with the same configuration."""
        if linear.shape[0] != self.n_linear or linear.shape[1] != self.n_columns \
                or powers.shape[0] != self.n_gradient + self.n_newton \
                or powers.shape[1] != self.n_factors or inverse.shape[0] != self.n_newton \
                or inverse.shape[1] != self.n_factors or inverse.shape[2] != self.n_factors \
                or heads.shape[0] != self.n_heads or n_seen < 0:
            raise ValueError("expected weights of the same shape")
        self.linear[:] = linear
        self.powers[:] = powers
        self.inverse[:] = inverse
        self.heads[:] = heads
        self.n_seen = n_seen
