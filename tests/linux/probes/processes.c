/* What a process asks about itself as about any other, and processes that do not exist. */
#include "probe.h"
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define BAD ((void *)8)
#define NOBODY 999999
#define PIDFD_OPEN 434
#define PIDFD_SEND_SIGNAL 424
#define PIDFD_GETFD 438
#define CALL(name, ...) ASK(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))

static void memory(void) {
    int me = getpid();
    char text[] = "abcdefgh", to[9] = "........";
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    memcpy(pages + 4092, "last", 4);
    struct iovec here[] = {{to, 3}, {to + 5, 3}}, there[] = {{text, 2}, {text + 4, 4}}, bad = {BAD, 4};
    struct iovec across = {pages + 4092, 8}, negative = {to, -1}, nothing = {to, 0};
    CALL(process_vm_readv, me, here, 2, there, 2, 0);
    SAY("read", "%s", to);
    CALL(process_vm_writev, me, here, 1, there, 2, 0);
    SAY("written", "%s", text);
    CALL(process_vm_readv, me, here, 1, &bad, 1, 0);
    CALL(process_vm_readv, me, &bad, 1, there, 1, 0);
    CALL(process_vm_readv, me, here, 2, &across, 1, 0);
    CALL(process_vm_writev, me, here, 2, &across, 1, 0);
    CALL(process_vm_readv, me, here, 1, there, 1, 1);
    CALL(process_vm_readv, me, &nothing, 1, there, 1, 0);
    CALL(process_vm_readv, NOBODY, &nothing, 1, there, 1, 0);
    CALL(process_vm_readv, NOBODY, here, 0, there, 1, 0);
    CALL(process_vm_readv, me, here, 1, there, 0, 0);
    CALL(process_vm_readv, NOBODY, here, 1, there, 1, 0);
    CALL(process_vm_readv, 0, here, 1, there, 1, 0);
    CALL(process_vm_readv, -1, here, 1, there, 1, 0);
    CALL(process_vm_readv, 1, here, 1, there, 1, 0);
    CALL(process_vm_readv, me, &negative, 1, there, 1, 0);
    CALL(process_vm_readv, me, here, 1, &negative, 1, 0);
    CALL(process_vm_readv, me, here, 1025, there, 1, 0);
    CALL(process_vm_readv, me, here, 1, there, 1025, 0);
    CALL(process_vm_readv, me, BAD, 1, there, 1, 0);
    CALL(process_vm_readv, me, here, 1, BAD, 1, 0);
    mprotect(pages, 4096, PROT_READ);
    struct iovec only_read = {pages, 3};
    CALL(process_vm_writev, me, here, 1, &only_read, 1, 0);
    CALL(process_vm_readv, me, here, 1, &only_read, 1, 0);
}

static void comparing(void) {
    int me = getpid(), one = open("/dev/null", O_RDONLY), same = dup(one), other = open("/dev/null", O_RDONLY);
    CALL(kcmp, me, me, 0, one, one);
    CALL(kcmp, me, me, 0, one, same);
    SAY("other files", "%d", syscall(SYS_kcmp, me, me, 0, one, other) > 0);
    SAY("in order", "%ld", syscall(SYS_kcmp, me, me, 0, one, other) + syscall(SYS_kcmp, me, me, 0, other, one));
    for (int type = 1; type < 7; type++)
        CALL(kcmp, me, me, type, 0, 0);
    CALL(kcmp, me, me, 8, 0, 0);
    CALL(kcmp, me, me, -1, 0, 0);
    CALL(kcmp, me, me, 0, one, 500);
    CALL(kcmp, me, NOBODY, 0, one, one);
    CALL(kcmp, NOBODY, me, 77, one, one);
    CALL(kcmp, 1, me, 0, one, one);
}

static void tracing(void) {
    CALL(ptrace, PTRACE_PEEKDATA, getpid(), 0, 0);
    CALL(ptrace, PTRACE_ATTACH, getpid(), 0, 0);
    CALL(ptrace, PTRACE_ATTACH, NOBODY, 0, 0);
    CALL(ptrace, PTRACE_ATTACH, 1, 0, 0);
    CALL(ptrace, PTRACE_CONT, 1, 0, 0);
    CALL(ptrace, PTRACE_SEIZE, getpid(), 0, 0);
    CALL(ptrace, 12345, getpid(), 0, 0);
    CALL(ptrace, PTRACE_TRACEME, 0, 0, 0);
    CALL(ptrace, PTRACE_TRACEME, 0, 0, 0);
}

static void waiting(void) {
    siginfo_t info;
    CALL(wait4, -1, NULL, WNOHANG, NULL);
    CALL(wait4, getpid(), NULL, 0, NULL);
    CALL(wait4, NOBODY, NULL, 0, NULL);
    CALL(wait4, 0, NULL, 0, NULL);
    CALL(wait4, -1, NULL, 0x8000, NULL);
    CALL(wait4, -1, BAD, 0, BAD);
    CALL(wait4, (int)0x80000000, NULL, 0, NULL);
    CALL(waitid, P_ALL, 0, &info, WEXITED, NULL);
    CALL(waitid, P_ALL, 0, &info, 0, NULL);
    CALL(waitid, P_ALL, 0, &info, WNOHANG, NULL);
    CALL(waitid, P_ALL, 0, &info, WEXITED | 0x8000, NULL);
    CALL(waitid, P_PID, 0, &info, WEXITED, NULL);
    CALL(waitid, P_PID, NOBODY, &info, WEXITED, NULL);
    CALL(waitid, P_PGID, -1, &info, WEXITED, NULL);
    CALL(waitid, P_PGID, 0, &info, WEXITED, NULL);
    CALL(waitid, 3, -1, &info, WEXITED, NULL);
    CALL(waitid, 3, 500, &info, WEXITED, NULL);
    CALL(waitid, 3, 0, &info, WEXITED, NULL);
    CALL(waitid, 4, 0, &info, WEXITED, NULL);
}

static void descriptors_of_processes(void) {
    int me = syscall(PIDFD_OPEN, getpid(), 0), other;
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    sigset_t mask;
    sigfillset(&mask);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    ASK("open", opened(syscall(PIDFD_OPEN, getpid(), 0)));
    ASK("open without waiting", opened(syscall(PIDFD_OPEN, getpid(), O_NONBLOCK)));
    ASK("open with another flag", syscall(PIDFD_OPEN, getpid(), 1));
    ASK("open nobody", syscall(PIDFD_OPEN, NOBODY, 0));
    ASK("open 0", syscall(PIDFD_OPEN, 0, 0));
    ASK("open -1", syscall(PIDFD_OPEN, -1, 0));
    ASK("open 1", opened(syscall(PIDFD_OPEN, 1, 0)));
    TRY(fcntl(me, F_GETFD));
    TRY(read(me, &info, 1));
    TRY(write(me, &info, 1));
    TRY(lseek(me, 0, SEEK_CUR));
    ASK("nothing", syscall(PIDFD_SEND_SIGNAL, me, 0, NULL, 0));
    ASK("a flag", syscall(PIDFD_SEND_SIGNAL, me, 0, NULL, 1 << 20));
    ASK("not a process", syscall(PIDFD_SEND_SIGNAL, 0, 0, NULL, 0));
    ASK("no descriptor", syscall(PIDFD_SEND_SIGNAL, 500, 0, NULL, 0));
    ASK("no signal", syscall(PIDFD_SEND_SIGNAL, me, 65, NULL, 0));
    ASK("no memory", syscall(PIDFD_SEND_SIGNAL, me, SIGUSR1, BAD, 0));
    ASK("another signal", syscall(PIDFD_SEND_SIGNAL, me, SIGUSR2, &info, 0));
    ASK("a signal", syscall(PIDFD_SEND_SIGNAL, me, SIGUSR1, NULL, 0));
    struct timespec none = {0, 0};
    ASK("it is there", sigtimedwait(&mask, &info, &none));
    SAY("sent", "%d %d", info.si_code, info.si_pid == getpid());
    info.si_signo = SIGUSR1, info.si_code = SI_QUEUE, info.si_value.sival_int = 77;
    ASK("with a value", syscall(PIDFD_SEND_SIGNAL, me, SIGUSR1, &info, 0));
    ASK("it is there", sigtimedwait(&mask, &info, &none));
    SAY("queued", "%d %d", info.si_code, info.si_value.sival_int);
    other = syscall(PIDFD_GETFD, me, 0, 0);
    SAY("another descriptor", "%d %d", other > 2, fcntl(other, F_GETFD));
    ASK("none there", syscall(PIDFD_GETFD, me, 500, 0));
    ASK("a flag", syscall(PIDFD_GETFD, me, 0, 1));
    ASK("not a process", syscall(PIDFD_GETFD, 0, 0, 0));
    ASK("no descriptor", syscall(PIDFD_GETFD, 500, 0, 0));
}

static void numbers(void) {
    TRY(getpgid(NOBODY));
    TRY(getsid(NOBODY));
    TRY(setpgid(NOBODY, 0));
    TRY(setpgid(0, -1));
    TRY(setpgid(-1, 0));
    CALL(restart_syscall, 0);
    TRY(personality(0xffffffff));
    TRY(personality(0x0040000));
    TRY(personality(0xffffffff));
    TRY(personality(0));
}

static void reading_ahead(void) {
    int file = open("file", O_RDWR | O_CREAT, 0644), written = open("file", O_WRONLY), ends[2];
    if (pipe(ends))
        return;
    TRY(readahead(file, 0, 4096));
    TRY(readahead(written, 0, 4096));
    TRY(readahead(500, 0, 4096));
    TRY(readahead(ends[0], 0, 4096));
    TRY(readahead(open(".", O_RDONLY), 0, 4096));
    TRY(sync_file_range(file, 0, 0, 0));
    TRY(sync_file_range(file, 0, 10, 7));
    TRY(sync_file_range(file, 0, 10, 8));
    TRY(sync_file_range(500, 0, 10, 8));
    TRY(sync_file_range(file, -1, 10, 0));
    TRY(sync_file_range(file, 10, -1, 0));
    TRY(sync_file_range(file, 1, 0x7fffffffffffffff, 0));
    TRY(sync_file_range(ends[0], 0, 10, 0));
    TRY(sync_file_range(written, 0, 10, 0));
}

int main(void) {
    unlink("file");
    reading_ahead();
    /* root has capabilities, a guest has none */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    numbers();
    memory();
    comparing();
    waiting();
    descriptors_of_processes();
    tracing();
    return 0;
}
