/* Memory bandwidth by four kernels over three arrays of doubles, in the manner of STREAM.
 *
 *     stream ELEMENTS TRIALS
 *
 *     copy   c = a          16 bytes an element      scale  b = s c        16
 *     add    c = a + b      24                       triad  a = b + s c    24
 *
 * Threads are those of OpenMP (OMP_NUM_THREADS). Each array is first written by the threads that use
 * it, so that its memory is on their NUMA node. Bytes are those that the kernel names; what a cache
 * reads besides, to write a line, is not counted. Values are checked at the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SCALAR 3.0

static int64_t n;
static double *a, *b, *c;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void copy(void)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i];
}

static void scale(void)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        b[i] = SCALAR * c[i];
}

static void add(void)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

static void triad(void)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] + SCALAR * c[i];
}

static const struct {
    const char *name;
    void (*run)(void);
    int bytes;
} KERNELS[] = {{"Copy", copy, 16}, {"Scale", scale, 16}, {"Add", add, 24}, {"Triad", triad, 24}};

static double *array(void)
{
    size_t bytes = n * sizeof(double);
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        fprintf(stderr, "stream: no memory for an array of %zu bytes: %s\n", bytes, strerror(errno));
        exit(1);
    }
    madvise(made, bytes, MADV_HUGEPAGE);
    return made;
}

/* One array after another: pages that are touched in turn lie in turn. A guest of User-Mode Linux maps
 * each stretch of such pages as one, and its host allows a process some 65,000 of them.
 */
static void begin(double *array, double value)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        array[i] = value;
}

/* What three numbers become that go through the same as each element. */
static double wrong(int trials)
{
    double x = 1.0, y = 2.0, z = 0.0, most = 0.0;
    for (int t = 0; t < trials; t++) {
        z = x;
        y = SCALAR * z;
        z = x + y;
        x = y + SCALAR * z;
    }
    for (int64_t i = 0; i < n; i++) {
        double off = fmax(fabs(a[i] / x - 1), fmax(fabs(b[i] / y - 1), fabs(c[i] / z - 1)));
        most = off > most || isnan(off) ? off : most;
    }
    return most;
}

int main(int count, char **words)
{
    int threads = 0, trials = count > 2 ? atoi(words[2]) : 0;
    cpu_set_t may;
    n = count > 1 ? atoll(words[1]) : 0;
    if (n < 1 || trials < 2) {
        fprintf(stderr, "usage: stream ELEMENTS TRIALS, of which the first does not count\n");
        return 2;
    }
    a = array(), b = array(), c = array();
    begin(a, 1.0), begin(b, 2.0), begin(c, 0.0);
#pragma omp parallel
#pragma omp single
    threads = omp_get_num_threads();
    sched_getaffinity(0, sizeof may, &may);
    printf("elements %lld trials %d threads %d cpus %d\n", (long long)n, trials, threads,
           CPU_COUNT(&may));
    for (int t = 0; t < trials; t++)
        for (int k = 0; k < 4; k++) {
            double begun = seconds();
            KERNELS[k].run();
            printf("%s %d %.9f %.3f\n", KERNELS[k].name, t, seconds() - begun,
                   0.0 + (double)n * KERNELS[k].bytes / 1e6);
        }
    printf("relative error %.3e\n", wrong(trials));
    return 0;
}
