"""Loops over the states of `SoftHMM`, in C, since `restrict` lets the compiler vectorise them.

Every vector is padded with zeros to a multiple of four.
"""

cdef extern from *:
    """
    #include <stddef.h>
    /* out += factor * row, over n padded states */
    static inline void add_scaled(
        double *__restrict out, const double *__restrict row, double factor, ptrdiff_t n
    ) {
        for (ptrdiff_t c = 0; c < n; c++) out[c] += factor * row[c];
    }
    /* four sums, which the compiler can vectorise without reordering additions */
    static inline double dot(
        const double *__restrict a, const double *__restrict b, ptrdiff_t n
    ) {
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        for (ptrdiff_t c = 0; c < n; c += 4)
            for (int lane = 0; lane < 4; lane++) sums[lane] += a[c + lane] * b[c + lane];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    static inline double total_of(const double *__restrict a, ptrdiff_t n) {
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        for (ptrdiff_t c = 0; c < n; c += 4)
            for (int lane = 0; lane < 4; lane++) sums[lane] += a[c + lane];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    /* out = share * (row + prior * base) * evidence: a row of the joint posterior */
    static inline void joint_row(
        double *__restrict out, const double *__restrict row, const double *__restrict base,
        const double *__restrict evidence, double prior, double share, ptrdiff_t n
    ) {
        for (ptrdiff_t c = 0; c < n; c++)
            out[c] = share * (row[c] + prior * base[c]) * evidence[c];
    }
    static inline void emission_of(
        double *__restrict out, const double *__restrict counts,
        const double *__restrict inverse, double prior, ptrdiff_t n
    ) {
        for (ptrdiff_t c = 0; c < n; c++) out[c] = (counts[c] + prior) * inverse[c];
    }
    static inline void multiply(
        double *__restrict out, const double *__restrict factors, ptrdiff_t n
    ) {
        for (ptrdiff_t c = 0; c < n; c++) out[c] *= factors[c];
    }
    static inline void invert_totals(
        double *__restrict out, const double *__restrict totals, double prior, ptrdiff_t n
    ) {
        for (ptrdiff_t c = 0; c < n; c++) out[c] = 1.0 / (totals[c] + prior);
    }
    """
    void add_scaled(double* out, const double* row, double factor, Py_ssize_t n) noexcept nogil
    double dot(const double* a, const double* b, Py_ssize_t n) noexcept nogil
    double total_of(const double* a, Py_ssize_t n) noexcept nogil
    void joint_row(
        double* out, const double* row, const double* base, const double* evidence,
        double prior, double share, Py_ssize_t n,
    ) noexcept nogil
    void emission_of(
        double* out, const double* counts, const double* inverse, double prior, Py_ssize_t n,
    ) noexcept nogil
    void multiply(double* out, const double* factors, Py_ssize_t n) noexcept nogil
    void invert_totals(
        double* out, const double* totals, double prior, Py_ssize_t n,
    ) noexcept nogil
