/* Every clock, and what each can do: those with a number, those of processes and threads, those that are none. */
#include "probe.h"
#include <sys/times.h>
#include <sys/timex.h>
#include <time.h>

#define BAD ((void *)8)
/* The processor's time of a process, or with 4 of a thread. */
#define CPU_CLOCK(id, which) (-8 * ((id) + 1) + (which))
#define CLOCK(what, call)                              \
    do {                                               \
        char question_[64];                            \
        sprintf(question_, "%s of clock %d", what, clock); \
        ASK(question_, call);                          \
    } while (0)

static void one(int clock) {
    struct timespec time, none = {0, 0}, past = {0, 1}, odd = {0, -1};
    char adjustment[300] = {0};
    CLOCK("time", syscall(SYS_clock_gettime, clock, &time));
    CLOCK("resolution", syscall(SYS_clock_getres, clock, &time));
    CLOCK("sleep", syscall(SYS_clock_nanosleep, clock, 0, &none, 0));
    if (clock >= 0) {
        CLOCK("sleep until", syscall(SYS_clock_nanosleep, clock, TIMER_ABSTIME, &past, 0));
        CLOCK("setting", syscall(SYS_clock_settime, clock, &odd));
    }
    CLOCK("setting from nowhere", syscall(SYS_clock_settime, clock, BAD));
    CLOCK("adjustment", syscall(SYS_clock_adjtime, clock, adjustment));
}

static void all(void) {
    for (int clock = -9; clock < 18; clock++)
        one(clock);
}

static void arguments(void) {
    struct timespec time, none = {0}, odd = {0, 1000000000};
    struct timeval day = {-1, 0};
    TRY(syscall(SYS_clock_gettime, CPU_CLOCK(getpid(), 2), &time));
    TRY(syscall(SYS_clock_gettime, CPU_CLOCK(getpid(), 6), &time));
    TRY(syscall(SYS_clock_gettime, CPU_CLOCK(999999, 2), &time));
    TRY(syscall(SYS_clock_gettime, CPU_CLOCK(1, 6), &time));
    TRY(syscall(SYS_clock_nanosleep, CPU_CLOCK(getpid(), 6), 0, &none, 0));
    TRY(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, BAD, 0));
    TRY(syscall(SYS_clock_nanosleep, 77, 0, BAD, 0));
    TRY(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &odd, 0));
    TRY(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 98, &none, 0));
    TRY(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, BAD));
    TRY(syscall(SYS_clock_getres, CLOCK_MONOTONIC, BAD));
    TRY(syscall(SYS_clock_getres, CLOCK_MONOTONIC, 0));
    TRY(syscall(SYS_clock_getres, 77, BAD));
    TRY(syscall(SYS_nanosleep, BAD, 0));
    TRY(syscall(SYS_nanosleep, &odd, 0));
    TRY(syscall(SYS_gettimeofday, BAD, 0));
    TRY(syscall(SYS_gettimeofday, 0, BAD));
    TRY(syscall(SYS_gettimeofday, 0, 0));
    TRY(syscall(SYS_settimeofday, 0, 0));
    TRY(syscall(SYS_settimeofday, BAD, 0));
    TRY(syscall(SYS_settimeofday, &day, 0));
    day = (struct timeval){0, 1000000};
    TRY(syscall(SYS_settimeofday, &day, 0));
    TRY(syscall(SYS_times, BAD));
}

static void adjustments(void) {
    struct timex state = {0};
    TRY(syscall(SYS_adjtimex, BAD));
    TRY(syscall(SYS_clock_adjtime, 77, BAD));
    TRY(syscall(SYS_clock_adjtime, 77, &state));
    TRY(syscall(SYS_adjtimex, &state));
    SAY("state", "%ld %ld %ld %d %ld %ld %d", state.offset, state.freq, state.tolerance, state.status, state.precision,
        state.tick, state.tai);
    state.modes = 0x8000;
    TRY(syscall(SYS_adjtimex, &state));
}

static void differences(void) {
    struct timespec real, atomic;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_TAI, &atomic);
    SAY("atomic and real time", "%d", atomic.tv_sec - real.tv_sec < 2);
}

int main(void) {
    all(), arguments(), adjustments(), differences();
    return 0;
}
