/* Timers whose signals are blocked: what expires, what is told when it is taken, what is left, bad arguments. */
#include "probe.h"
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#define BAD ((void *)8)
#define MS 1000000L

static sigset_t all;

static int waits(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}

static void pass(long ms) {
    struct timespec time = {0, ms * MS};
    nanosleep(&time, 0);
}

static void take(const char *question) {
    struct timespec none = {0};
    siginfo_t info;
    memset(&info, 0x55, sizeof info);
    if (syscall(SYS_rt_sigtimedwait, &all, &info, &none, 8) < 0)
        SAY(question, "nothing");
    else
        SAY(question, "%d code %d value %lx", info.si_signo, info.si_code, (long)info.si_value.sival_ptr);
}

static void blocking(int signal, int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(how, &set, 0);
}

/* -- setitimer ---------------------------------------------------------------------------------------------- */
static long set(int which, long value, long interval) {
    struct itimerval time = {{0, interval}, {0, value}};
    return syscall(SYS_setitimer, which, &time, 0);
}

static void left(const char *question, int which) {
    struct itimerval time;
    getitimer(which, &time);
    SAY(question, "running %d interval %ld", time.it_value.tv_sec || time.it_value.tv_usec, time.it_interval.tv_usec);
}

static void interval_timers(void) {
    struct itimerval time = {{0, 0}, {0, 1000000}};
    set(ITIMER_REAL, 5000, 30000), left("set", ITIMER_REAL);
    pass(10), left("it waits", ITIMER_REAL);
    TRY(waits(SIGALRM));
    take("taken"), left("after it is taken", ITIMER_REAL);
    pass(32), take("the next"), set(ITIMER_REAL, 0, 0), take("no more");
    set(ITIMER_REAL, 5000, 0), pass(10), left("once", ITIMER_REAL);
    set(ITIMER_REAL, 0, 0), take("stopped, and it still waits");
    signal(SIGALRM, SIG_IGN), blocking(SIGALRM, SIG_UNBLOCK), set(ITIMER_REAL, 5000, 5000);
    pass(20), left("ignored", ITIMER_REAL), blocking(SIGALRM, SIG_BLOCK), pass(20), take("it does not go on");
    signal(SIGALRM, SIG_DFL);
    for (int which = 0; which < 3; which++) set(which, 0, 7), left("no value", which), set(which, 0, 0);
    TRY(syscall(SYS_setitimer, 3, &time, 0));
    TRY(syscall(SYS_setitimer, 0, &time, 0));
    time.it_value.tv_usec = -1;
    TRY(syscall(SYS_setitimer, 0, &time, 0));
    time.it_value.tv_usec = 0, time.it_interval.tv_sec = -1;
    TRY(syscall(SYS_setitimer, 0, &time, 0));
    TRY(syscall(SYS_setitimer, 0, 0, &time));
    TRY(syscall(SYS_setitimer, 9, BAD, 0));
    TRY(syscall(SYS_setitimer, 0, 0, BAD));
    TRY(syscall(SYS_getitimer, 3, &time));
    TRY(syscall(SYS_getitimer, 0, BAD));
    TRY(alarm(100));
    TRY(alarm(0));
}

/* -- timer_create ------------------------------------------------------------------------------------------- */
static long create(int clock, int notify, int signal, long value, int thread, int *id) {
    struct sigevent event = {0};
    event.sigev_notify = notify;
    event.sigev_signo = signal;
    event.sigev_value.sival_ptr = (void *)value;
    event._sigev_un._tid = thread;
    return syscall(SYS_timer_create, clock, &event, id);
}

static long start(int id, int flags, long value, long interval) {
    struct itimerspec time = {{0, interval}, {0, value}};
    return syscall(SYS_timer_settime, id, flags, &time, 0);
}

static void rest(const char *question, int id) {
    struct itimerspec time = {{9, 9}, {9, 9}};
    long result = syscall(SYS_timer_gettime, id, &time);
    SAY(question, "%ld running %d interval %ld", result, time.it_value.tv_sec || time.it_value.tv_nsec, time.it_interval.tv_nsec);
}

static void posix_timers(void) {
    int id, me = getpid();
    TRY(syscall(SYS_timer_create, CLOCK_MONOTONIC, 0, &id));
    TRY(start(id, 0, 3 * MS, 0));
    pass(8), take("without an event");
    TRY(create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 0x1234567890, 0, &id));
    rest("new", id);
    TRY(start(id, 0, 5 * MS, 20 * MS));
    rest("set", id), pass(70), rest("it waits", id);
    TRY(syscall(SYS_timer_getoverrun, id));
    take("taken late"), rest("it is taken", id);
    TRY(syscall(SYS_timer_getoverrun, id) > 0);
    pass(20), take("taken again");
    pass(20), start(id, 0, 900 * MS, 0);
    ASK("set anew while one waits", waits(SIGUSR1));
    take("it does not count");
    start(id, 0, 3 * MS, 0), pass(8), rest("once", id);
    TRY(syscall(SYS_timer_delete, id));
    take("deleted");
    TRY(syscall(SYS_timer_delete, id));
    TRY(syscall(SYS_timer_gettime, id, &all));
    TRY(syscall(SYS_timer_getoverrun, id));
    TRY(create(CLOCK_MONOTONIC, SIGEV_THREAD_ID, SIGUSR2, 9, me, &id));
    start(id, 0, 2 * MS, 0), pass(6), take("to the thread");
    TRY(create(CLOCK_MONOTONIC, SIGEV_THREAD, SIGUSR2, 9, 0, &id));
    start(id, 0, 2 * MS, 0), pass(6), take("as glibc's threads ask for it");
    TRY(create(CLOCK_MONOTONIC, SIGEV_NONE, 0, 0, 0, &id));
    start(id, 0, 5 * MS, 30 * MS), pass(10), rest("no signal, with an interval", id);
    start(id, 0, 5 * MS, 0), pass(10), rest("no signal, once", id);
    TRY(syscall(SYS_timer_getoverrun, id));
    TRY(create(CLOCK_REALTIME, SIGEV_SIGNAL, SIGUSR1, 1, 0, &id));
    TRY(start(id, TIMER_ABSTIME, 1, 0));
    take("an absolute time that is past");
}

static void ignoring(void) {
    int id;
    create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR2, 5, 0, &id);
    signal(SIGUSR2, SIG_IGN), blocking(SIGUSR2, SIG_UNBLOCK);
    start(id, 0, 5 * MS, 30 * MS), pass(45), rest("ignored", id), blocking(SIGUSR2, SIG_BLOCK);
    TRY(waits(SIGUSR2));
    signal(SIGUSR2, SIG_DFL);
    take("no longer"), pass(30), take("and again");
    start(id, 0, 0, 0), signal(SIGUSR2, SIG_IGN), blocking(SIGUSR2, SIG_UNBLOCK), start(id, 0, 5 * MS, 0), pass(10);
    blocking(SIGUSR2, SIG_BLOCK), signal(SIGUSR2, SIG_DFL), take("once, and ignored");
    signal(SIGUSR2, SIG_IGN), start(id, 0, 5 * MS, 300 * MS), pass(10);
    TRY(waits(SIGUSR2));
    signal(SIGUSR2, SIG_IGN);
    TRY(waits(SIGUSR2));
    signal(SIGUSR2, SIG_DFL);
    TRY(waits(SIGUSR2));
    take("it comes back");
    syscall(SYS_timer_delete, id);
}

static void bad_arguments(void) {
    int id, me = getpid();
    struct itimerspec time = {{0, 0}, {-1, 0}}, old;
    TRY(create(CLOCK_MONOTONIC, SIGEV_THREAD_ID, SIGUSR2, 9, 1, &id));
    TRY(create(CLOCK_MONOTONIC, 3, SIGUSR2, 9, me, &id));
    TRY(create(CLOCK_MONOTONIC, SIGEV_THREAD | SIGEV_THREAD_ID, SIGUSR2, 9, me, &id));
    TRY(create(CLOCK_MONOTONIC, SIGEV_SIGNAL, 0, 9, 0, &id));
    TRY(create(CLOCK_MONOTONIC, SIGEV_SIGNAL, 65, 9, 0, &id));
    TRY(create(CLOCK_MONOTONIC, SIGEV_NONE, 99, 9, 0, &id));
    TRY(syscall(SYS_timer_create, CLOCK_MONOTONIC, BAD, &id));
    TRY(syscall(SYS_timer_create, CLOCK_MONOTONIC, 0, BAD));
    for (int clock = -8; clock < 13; clock++) {
        char question[32];
        sprintf(question, "clock %d", clock);
        ASK(question, create(clock, SIGEV_NONE, 0, 0, 0, &id));
    }
    create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 0, 0, &id);
    TRY(syscall(SYS_timer_settime, id, 0, 0, 0));
    TRY(syscall(SYS_timer_settime, id, 0, BAD, 0));
    TRY(syscall(SYS_timer_settime, id, 0, &time, 0));
    time.it_value = (struct timespec){0, 1000000000};
    TRY(syscall(SYS_timer_settime, id, 0, &time, 0));
    time.it_value.tv_nsec = 0, time.it_interval.tv_nsec = 1000000000;
    TRY(syscall(SYS_timer_settime, id, 0, &time, 0));
    TRY(start(9999, 0, 1, 0));
    TRY(start(id, 98, 0, 0));
    start(id, 0, 900 * MS, 3);
    time.it_interval.tv_nsec = 7;
    TRY(syscall(SYS_timer_settime, id, 0, &time, &old));
    SAY("what was set", "%d %ld", old.it_value.tv_nsec > 0, old.it_interval.tv_nsec);
    rest("stopped, with an interval", id);
    TRY(syscall(SYS_timer_settime, id, 0, &time, BAD));
    TRY(syscall(SYS_timer_gettime, id, BAD));
    TRY(syscall(SYS_timer_gettime, -1, &time));
    TRY(syscall(SYS_timer_getoverrun, -1));
}

int main(void) {
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    interval_timers(), posix_timers(), ignoring(), bad_arguments();
    return 0;
}
