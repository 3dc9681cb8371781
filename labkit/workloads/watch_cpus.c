/* Runs a command, and notes meanwhile what the kernel counts of each CPU.
 *
 *     watch_cpus NAME MILLISECONDS COMMAND...
 *
 * Prints "=== NAME ===", what the command prints, "=== cpu time ===", and what was noted: lines of
 * /proc/stat under both clocks of each look, then the CPU time of the command. Ends with its code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *noted;
static size_t size;
static FILE *notes;

/* Of the line of interrupts only the first number, which is all of them. */
static void look(void)
{
    static char *line;
    static size_t room;
    struct timespec now, day;
    unsigned long long all;
    FILE *in = fopen("/proc/stat", "r");
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_gettime(CLOCK_REALTIME, &day);
    fprintf(notes, "at %lld.%03ld\n", (long long)now.tv_sec, now.tv_nsec / 1000000);
    fprintf(notes, "day %lld.%06ld\n", (long long)day.tv_sec, day.tv_nsec / 1000);
    while (in && getline(&line, &room, in) > 0)
        if (strncmp(line, "cpu", 3) == 0 && line[3] != ' ')
            fputs(line, notes);
        else if (sscanf(line, "intr %llu", &all) == 1)
            fprintf(notes, "intr %llu\n", all);
        else if (strncmp(line, "ctxt", 4) == 0 || strncmp(line, "procs_running", 13) == 0)
            fputs(line, notes);
    if (in)
        fclose(in);
}

/* Wakes up as soon as the command has ended, where the kernel can wait for that. */
static int ended(pid_t child, int descriptor, int milliseconds, int *status)
{
    struct pollfd waits = {descriptor, POLLIN, 0};
    poll(&waits, 1, milliseconds);
    return waitpid(child, status, WNOHANG) == child;
}

int main(int count, char **words)
{
    int status = 0;
    struct rusage used;
    if (count < 4) {
        fprintf(stderr, "watch_cpus: NAME MILLISECONDS COMMAND...\n");
        return 2;
    }
    notes = open_memstream(&noted, &size);
    printf("=== %s ===\n", words[1]);
    fflush(stdout);
    look();
    pid_t own = getpid(), child = fork();
    if (child < 0) {
        perror("watch_cpus: fork");
        return 1;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != own)
            _exit(1);
        execvp(words[3], words + 3);
        fprintf(stderr, "%s: %s\n", words[3], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    int descriptor = syscall(SYS_pidfd_open, child, 0);
    while (!ended(child, descriptor, descriptor < 0 ? 20 : atoi(words[2]), &status))
        look();
    look();
    getrusage(RUSAGE_CHILDREN, &used);
    fclose(notes);
    printf("\n=== cpu time ===\n%s", noted);
    printf("user %ld.%06ld system %ld.%06ld waited %ld preempted %ld\n", used.ru_utime.tv_sec,
           used.ru_utime.tv_usec, used.ru_stime.tv_sec, used.ru_stime.tv_usec, used.ru_nvcsw,
           used.ru_nivcsw);
    fflush(stdout);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
