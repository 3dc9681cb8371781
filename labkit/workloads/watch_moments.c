/* Prints what the kernel counts, again and again: watch_moments MILLISECONDS TIMES
 *
 * A line is the time of day in seconds; the ticks of all CPUs that were busy, idle, in soft
 * interrupts and stolen; interrupts; context switches; and how many tasks run or want to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <fcntl.h>
#include <unistd.h>

static char text[1 << 20];

static unsigned long long after(const char *word)
{
	const char *found = strstr(text, word);

	return found ? strtoull(found + strlen(word), NULL, 10) : 0;
}

int main(int count, char **words)
{
	long every = count == 3 ? atol(words[1]) : 0, times = count == 3 ? atol(words[2]) : 0;
	int file = open("/proc/stat", O_RDONLY);
	struct timespec next;

	if (every < 1 || times < 1 || file < 0) {
		fprintf(stderr, "watch_moments MILLISECONDS TIMES, where there is a /proc/stat\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &next);
	while (times--) {
		unsigned long long t[8] = {0};
		struct timespec now;
		ssize_t size = pread(file, text, sizeof text - 1, 0);

		if (size <= 0)
			return 1;
		text[size] = 0;
		clock_gettime(CLOCK_REALTIME, &now);
		sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3, t + 4,
		       t + 5, t + 6, t + 7);
		printf("%ld.%06ld %llu %llu %llu %llu %llu %llu %llu\n", (long)now.tv_sec,
		       now.tv_nsec / 1000, t[0] + t[1] + t[2] + t[5] + t[6], t[3] + t[4], t[6], t[7],
		       after("\nintr "), after("\nctxt "), after("\nprocs_running "));
		next.tv_nsec += every % 1000 * 1000000;
		next.tv_sec += every / 1000 + next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return 0;
}
