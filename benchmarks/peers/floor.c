/* The floor: a lower bound on the time of any filter.

For each candidate it reads two contiguous counts and computes a score with one division. Then it
selects the K largest scores; the earliest win ties. It keeps no particles, copies or writes no
counts, and takes no logarithm.

A slow floor would prove nothing, so the selection is the fastest one known. It first scores every
16th particle, for a bound that slightly more than K scores reach. Then it scores all particles into
a small buffer, collects the scores that reach the bound, and selects exactly among these. */

#include <stdint.h>
#include <string.h>

enum { STRIDE = 16 };

typedef struct {
    int64_t n_particles;
    const uint32_t* n_candidates; /* of each particle */
    const double* weight;         /* of each particle */
    const uint16_t* transition;   /* of each candidate: from the present state of its particle */
    const uint16_t* emission;     /* of each candidate: of the symbol */
    double alpha;
    double prior;
} Counts;

static void score(const Counts* counts, int64_t particle, int64_t first, double* out)
{
    const uint16_t* transition = counts->transition + first;
    const uint16_t* emission = counts->emission + first;
    const double weight = counts->weight[particle];
    const double alpha = counts->alpha, prior = counts->prior;
    const uint32_t n = counts->n_candidates[particle];
    for (uint32_t i = 0; i < n; i++)
        out[i] = weight * (transition[i] + alpha) / (emission[i] + prior);
}

/* Return the value of the given rank (from 0) in descending order; reorders the values. */
static double value_at_rank(double* values, int64_t n, int64_t rank)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        double a = values[low], b = values[low + (high - low) / 2], c = values[high];
        double pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do i++; while (values[i] > pivot);
            do j--; while (values[j] < pivot);
            if (i >= j)
                break;
            double swapped = values[i];
            values[i] = values[j];
            values[j] = swapped;
        }
        if (rank <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[low];
}

static double sampled_bound(const Counts* counts, int64_t budget, double* work)
{
    int64_t n = 0, first = 0, total = 0;
    for (int64_t k = 0; k < counts->n_particles; k++) {
        if (k % STRIDE == 0) {
            score(counts, k, first, work + n);
            n += counts->n_candidates[k];
        }
        first += counts->n_candidates[k];
    }
    total = first;
    /* The rank in the sample of 1.2 times the budget. */
    int64_t rank = (int64_t)(1.2 * (double)budget * (double)n / (double)total) + 8;
    return rank < n ? value_at_rank(work, n, rank) : 0.0;
}

static int64_t collect(
    const Counts* counts, double bound, double* buffer, double* values, uint32_t* places)
{
    int64_t n = 0, first = 0;
    for (int64_t k = 0; k < counts->n_particles; k++) {
        const uint32_t n_candidates = counts->n_candidates[k];
        score(counts, k, first, buffer);
        for (uint32_t i = 0; i < n_candidates; i++) {
            values[n] = buffer[i];
            places[n] = (uint32_t)first + i;
            n += buffer[i] >= bound;
        }
        first += n_candidates;
    }
    return n;
}

/* Write the indices of the K best candidates in ascending order; return their number. `work`,
`values` and `places` have one entry for each candidate and one more; `buffer` has as many entries
as a particle has candidates. */
int64_t floor_step(
    const Counts* counts, int64_t budget, double* buffer, double* work, double* values,
    uint32_t* places, uint32_t* survivors)
{
    int64_t n = collect(counts, sampled_bound(counts, budget, work), buffer, values, places);
    if (n < budget)
        n = collect(counts, 0.0, buffer, values, places);
    if (n <= budget) {
        memcpy(survivors, places, (size_t)n * sizeof(uint32_t));
        return n;
    }
    memcpy(work, values, (size_t)n * sizeof(double));
    const double cut = value_at_rank(work, n, budget - 1);
    int64_t ties = budget, kept = 0;
    for (int64_t i = 0; i < n; i++)
        ties -= values[i] > cut;
    for (int64_t i = 0; i < n && kept < budget; i++) {
        const int tied = values[i] == cut && ties > 0;
        ties -= tied;
        survivors[kept] = places[i];
        kept += values[i] > cut || tied;
    }
    return kept;
}
