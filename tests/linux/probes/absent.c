/* Calls that Linux has and KVRM has not, or not for this user: each is pinned, with the reason. None that the host
   does changes anything there: arguments are wrong where a right call would. */
#include "probe.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#define CALL(name, ...) ASK(#name " " #__VA_ARGS__, opened(syscall(SYS_##name, __VA_ARGS__)))

int main(void) {
    char zeros[256] = {0};
    CALL(rseq, zeros, 1, 0, 0);
    CALL(fanotify_init, 0, O_RDONLY);
    CALL(io_uring_setup, 1, zeros);
    CALL(userfaultfd, O_CLOEXEC);
    CALL(memfd_secret, 0);
    CALL(reboot, 1, 2, 3, NULL);
    CALL(sethostname, "", -1);
    TRY(opened(open("/dev/ptmx", O_RDWR | O_NOCTTY)));
    return 0;
}
