/* Solves dense systems of linear equations with a BLAS library, and checks each solution.
 *
 *     linpack LIBRARY THREADS HUGE WARM SIZE...
 *
 * HUGE is yes or no: whether huge pages are asked for. Each size is solved once; before the first,
 * WARM is solved and not counted, as the library starts its threads then. Memory: 8 bytes times the
 * square of a size. The rate is (2/3 n^3 + 2 n^2) / t; the residual is that of HPL.
 *
 * dgetrf and dgetrs are what dgesv consists of. OpenBLAS 0.3.29 computes dgesv itself in one thread
 * if there is one right-hand side.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void (*factor32)(const int32_t *, const int32_t *, double *, const int32_t *, int32_t *,
                         int32_t *);
typedef void (*factor64)(const int64_t *, const int64_t *, double *, const int64_t *, int64_t *,
                         int64_t *);
typedef void (*solver32)(const char *, const int32_t *, const int32_t *, const double *,
                         const int32_t *, const int32_t *, double *, const int32_t *, int32_t *,
                         size_t);
typedef void (*solver64)(const char *, const int64_t *, const int64_t *, const double *,
                         const int64_t *, const int64_t *, double *, const int64_t *, int64_t *,
                         size_t);

static const char *NAMES[] = {"%s_", "%s_64_", "scipy_%s_", "scipy_%s_64_", NULL};
static void *library, *factors, *solves;
static int wide;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "linpack: %s: %s\n", what, why);
    exit(1);
}

static void *named(const char *way, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, way, name);
    return dlsym(library, text);
}

static void *any_of(const char *name)
{
    const char *ways[] = {"%s", "%s64_", "scipy_%s", "scipy_%s64_"};
    for (int i = 0; i < 4; i++) {
        void *there = named(ways[i], name);
        if (there)
            return there;
    }
    return NULL;
}

static void open_library(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        fail("cannot open the library", dlerror());
    for (int i = 0; NAMES[i] && !(factors && solves); i++) {
        factors = named(NAMES[i], "dgetrf");
        solves = named(NAMES[i], "dgetrs");
        wide = strstr(NAMES[i], "64_") != NULL;
    }
    if (!(factors && solves))
        fail(path, "has no dgetrf and dgetrs");
}

static void describe(void)
{
    char text[512] = "unknown";
    char *(*config)(void) = any_of("openblas_get_config");
    void (*version)(char *, int) = dlsym(library, "MKL_Get_Version_String");
    int (*threads)(void) = any_of("openblas_get_num_threads");
    if (!threads)
        threads = dlsym(library, "MKL_Get_Max_Threads");
    if (config)
        snprintf(text, sizeof text, "%s", config());
    else if (version)
        version(text, sizeof text - 1);
    printf("library %s\n", text);
    printf("threads %d\n", threads ? threads() : -1);
}

/* The same numbers whenever they are asked for, between -0.5 and 0.5. */
static void fill(double *a, int64_t count, uint64_t seed)
{
    uint64_t x = seed;
    for (int64_t i = 0; i < count; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        a[i] = (double)(x >> 11) / 9007199254740992.0 - 0.5;
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int64_t solve32(int32_t n, double *a, double *x, int32_t *pivots)
{
    int32_t one = 1, info = 0;
    ((factor32)factors)(&n, &n, a, &n, pivots, &info);
    if (!info)
        ((solver32)solves)("N", &n, &one, a, &n, pivots, x, &n, &info, 1);
    return info;
}

static int64_t solve64(int64_t n, double *a, double *x, int64_t *pivots)
{
    int64_t one = 1, info = 0;
    ((factor64)factors)(&n, &n, a, &n, pivots, &info);
    if (!info)
        ((solver64)solves)("N", &n, &one, a, &n, pivots, x, &n, &info, 1);
    return info;
}

static int64_t solve(int64_t n, double *a, double *x, void *pivots)
{
    return wide ? solve64(n, a, x, pivots) : solve32((int32_t)n, a, x, pivots);
}

/* Of the whole matrix, which is made once more: what was there is its factors by now. */
static double residual(int64_t n, double *a, const double *x, const double *b)
{
    double *rows = calloc(n, sizeof *rows), *sums = calloc(n, sizeof *sums);
    double norm_a = 0, norm_x = 0, norm_b = 0, most = 0;
    fill(a, n * n, 1);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            rows[i] += a[j * n + i] * x[j];
            sums[i] += fabs(a[j * n + i]);
        }
    for (int64_t i = 0; i < n; i++) {
        norm_a = fmax(norm_a, sums[i]);
        norm_x = fmax(norm_x, fabs(x[i]));
        norm_b = fmax(norm_b, fabs(b[i]));
        double off = fabs(rows[i] - b[i]);
        most = off > most || isnan(off) ? off : most;
    }
    free(rows);
    free(sums);
    return most / (DBL_EPSILON * (norm_a * norm_x + norm_b) * n);
}

static long huge_kib(void)
{
    long found_kib = 0;
    char line[256];
    FILE *in = fopen("/proc/self/smaps_rollup", "r");
    while (in && fgets(line, sizeof line, in))
        sscanf(line, "AnonHugePages: %ld", &found_kib);
    if (in)
        fclose(in);
    return found_kib;
}

static void one(int64_t n, int huge, int counts)
{
    size_t bytes = (size_t)n * n * sizeof(double);
    double *a = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED)
        fail("no memory for the matrix", strerror(errno));
    if (huge)
        madvise(a, bytes, MADV_HUGEPAGE);
    double *b = malloc(n * sizeof *b), *x = malloc(n * sizeof *x);
    void *pivots = malloc(n * sizeof(int64_t));
    if (!b || !x || !pivots)
        fail("no memory", strerror(errno));
    fill(a, n * n, 1);
    fill(b, n, 2);
    memcpy(x, b, n * sizeof *x);
    long in_huge = huge_kib();
    double begun = seconds();
    int64_t info = solve(n, a, x, pivots);
    double took = seconds() - begun;
    if (info)
        fail("the library could not solve it", info > 0 ? "singular" : "a wrong argument");
    double work = 2.0 / 3 * n * n * n + 2.0 * n * n;
    if (counts)
        printf("n %lld seconds %.6f gflops %.4f residual %.6f huge_kib %ld of_kib %zu\n",
               (long long)n, took, work / took / 1e9, residual(n, a, x, b), in_huge, bytes >> 10);
    fflush(stdout);
    munmap(a, bytes);
    free(b);
    free(x);
    free(pivots);
}

/* How often the kernel has moved a thread of this process to another CPU; -1 where it does not say. */
static long migrations(void)
{
    long all = -1, some;
    char path[300], line[256];
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/sched", task->d_name);
        FILE *in = fopen(path, "r");
        while (in && fgets(line, sizeof line, in))
            if (sscanf(line, "se.nr_migrations : %ld", &some) == 1)
                all = (all < 0 ? 0 : all) + some;
        if (in)
            fclose(in);
    }
    if (tasks)
        closedir(tasks);
    return all;
}

int main(int count, char **words)
{
    cpu_set_t may;
    if (count < 6)
        fail("usage", "linpack LIBRARY THREADS HUGE WARM SIZE...");
    setenv("OPENBLAS_NUM_THREADS", words[2], 1);
    setenv("MKL_NUM_THREADS", words[2], 1);
    setenv("OMP_NUM_THREADS", words[2], 1);
    open_library(words[1]);
    describe();
    sched_getaffinity(0, sizeof may, &may);
    printf("cpus %d\n", CPU_COUNT(&may));
    int huge = strcmp(words[3], "yes") == 0;
    one(atoll(words[4]), huge, 0);
    for (int i = 5; i < count; i++)
        one(atoll(words[i]), huge, 1);
    printf("migrations %ld\n", migrations());
    return 0;
}
