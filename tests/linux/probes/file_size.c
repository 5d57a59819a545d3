/* RLIMIT_FSIZE: what is written up to it, and the signal and the error after it. */
#include "probe.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static void one_write(int fd, const char *question, long size) {
    static char data[64];
    sigset_t waits;
    ASK(question, write(fd, data, size));
    sigpending(&waits);
    SAY("SIGXFSZ", "%d", sigismember(&waits, SIGXFSZ));
    struct timespec none = {0, 0};
    sigemptyset(&waits);
    sigaddset(&waits, SIGXFSZ);
    sigtimedwait(&waits, NULL, &none);
}

int main(void) {
    put("file", "");
    struct rlimit limit = {10, RLIM_INFINITY};
    int fd = open("file", O_RDWR), anonymous = memfd_create("anonymous", 0), ends[2];
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    TRY(setrlimit(RLIMIT_FSIZE, &limit));
    one_write(fd, "8 bytes", 8);
    one_write(fd, "2 of 8 bytes", 8);
    one_write(fd, "no byte", 1);
    one_write(fd, "nothing", 0);
    one_write(anonymous, "10 of 64 bytes", 64);
    one_write(anonymous, "no byte of memory", 1);
    TRY(pwrite(fd, "abc", 3, 9));
    TRY(pwrite(fd, "abc", 3, 10));
    TRY(ftruncate(fd, 11));
    TRY(ftruncate(fd, 10));
    TRY(ftruncate(fd, 3));
    TRY(ftruncate(fd, 10));
    TRY(truncate("file", 100));
    TRY(fallocate(fd, 0, 0, 11));
    TRY(fallocate(fd, 0, 0, 10));
    lseek(fd, 1 << 20, SEEK_SET);
    TRY(write(fd, "x", 1));
    pipe(ends);
    TRY(write(ends[1], "more than ten bytes", 19));
    limit.rlim_cur = RLIM_INFINITY;
    TRY(setrlimit(RLIMIT_FSIZE, &limit));
    TRY(ftruncate(fd, 100));
    limit.rlim_cur = 10;
    TRY(setrlimit(RLIMIT_FSIZE, &limit));
    TRY(ftruncate(fd, 50));
    TRY(pwrite(fd, "abc", 3, 20));
    return 0;
}
