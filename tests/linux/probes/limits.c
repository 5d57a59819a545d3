/* Resource limits: what is set is given back, what may not be set, and what the limits then refuse. */
#include "probe.h"
#include <sys/resource.h>
#include <sys/time.h>

#define BAD ((void *)8)
#define NOBODY 999999
#define CALL(name, ...) ASK(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))

static void values(void) {
    struct rlimit limit = {5, 10}, found;
    for (int resource = 0; resource < 16; resource++) {
        if (resource == RLIMIT_NOFILE || resource == RLIMIT_AS || resource == RLIMIT_STACK || resource == RLIMIT_CPU)
            continue;
        SAY("resource", "%d", resource);
        getrlimit(resource, &limit);
        SAY("readable", "%d", limit.rlim_cur <= limit.rlim_max);
        limit.rlim_cur /= 2, limit.rlim_max /= 2;
        CALL(setrlimit, resource, &limit);
        CALL(getrlimit, resource, &found);
        SAY("given back", "%d", !memcmp(&limit, &found, sizeof found));
        limit.rlim_max += 1;
        CALL(setrlimit, resource, &limit);
        limit.rlim_max -= 1, limit.rlim_cur = limit.rlim_max + 1;
        CALL(setrlimit, resource, &limit);
    }
    CALL(getrlimit, 16, &found);
    CALL(getrlimit, -1, &found);
    CALL(getrlimit, 16, BAD);
    CALL(getrlimit, 7, BAD);
    CALL(setrlimit, 16, &found);
    CALL(setrlimit, 16, BAD);
    CALL(setrlimit, 7, BAD);
    CALL(prlimit64, 0, RLIMIT_CORE, NULL, NULL);
    CALL(prlimit64, 0, RLIMIT_CORE, NULL, &found);
    CALL(prlimit64, getpid(), RLIMIT_CORE, &found, NULL);
    CALL(prlimit64, NOBODY, RLIMIT_CORE, NULL, &found);
    CALL(prlimit64, NOBODY, 99, NULL, &found);
    CALL(prlimit64, NOBODY, 99, BAD, &found);
    CALL(prlimit64, 1, RLIMIT_CORE, NULL, &found);
    CALL(prlimit64, -1, RLIMIT_CORE, NULL, &found);
    CALL(prlimit64, 0, 16, NULL, &found);
    CALL(prlimit64, 0, RLIMIT_CORE, BAD, NULL);
    found = (struct rlimit){0, 0};
    CALL(prlimit64, 0, RLIMIT_CORE, &found, BAD);
    CALL(getrlimit, RLIMIT_CORE, &found);
    SAY("set all the same", "%d", found.rlim_max == 0);
    found = (struct rlimit){0, 1L << 40};
    CALL(setrlimit, RLIMIT_NOFILE, &found);
}

static void descriptors(void) {
    struct rlimit limit = {20, 1000};
    int ends[2], last = -1, next;
    CALL(setrlimit, RLIMIT_NOFILE, &limit);
    while ((next = dup(0)) >= 0)
        last = next;
    SAY("the last", "%d %s", last, strerrorname_np(errno));
    TRY(pipe(ends));
    TRY(dup2(0, 20));
    TRY(dup2(0, 19));
    TRY(fcntl(0, F_DUPFD, 20));
    TRY(fcntl(0, F_DUPFD, 3));
    TRY(open("file", O_RDONLY));
    limit.rlim_cur = 3;
    CALL(setrlimit, RLIMIT_NOFILE, &limit);
    TRY(fcntl(19, F_GETFD));
    TRY(dup2(0, 2));
    for (int fd = 3; fd < 20; fd++)
        close(fd);
    TRY(dup(0));
    limit.rlim_cur = 1000;
    CALL(setrlimit, RLIMIT_NOFILE, &limit);
    TRY(opened(dup(0)));
}

static volatile char *deep(int frames) {
    volatile char frame[4096];
    frame[0] = frames;
    return frames ? deep(frames - 1) + frame[0] : NULL;
}

static void stack(void) {
    struct rlimit limit = {64 << 20, RLIM_INFINITY};
    CALL(setrlimit, RLIMIT_STACK, &limit);
    deep(10000);
    SAY("40 MB of stack", "used");
    limit.rlim_cur = 1 << 20;
    CALL(setrlimit, RLIMIT_STACK, &limit);
    deep(5000);
    SAY("what was used", "stays");
}

static void usage(void) {
    struct rusage used;
    CALL(getrusage, 0, &used);
    SAY("memory", "%d", used.ru_maxrss > 0);
    CALL(getrusage, 1, &used);
    CALL(getrusage, -1, &used);
    SAY("children", "%ld %ld", used.ru_utime.tv_sec, used.ru_maxrss);
    CALL(getrusage, 2, &used);
    CALL(getrusage, 0, BAD);
}

int main(void) {
    put("file", "");
    TRY(chmod("file", 0666));
    /* root has capabilities, a guest has none */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    usage();
    stack();
    descriptors();
    values();
    return 0;
}
