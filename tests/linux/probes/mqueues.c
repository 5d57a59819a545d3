/* POSIX message queues, by system calls: names come without the slash. */
#include "probe.h"
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#define BAD ((void *)8)
#define CREATE (O_CREAT | O_RDWR)

static char name[40], text[9000];

static long raw_open(const void *queue, int flags, int mode, const void *attributes) {
    return syscall(SYS_mq_open, queue, flags, mode, attributes);
}

static long raw_send(int fd, const void *what, size_t size, unsigned priority, const void *limit) {
    return syscall(SYS_mq_timedsend, fd, what, size, priority, limit);
}

static long raw_receive(int fd, void *what, size_t size, unsigned *priority, const void *limit) {
    return syscall(SYS_mq_timedreceive, fd, what, size, priority, limit);
}

static long set(int fd, const void *new, void *old) { return syscall(SYS_mq_getsetattr, fd, new, old); }
static long notify(int fd, const void *event) { return syscall(SYS_mq_notify, fd, event); }

static long unlinked(const char *queue) { return syscall(SYS_mq_unlink, queue); }

static long made(const char *queue, int flags, long most, long size) {
    struct mq_attr attributes = {.mq_maxmsg = most, .mq_msgsize = size};
    return raw_open(queue, flags, 0600, most ? &attributes : 0);
}

static long sent(int fd, const char *what, size_t size, unsigned priority) {
    return raw_send(fd, what, size, priority, 0);
}

static long received(int fd, size_t size, void *limit) {
    unsigned priority = 77;
    memset(text, 0, 20);
    long result = raw_receive(fd, text, size, &priority, limit);
    int error = errno;
    SAY("message", "%.9s priority %u", text, priority);
    errno = error;
    return result;
}

static void shown(int fd) {
    struct mq_attr a = {.mq_flags = 0};
    set(fd, 0, &a);
    SAY("attributes", "%lx %ld %ld %ld", a.mq_flags, a.mq_maxmsg, a.mq_msgsize, a.mq_curmsgs);
}

static long polled(int fd) {
    struct pollfd entry = {fd, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM, 0};
    return poll(&entry, 1, 0) < 0 ? -1 : entry.revents;
}

static void opening(void) {
    char path[60];
    TRY(made(name, O_RDWR, 0, 0));
    TRY(opened(made(name, CREATE, 0, 0)));
    TRY(opened(made(name, CREATE | O_EXCL, 0, 0)));
    sprintf(path, "/%s", name);
    TRY(made(path, CREATE, 0, 0));
    TRY(made("", CREATE, 0, 0));
    memset(text, 'a', 300), text[300] = 0;
    TRY(made(text, CREATE, 0, 0));
    TRY(raw_open(BAD, CREATE, 0600, 0));
    TRY(raw_open(name, CREATE, 0600, BAD));
    TRY(made(name, 3, 0, 0));
    int fd = made(name, O_RDONLY, 0, 0);
    TRY(fcntl(fd, F_GETFD));
    TRY(sent(fd, "x", 1, 0));
    shown(fd), close(fd), fd = made(name, O_WRONLY, 0, 0);
    TRY(received(fd, 9000, 0));
    TRY(unlinked(name));
    TRY(unlinked(name));
    TRY(sent(fd, "still there", 11, 0));
    close(fd);
    TRY(made(name, CREATE, -1, 10));
    TRY(made(name, CREATE, 10, -1));
    TRY(made(name, CREATE, 10, 0));
}

static void messages(void) {
    struct timespec past = {1, 0}, odd = {0, -1};
    struct stat status;
    int fd = made(name, CREATE | O_NONBLOCK, 3, 20), other = made(name, O_RDWR, 0, 0);
    shown(fd);
    TRY(polled(fd));
    TRY(received(fd, 20, 0));
    TRY(sent(fd, "low", 3, 1));
    TRY(sent(fd, "high", 4, 9));
    TRY(sent(fd, "low too", 7, 1));
    TRY(polled(fd));
    TRY(sent(fd, "x", 1, 0));
    TRY(raw_send(other, "x", 1, 0, &past));
    shown(fd);
    TRY(received(fd, 19, 0));
    TRY(received(fd, 20, 0));
    TRY(received(fd, 30, 0));
    TRY(received(fd, 20, 0));
    TRY(received(other, 20, &past));
    TRY(received(other, 20, &odd));
    TRY(sent(fd, "x", 1, 32767));
    TRY(sent(fd, "x", 1, 32768));
    TRY(sent(fd, "", 0, 0));
    TRY(sent(fd, text, 21, 0));
    TRY(sent(fd, BAD, 1, 0));
    TRY(raw_receive(fd, BAD, 20, 0, 0));
    TRY(received(fd, 20, 0));
    TRY(received(fd, 20, 0));
    TRY(read(fd, text, 100));
    SAY("read", "%.59s", text);
    TRY(write(fd, "x", 1));
    TRY(fstat(fd, &status));
    SAY("status", "%o %ld", status.st_mode, (long)status.st_size);
    TRY(sent(0, "x", 1, 0));
    TRY(sent(99, "x", 1, 0));
    struct mq_attr attributes = {.mq_flags = 0};
    TRY(set(fd, &attributes, 0));
    shown(fd), attributes.mq_flags = 1;
    TRY(set(fd, &attributes, 0));
    TRY(set(0, 0, &attributes));
    TRY(set(fd, 0, BAD));
    unlinked(name);
}

static void notification(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1}, odd = {.sigev_notify = 9};
    struct timespec none = {0, 0};
    siginfo_t info;
    sigset_t all;
    int fd = made(name, CREATE | O_NONBLOCK, 3, 20);
    sigfillset(&all), sigprocmask(SIG_BLOCK, &all, 0);
    event.sigev_value.sival_int = 5;
    TRY(notify(fd, &odd));
    TRY(notify(fd, BAD));
    TRY(notify(0, &event));
    TRY(notify(fd, &event));
    TRY(notify(fd, &event));
    TRY(sent(fd, "x", 1, 0));
    TRY(sigtimedwait(&all, &info, &none));
    SAY("told", "%d %d %d %d", info.si_code, info.si_pid == getpid(), info.si_uid == getuid(), info.si_value.sival_int);
    TRY(notify(fd, &event));
    TRY(sent(fd, "not empty", 9, 0));
    TRY(sigtimedwait(&all, &info, &none));
    TRY(notify(fd, 0));
    TRY(notify(fd, 0));
    event.sigev_signo = 0;
    TRY(notify(fd, &event));
    event.sigev_signo = SIGUSR1;
    notify(fd, &event), close(fd), fd = made(name, O_RDWR | O_NONBLOCK, 0, 0);
    received(fd, 20, 0), received(fd, 20, 0), sent(fd, "y", 1, 0);
    TRY(sigtimedwait(&all, &info, &none));
    unlinked(name);
}

int main(void) {
    sprintf(name, "kvrm-%d", getpid());
    opening(), messages(), notification();
    return 0;
}
