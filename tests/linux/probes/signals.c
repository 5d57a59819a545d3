/* Signals without handlers: what waits, in which order it is taken, what is told with it, and bad arguments. */
#include "probe.h"
#include <signal.h>
#include <time.h>

#define BAD ((void *)8)

static sigset_t all;

static long to_thread(int signal) { return syscall(SYS_tgkill, getpid(), getpid(), signal); }

static siginfo_t told(int code, long value) {
    siginfo_t info = {0};
    info.si_code = code;
    info.si_pid = 77;
    info.si_uid = 88;
    info.si_value.sival_ptr = (void *)value;
    return info;
}

static long queue(int pid, int signal, int code, long value) {
    siginfo_t info = told(code, value);
    return syscall(SYS_rt_sigqueueinfo, pid, signal, &info);
}

static long queue_thread(int pid, int tid, int signal, int code) {
    siginfo_t info = told(code, 5);
    return syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info);
}

static long take(void *set, void *info, void *timeout, long size) {
    return syscall(SYS_rt_sigtimedwait, set, info, timeout, size);
}

/* All that waits, in the order in which it is taken. */
static void drain(const char *question) {
    siginfo_t info;
    struct timespec none = {0};
    while (memset(&info, 0x55, sizeof info), take(&all, &info, &none, 8) > 0)
        SAY(question, "%d code %d errno %d pid %s uid %s value %lx", info.si_signo, info.si_code, info.si_errno,
            info.si_pid == getpid() ? "own" : info.si_pid == 77 ? "77" : "other",
            info.si_uid == getuid() ? "own" : "other", (long)info.si_value.sival_ptr);
}

static int waits(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}

static void order(void) {
    int me = getpid();
    kill(me, SIGUSR1), to_thread(SIGUSR2), kill(me, SIGSEGV), to_thread(SIGTERM), to_thread(SIGFPE);
    kill(me, 40), to_thread(41), to_thread(40);
    drain("the thread's, those of instructions, the lowest");
    kill(me, SIGUSR1), to_thread(SIGUSR1), kill(me, SIGUSR1), to_thread(SIGUSR1);
    drain("one of each for process and thread");
    for (int k = 0; k < 3; k++) queue(me, SIGRTMIN, SI_QUEUE, k), queue(me, SIGUSR1, SI_QUEUE, k);
    drain("real-time signals queue");
}

static void told_with_it(void) {
    int me = getpid();
    char dirty[128];
    TRY(queue(getpid(), SIGUSR1, SI_USER, 1));
    TRY(queue(getpid(), SIGUSR1, SI_TKILL, 1));
    TRY(queue_thread(getpid(), getpid(), SIGRTMIN, SI_QUEUE));
    TRY(queue(getpid(), 0, SI_QUEUE, 1));
    drain("taken");
    memset(dirty, 0x11, sizeof dirty), *(int *)(dirty + 8) = SI_QUEUE;
    ASK("known code, all bytes set", syscall(SYS_rt_sigqueueinfo, me, SIGUSR1, dirty));
    *(int *)(dirty + 8) = -50;
    ASK("unknown code, all bytes set", syscall(SYS_rt_sigqueueinfo, me, SIGUSR2, dirty));
    memset(dirty + 48, 0, 80);
    ASK("unknown code", syscall(SYS_rt_sigqueueinfo, me, SIGUSR2, dirty));
    drain("taken dirty");
}

static void ignoring(void) {
    int me = getpid();
    signal(SIGUSR1, SIG_IGN), kill(me, SIGUSR1);
    ASK("ignored, but blocked", waits(SIGUSR1));
    to_thread(SIGUSR1), signal(SIGUSR1, SIG_IGN);
    ASK("SIG_IGN drops it", waits(SIGUSR1));
    signal(SIGUSR1, SIG_DFL), kill(me, SIGCHLD);
    TRY(waits(SIGCHLD));
    signal(SIGCHLD, SIG_DFL);
    ASK("a harmless default drops it", waits(SIGCHLD));
    kill(me, SIGTSTP), kill(me, SIGTTIN), to_thread(SIGTTOU);
    TRY(waits(SIGTSTP) + 2 * waits(SIGTTIN) + 4 * waits(SIGTTOU));
    kill(me, SIGCONT);
    ASK("SIGCONT drops stops", waits(SIGTSTP) + 2 * waits(SIGTTIN) + 4 * waits(SIGTTOU) + 8 * waits(SIGCONT));
    kill(me, SIGTSTP);
    ASK("a stop drops SIGCONT", waits(SIGTSTP) + 2 * waits(SIGCONT));
    drain("left");
}

static void bad_numbers(void) {
    TRY(queue(999999, SIGUSR1, SI_QUEUE, 1));
    TRY(queue(999999, SIGUSR1, SI_USER, 1));
    TRY(queue(getpid(), 65, SI_QUEUE, 1));
    TRY(queue(-1, SIGUSR1, SI_QUEUE, 1));
    TRY(queue(0, SIGUSR1, SI_QUEUE, 1));
    TRY(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, BAD));
    TRY(syscall(SYS_rt_sigqueueinfo, getpid(), 99, BAD));
    TRY(queue_thread(-1, getpid(), SIGUSR1, SI_QUEUE));
    TRY(queue_thread(getpid(), -1, SIGUSR1, SI_QUEUE));
    TRY(queue_thread(getpid(), 999999, SIGUSR1, SI_QUEUE));
    TRY(queue_thread(1, getpid(), SIGUSR1, SI_QUEUE));
    TRY(queue_thread(getpid(), getpid(), 0, SI_QUEUE));
    TRY(queue_thread(getpid(), getpid(), 99, SI_QUEUE));
    TRY(syscall(SYS_tkill, 0, 0));
    TRY(syscall(SYS_tkill, 999999, 0));
    TRY(syscall(SYS_tkill, getpid(), 65));
    TRY(syscall(SYS_tgkill, getpid(), getpid(), -1));
    TRY(syscall(SYS_tgkill, 1, getpid(), 0));
    TRY(syscall(SYS_tgkill, 0, getpid(), 0));
    TRY(kill(getpid(), 65));
    TRY(kill(999999, 65));
    TRY(kill(-999999, 0));
    TRY(kill((int)0x80000000, 0));
    TRY(syscall(SYS_restart_syscall));
}

static void waiting(void) {
    struct timespec odd = {0, -1}, none = {0};
    siginfo_t info;
    TRY(take(&all, &info, &odd, 8));
    odd.tv_sec = -1, odd.tv_nsec = 0;
    TRY(take(&all, &info, &odd, 8));
    TRY(take(&all, &info, &none, 4));
    TRY(take(BAD, &info, 0, 8));
    TRY(take(&all, &info, BAD, 8));
    TRY(take(&all, &info, &none, 8));
    kill(getpid(), SIGUSR1);
    TRY(take(&all, BAD, &none, 8));
    ASK("it is lost", waits(SIGUSR1));
    kill(getpid(), SIGUSR1);
    TRY(take(&all, 0, &none, 8));
    TRY(syscall(SYS_rt_sigsuspend, &all, 4));
    TRY(syscall(SYS_rt_sigsuspend, BAD, 8));
}

static void actions(void) {
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } new = {0, ~0ul, 0, ~0ul}, old = {0};
    TRY(syscall(SYS_rt_sigaction, SIGUSR1, &new, 0, 8));
    TRY(syscall(SYS_rt_sigaction, SIGUSR1, 0, &old, 8));
    SAY("flags", "%lx", old.flags & ~0x04000000ul); /* SA_RESTORER */
    SAY("mask", "%lx", old.mask);
    TRY(syscall(SYS_rt_sigaction, 99, BAD, 0, 8));
    TRY(syscall(SYS_rt_sigaction, 10, BAD, 0, 8));
    TRY(syscall(SYS_rt_sigaction, 10, 0, BAD, 8));
    TRY(syscall(SYS_rt_sigaction, SIGUSR2, &new, BAD, 8));
    old.mask = 0;
    TRY(syscall(SYS_rt_sigaction, SIGUSR2, 0, &old, 8));
    SAY("mask", "%lx", old.mask);
    TRY(syscall(SYS_rt_sigaction, 10, 0, 0, 4));
    TRY(syscall(SYS_rt_sigaction, SIGKILL, &new, 0, 8));
    TRY(syscall(SYS_rt_sigaction, SIGKILL, 0, &old, 8));
    TRY(syscall(SYS_rt_sigprocmask, 0, BAD, 0, 8));
    TRY(syscall(SYS_rt_sigprocmask, 9, BAD, 0, 8));
    TRY(syscall(SYS_rt_sigprocmask, 0, 0, BAD, 8));
    TRY(syscall(SYS_rt_sigprocmask, 9, &all, 0, 8));
    TRY(syscall(SYS_rt_sigprocmask, 0, 0, 0, 4));
    TRY(syscall(SYS_rt_sigpending, &old, 9));
    TRY(syscall(SYS_rt_sigpending, BAD, 8));
    old.flags = -1;
    TRY(syscall(SYS_rt_sigpending, &old.flags, 4));
    SAY("half of the mask", "%lx", old.flags);
}

static long stack_set(void *pointer, int flags, size_t size) {
    stack_t stack = {pointer, flags, size};
    return syscall(SYS_sigaltstack, &stack, 0);
}

static char memory[1 << 16];

static void shown(void) {
    stack_t stack;
    syscall(SYS_sigaltstack, 0, &stack);
    SAY("stack", "%d flags %x size %zx", stack.ss_sp == memory, stack.ss_flags, stack.ss_size);
}

static void alternate_stack(void) {
    char here;
    shown();
    TRY(stack_set(memory, SS_DISABLE, 99)), shown();
    TRY(stack_set(memory, 0, sizeof memory)), shown();
    TRY(stack_set(memory, 1 << 31, sizeof memory)), shown();
    TRY(stack_set(memory, SS_ONSTACK, sizeof memory)), shown();
    TRY(stack_set(memory, 4, sizeof memory));
    TRY(stack_set(memory, 0, 100)), shown();
    TRY(stack_set(&here - (1 << 15), 0, 1 << 16));
    ASK("on it", stack_set(memory, 0, sizeof memory));
    TRY(syscall(SYS_sigaltstack, BAD, 0));
    TRY(syscall(SYS_sigaltstack, 0, BAD));
}

int main(void) {
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    order(), told_with_it(), ignoring(), bad_numbers(), waiting(), actions(), alternate_stack();
    return 0;
}
