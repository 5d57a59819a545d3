/* epoll: levels, edges and one shots, order, duplicates, closing, nesting, and bad arguments. */
#include "probe.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>


#define BAD ((void *)8)
#define ADD EPOLL_CTL_ADD
#define MOD EPOLL_CTL_MOD
#define DEL EPOLL_CTL_DEL
#define IN EPOLLIN
#define OUT EPOLLOUT
#define ET EPOLLET

static char buffer[4096];

static long control(int ep, int operation, int fd, unsigned events, long data) {
    struct epoll_event event = {events, {.u64 = data}};
    return epoll_ctl(ep, operation, fd, &event);
}

static void waited(const char *question, int ep, int most, int timeout) {
    struct epoll_event events[16];
    char text[400] = "";
    int count = epoll_wait(ep, events, most, timeout);
    for (int i = 0; i < count; i++)
        sprintf(text + strlen(text), " %x:%lx", events[i].events, (long)events[i].data.u64);
    SAY(question, "%d%s", count, text);
}

static long add(int fd) { return write(fd, &(unsigned long){1}, 8); }
static long get(int fd) { return read(fd, buffer, 8); }
static int counter(void) { return eventfd(0, EFD_NONBLOCK); }

static long polled(int fd) {
    struct pollfd entry = {fd, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM, 0};
    return poll(&entry, 1, 0) < 0 ? -1 : entry.revents;
}

static void levels_and_edges(void) {
    int ep = epoll_create1(0), fd = counter();
    TRY(control(ep, ADD, fd, IN, 1));
    waited("nothing", ep, 16, 0), add(fd), waited("level", ep, 16, 0), waited("still", ep, 16, 0);
    TRY(polled(ep));
    get(fd), waited("read", ep, 16, 0);
    TRY(polled(ep));
    TRY(control(ep, MOD, fd, IN | OUT | ET, 2));
    waited("edge", ep, 16, 0), waited("no other", ep, 16, 0), add(fd), waited("written", ep, 16, 0);
    add(fd), waited("written again", ep, 16, 0), waited("no more", ep, 16, 0), get(fd), waited("read", ep, 16, 0);
    TRY(control(ep, MOD, fd, IN | ET, 3));
    waited("input only", ep, 16, 0), add(fd), waited("written", ep, 16, 0), get(fd), waited("read", ep, 16, 0);
    add(fd), get(fd), waited("written and read", ep, 16, 0);
    add(fd), control(ep, MOD, fd, IN | ET, 4), waited("modified", ep, 16, 0), waited("no more", ep, 16, 0);
    control(ep, MOD, fd, IN | EPOLLONESHOT, 5), waited("one shot", ep, 16, 0), add(fd);
    waited("no other", ep, 16, 0), control(ep, MOD, fd, IN | EPOLLONESHOT, 6), waited("loaded", ep, 16, 0);
    control(ep, MOD, fd, 0, 7), waited("no events", ep, 16, 0), waited("a limit", ep, 16, 3);
}

static void order(void) {
    int ep = epoll_create1(0), fd[4];
    for (int i = 0; i < 4; i++) fd[i] = counter(), control(ep, ADD, fd[i], IN, i);
    add(fd[2]), add(fd[0]), add(fd[3]), add(fd[2]);
    waited("as they became ready", ep, 16, 0);
    waited("two", ep, 2, 0), waited("the next two", ep, 2, 0), waited("one", ep, 1, 0);
    get(fd[2]), add(fd[1]), add(fd[2]), waited("all", ep, 16, 0);
    for (int i = 0; i < 4; i++) get(fd[i]);
    waited("none", ep, 16, 0), add(fd[3]), add(fd[1]), waited("again", ep, 16, 0);
}

static void duplicates(void) {
    int ep = epoll_create1(0), fd = counter(), other = dup(fd);
    TRY(control(ep, ADD, fd, IN, 0x10));
    TRY(control(ep, ADD, other, IN, 0x11));
    add(fd), waited("both", ep, 16, 0), close(fd), waited("one is closed", ep, 16, 0);
    TRY(control(ep, DEL, fd, 0, 0));
    close(other), waited("both are", ep, 16, 0);
}

static void pipes(void) {
    int ep = epoll_create1(0), ends[2];
    pipe2(ends, O_NONBLOCK);
    TRY(control(ep, ADD, ends[0], IN | EPOLLRDHUP | ET, 0x20));
    TRY(control(ep, ADD, ends[1], OUT | ET, 0x21));
    waited("empty", ep, 16, 0), write(ends[1], "a", 1), waited("written", ep, 16, 0);
    write(ends[1], "b", 1), waited("written again", ep, 16, 0), read(ends[0], buffer, 1);
    waited("read", ep, 16, 0), read(ends[0], buffer, 10), waited("empty again", ep, 16, 0);
    while (write(ends[1], buffer, 4096) > 0)
        ;
    waited("full", ep, 16, 0), read(ends[0], buffer, 10), waited("less than a page read", ep, 16, 0);
    while (read(ends[0], buffer, 1000) > 0)
        ;
    waited("room again", ep, 16, 0), close(ends[1]), waited("no writer", ep, 16, 0), waited("told once", ep, 16, 0);
    control(ep, MOD, ends[0], 0, 0x22), waited("hang-ups always", ep, 16, 0), waited("and again", ep, 16, 0);
    close(ends[0]), waited("closed", ep, 16, 0), pipe2(ends, O_NONBLOCK);
    control(ep, ADD, ends[1], OUT, 0x23), close(ends[0]), waited("no reader", ep, 16, 0);
}

static void nesting(void) {
    int ep = epoll_create1(0), in = epoll_create1(0), deep = epoll_create1(0), fd = counter(), row[8];
    TRY(control(ep, ADD, in, IN, 0x30));
    TRY(control(in, ADD, fd, IN, 0x31));
    waited("outer", ep, 16, 0), add(fd), waited("outer", ep, 16, 0), waited("inner", in, 16, 0);
    get(fd), waited("outer", ep, 16, 0);
    TRY(control(in, ADD, ep, IN, 0));
    TRY(control(deep, ADD, in, IN, 1));
    TRY(control(in, ADD, deep, IN, 0));
    control(ep, MOD, in, IN | ET, 0x32), add(fd), waited("edge", ep, 16, 0), waited("no other", ep, 16, 0);
    add(fd), waited("again", ep, 16, 0);
    for (int i = 0; i < 8; i++) row[i] = epoll_create1(0);
    for (int i = 0; i < 7; i++) TRY(control(row[i], ADD, row[i + 1], IN, 0));
    for (int i = 0; i < 8; i++) close(row[i]), row[i] = epoll_create1(0);
    for (int i = 6; i >= 0; i--) ASK("from the end", control(row[i], ADD, row[i + 1], IN, 0));
}

static void timers_and_signals(void) {
    struct itimerspec time = {{0, 3000000}, {0, 3000000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), edge = epoll_create1(0), level = epoll_create1(0);
    sigset_t all, mask;
    timerfd_settime(fd, 0, &time, 0), control(edge, ADD, fd, IN | ET, 0x40), waited("expired", edge, 16, -1);
    waited("not again before it is read", edge, 16, 10), get(fd), waited("read", edge, 16, -1);
    control(level, ADD, fd, IN, 0x41), waited("level", level, 16, -1), waited("still", level, 16, 0);
    sigfillset(&all), sigprocmask(SIG_BLOCK, &all, 0), sigemptyset(&mask), sigaddset(&mask, SIGUSR1);
    fd = signalfd(-1, &mask, SFD_NONBLOCK), edge = epoll_create1(0), kill(getpid(), SIGUSR1);
    control(edge, ADD, fd, IN | ET, 0x50), waited("it waits", edge, 16, 0), waited("told once", edge, 16, 0);
    kill(getpid(), SIGUSR1), waited("the same again", edge, 16, 0);
    kill(getpid(), SIGUSR2), waited("any other", edge, 16, 0);
    read(fd, buffer, 128), kill(getpid(), SIGUSR1), waited("a new one", edge, 16, 0);
}

static void kinds(void) {
    int ep = epoll_create1(0), fd = counter();
#define WATCH(call) TRY(control(ep, ADD, call, IN, 0))
    WATCH(ep);
    WATCH(99);
    WATCH(open("f", O_CREAT | O_RDWR, 0600));
    WATCH(open(".", O_RDONLY));
    WATCH(open("/dev/null", O_RDWR));
    WATCH(open("/dev/zero", O_RDWR));
    WATCH(open("/dev/full", O_RDWR));
    WATCH(open("/dev/urandom", O_RDONLY));
    WATCH(open("/proc/self/status", O_RDONLY));
    WATCH(open("/proc/self/maps", O_RDONLY));
    WATCH(memfd_create("x", 0));
    TRY(control(fd, ADD, counter(), IN, 0));
    TRY(control(open("f", O_RDWR), ADD, fd, IN, 0));
    TRY(control(99, ADD, fd, IN, 0));
}

static void bad_arguments(void) {
    struct epoll_event events[4];
    struct timespec none = {0, 0}, odd = {0, -1};
    int ep = epoll_create1(0), fd = counter();
    TRY(epoll_create(-1));
    TRY(epoll_create1(1));
    TRY(fcntl(epoll_create1(EPOLL_CLOEXEC), F_GETFD));
    control(ep, ADD, fd, IN, 1);
    TRY(control(ep, ADD, fd, IN, 1));
    TRY(control(ep, 77, fd, IN, 0));
    TRY(control(ep, DEL, fd, 0, 0));
    TRY(control(ep, DEL, fd, 0, 0));
    TRY(control(ep, MOD, fd, IN, 1));
    TRY(control(ep, 77, fd, IN, 0));
    TRY(epoll_ctl(ep, ADD, fd, BAD));
    TRY(epoll_ctl(ep, DEL, fd, BAD));
    TRY(epoll_ctl(99, ADD, fd, BAD));
    TRY(control(ep, ADD, fd, IN | EPOLLEXCLUSIVE, 7));
    TRY(control(ep, MOD, fd, IN | EPOLLEXCLUSIVE, 7));
    TRY(control(ep, MOD, fd, IN, 7));
    control(ep, DEL, fd, 0, 0);
    TRY(control(ep, ADD, fd, IN | EPOLLEXCLUSIVE | EPOLLONESHOT, 7));
    TRY(control(ep, ADD, fd, EPOLLRDHUP | EPOLLEXCLUSIVE, 7));
    TRY(control(ep, ADD, epoll_create1(0), IN | EPOLLEXCLUSIVE, 7));
    TRY(control(ep, ADD, fd, IN | EPOLLEXCLUSIVE | ET | EPOLLWAKEUP, 7));
    control(ep, ADD, counter(), OUT, 8);
    TRY(epoll_wait(ep, events, 0, 0));
    TRY(epoll_wait(ep, events, -1, 0));
    TRY(epoll_wait(ep, events, 0x7fffffff, 0));
    TRY(epoll_wait(99, events, 0, 0));
    TRY(epoll_wait(fd, events, 1, 0));
    TRY(epoll_wait(ep, BAD, 1, 0));
    waited("it is not lost", ep, 16, 0);
    TRY(epoll_wait(ep, (void *)-8, 1, 0));
    TRY(syscall(SYS_epoll_pwait, ep, events, 1, 0, &none, 4));
    TRY(syscall(SYS_epoll_pwait, ep, events, 1, 0, BAD, 8));
    TRY(syscall(SYS_epoll_pwait, ep, events, 1, 0, 0, 4));
    TRY(syscall(SYS_epoll_pwait, 99, events, 1, 0, &none, 4));
    TRY(syscall(SYS_epoll_pwait2, ep, events, 1, &none, 0, 8));
    TRY(syscall(SYS_epoll_pwait2, ep, events, 1, &odd, 0, 8));
    TRY(syscall(SYS_epoll_pwait2, ep, events, 1, BAD, 0, 8));
    TRY(syscall(SYS_epoll_pwait2, 99, events, 1, &odd, 0, 8));
}

int main(void) {
    levels_and_edges(), order(), duplicates(), pipes(), nesting(), timers_and_signals(), kinds(), bad_arguments();
    return 0;
}
