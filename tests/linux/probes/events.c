/* eventfd, timerfd and signalfd: what reads and writes do, what poll says, bad arguments. */
#include "probe.h"
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>


#define BAD ((void *)8)
#define MS 1000000L

static char buffer[300];

static long get(int fd) {
    unsigned long value = -1;
    long result = read(fd, &value, 8);
    return result < 0 ? result : (long)value;
}

static long add(int fd, unsigned long value) { return write(fd, &value, 8); }

static long polled(int fd) {
    struct pollfd entry = {fd, POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLWRNORM, 0};
    return poll(&entry, 1, 0) < 0 ? -1 : entry.revents;
}

static void called(int fd) {
    char name[40], link[100] = {0};
    sprintf(name, "/proc/self/fd/%d", fd);
    readlink(name, link, sizeof link - 1);
    SAY("name", "%s", link);
}

static void pass(long ms) {
    struct timespec time = {0, ms * MS};
    nanosleep(&time, 0);
}

static void counters(void) {
    struct iovec halves[2] = {{buffer, 4}, {buffer + 4, 4}}, two[2] = {{buffer, 8}, {buffer + 8, 8}};
    int fd = eventfd(5, EFD_NONBLOCK), other = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    called(fd);
    TRY(get(fd));
    TRY(get(fd));
    TRY(add(fd, 3));
    TRY(add(fd, -1ul));
    TRY(add(fd, -2ul));
    TRY(add(fd, -5ul));
    TRY(polled(fd));
    TRY(get(fd));
    TRY(polled(fd));
    TRY(read(fd, buffer, 7));
    TRY(write(fd, buffer, 7));
    TRY(write(fd, buffer, 16));
    TRY(write(fd, BAD, 8));
    add(fd, 1);
    TRY(read(fd, BAD, 8));
    ASK("it is lost", get(fd));
    add(fd, 9);
    TRY(readv(fd, halves, 2));
    TRY(writev(fd, halves, 2));
    memset(buffer, 0, sizeof buffer), buffer[0] = 1, buffer[8] = 2;
    TRY(writev(fd, two, 2));
    TRY(get(fd));
    TRY(get(other));
    TRY(get(other));
    TRY(get(other));
    TRY(get(eventfd(0xffffffff, 0)));
    TRY(syscall(SYS_eventfd2, 0, 2));
    TRY(fcntl(eventfd(0, EFD_CLOEXEC), F_GETFD));
}

static long set(int fd, int flags, long value, long interval) {
    struct itimerspec time = {{0, interval}, {0, value}};
    return timerfd_settime(fd, flags, &time, 0);
}

static void left(const char *question, int fd) {
    struct itimerspec time;
    timerfd_gettime(fd, &time);
    SAY(question, "running %d interval %ld", time.it_value.tv_nsec > 0, time.it_interval.tv_nsec);
}

static void timers(void) {
    struct itimerspec odd = {{0, 0}, {0, 1000000000}}, old;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), counter = eventfd(0, 0);
    called(fd);
    TRY(get(fd));
    TRY(set(fd, 0, 5 * MS, 0));
    TRY(polled(fd));
    pass(9), left("expired", fd);
    TRY(polled(fd));
    TRY(read(fd, buffer, 4));
    TRY(get(fd));
    TRY(get(fd));
    set(fd, 0, 5 * MS, 10 * MS), pass(37), left("an interval", fd);
    TRY(get(fd) >= 3);
    TRY(get(fd));
    pass(12);
    TRY(get(fd) >= 1);
    pass(12), set(fd, 0, 0, 10 * MS), left("stopped", fd);
    TRY(get(fd));
    TRY(set(fd, TFD_TIMER_ABSTIME, 1, 0));
    TRY(polled(fd));
    TRY(get(fd));
    TRY(set(fd, TFD_TIMER_CANCEL_ON_SET, 0, 0));
    TRY(set(fd, 4, 0, 0));
    TRY(set(counter, 0, 0, 0));
    TRY(set(99, 0, 0, 0));
    TRY(syscall(SYS_timerfd_settime, fd, 0, 0, 0));
    TRY(syscall(SYS_timerfd_settime, fd, 0, BAD, 0));
    TRY(syscall(SYS_timerfd_settime, 99, 0, &odd, 0));
    odd.it_value = (struct timespec){-1, 0};
    TRY(syscall(SYS_timerfd_settime, fd, 0, &odd, 0));
    odd.it_value = (struct timespec){100, 0};
    TRY(syscall(SYS_timerfd_settime, fd, 0, &odd, BAD));
    TRY(syscall(SYS_timerfd_settime, fd, 0, &odd, &old));
    SAY("what was set", "%d", old.it_value.tv_sec >= 99);
    TRY(syscall(SYS_timerfd_gettime, 99, &old));
    TRY(syscall(SYS_timerfd_gettime, counter, &old));
    TRY(syscall(SYS_timerfd_gettime, fd, BAD));
    TRY(write(fd, buffer, 8));
    TRY(syscall(SYS_timerfd_create, CLOCK_MONOTONIC, 1));
    for (int clock = 0; clock < 13; clock++) {
        char question[30];
        sprintf(question, "clock %d", clock);
        ASK(question, opened(syscall(SYS_timerfd_create, clock, 0)));
    }
}

static void told(const char *question, struct signalfd_siginfo *i) {
    SAY(question, "%d %d %d pid %d uid %d tid %d overrun %d int %x ptr %lx", i->ssi_signo, i->ssi_errno, i->ssi_code,
        (int)i->ssi_pid == getpid(), i->ssi_uid == getuid(), i->ssi_tid, i->ssi_overrun, i->ssi_int, (long)i->ssi_ptr);
}

static void signals(void) {
    static struct signalfd_siginfo info[3];
    struct iovec pieces[2] = {{info, 100}, {(char *)info + 100, 156}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec soon = {{0, 0}, {0, 1}};
    union sigval value = {.sival_int = 7};
    sigset_t all, mask;
    timer_t timer;
    sigfillset(&all), sigprocmask(SIG_BLOCK, &all, 0);
    sigemptyset(&mask), sigaddset(&mask, SIGUSR1), sigaddset(&mask, SIGRTMIN);
    int fd = signalfd(-1, &mask, SFD_NONBLOCK), counter = eventfd(0, 0);
    called(fd);
    TRY(read(fd, info, 128));
    TRY(read(fd, info, 127));
    kill(getpid(), SIGUSR2);
    TRY(polled(fd));
    kill(getpid(), SIGUSR1), sigqueue(getpid(), SIGRTMIN, value);
    TRY(polled(fd));
    TRY(read(fd, info, sizeof info));
    told("the first", info), told("the second", info + 1);
    event.sigev_value.sival_ptr = (void *)0x123456789abc;
    timer_create(CLOCK_MONOTONIC, &event, &timer), timer_settime(timer, 0, &soon, 0), pass(1);
    TRY(read(fd, info, 128));
    told("a timer's", info);
    kill(getpid(), SIGUSR1), kill(getpid(), SIGRTMIN);
    TRY(read(fd, info, 200));
    sigaddset(&mask, SIGUSR2);
    TRY(signalfd(fd, &mask, 0) == fd);
    TRY(read(fd, info, sizeof info));
    SAY("left over", "%d %d", info[0].ssi_signo, info[1].ssi_signo);
    kill(getpid(), SIGUSR1);
    TRY(read(fd, BAD, 128));
    ASK("it is lost", read(fd, info, 128));
    kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2);
    TRY(readv(fd, pieces, 2));
    SAY("in pieces", "%d %d", info[0].ssi_signo, info[1].ssi_signo);
    TRY(write(fd, buffer, 128));
    TRY(syscall(SYS_signalfd4, -1, &mask, 4, 0));
    TRY(syscall(SYS_signalfd4, -1, BAD, 8, 1));
    TRY(syscall(SYS_signalfd4, -1, &mask, 8, 1));
    TRY(syscall(SYS_signalfd4, 99, &mask, 8, 0));
    TRY(syscall(SYS_signalfd4, -2, &mask, 8, 0));
    TRY(syscall(SYS_signalfd4, counter, &mask, 8, 0));
}

int main(void) {
    counters(), timers(), signals();
    return 0;
}
