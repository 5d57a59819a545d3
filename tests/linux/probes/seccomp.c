/* seccomp: what it takes and what it refuses, and what filters then do to system calls. */
#include "probe.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define BAD ((void *)8)
#define CALL(name, ...) ASK(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))
#define FILTER(...) filter((struct sock_filter[]){__VA_ARGS__}, sizeof((struct sock_filter[]){__VA_ARGS__}) / 8)
#define TRY_FILTER(...) ASK(#__VA_ARGS__, FILTER(__VA_ARGS__))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define FAIL(errno) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errno)

static long filter(struct sock_filter *steps, int count) {
    struct sock_fprog program = {count, steps};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void asking(void) {
    unsigned action = SECCOMP_RET_ALLOW;
    unsigned short sizes[3] = {0};
    struct sock_fprog none = {0, NULL}, bad = {1, BAD};
    CALL(prctl, PR_GET_SECCOMP, 0, 0, 0, 0);
    CALL(prctl, PR_SET_SECCOMP, 0, 0, 0, 0);
    CALL(prctl, PR_SET_SECCOMP, 3, 0, 0, 0);
    CALL(prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, BAD, 0, 0);
    CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
    CALL(seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, NULL);
    CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, &none);
    CALL(seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
    CALL(seccomp, SECCOMP_SET_MODE_STRICT, 0, &none);
    CALL(seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
    action = 0x1234;
    CALL(seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
    CALL(seccomp, SECCOMP_GET_ACTION_AVAIL, 1, &action);
    CALL(seccomp, SECCOMP_GET_ACTION_AVAIL, 0, BAD);
    CALL(seccomp, SECCOMP_GET_NOTIF_SIZES, 0, sizes);
    SAY("sizes", "%d %d %d", sizes[0], sizes[1], sizes[2]);
    CALL(seccomp, 9, 0, NULL);
    TRY_FILTER(ALLOW);
    CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, &bad);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, &bad);
}

static void programs(void) {
    TRY_FILTER(NUMBER);
    TRY_FILTER(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_LD | BPF_MEM, 16), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_ST, 16), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_JMP | BPF_JA, 1), ALLOW);
    TRY_FILTER(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), ALLOW);
    TRY_FILTER(BPF_STMT(0xffff, 0), ALLOW);
    TRY_FILTER(BPF_STMT(BPF_LD | BPF_LEN | BPF_W, 0), BPF_STMT(BPF_MISC | BPF_TAX, 0), BPF_STMT(BPF_STX, 3), ALLOW);
    CALL(prctl, PR_GET_SECCOMP, 0, 0, 0, 0);
}

static void filtering(void) {
    /* umask fails with 77, getppid with what its argument says, more than EMLINK is too much */
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_umask, 0, 1), FAIL(77), ALLOW);
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 4), ARGUMENT(2),
               BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff), BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
               BPF_STMT(BPF_RET | BPF_A, 0), ALLOW);
    ASK("umask", syscall(SYS_umask, 0));
    ASK("getppid", syscall(SYS_getppid, 0, 0, 5));
    ASK("getppid", syscall(SYS_getppid, 0, 0, 0));
    ASK("getppid", -syscall(SYS_getppid, 0, 0, 0xffff) > 0);
    SAY("the most", "%d", errno);
    /* the strongest action counts, and the newest of equal ones */
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_umask, 0, 1), FAIL(78), ALLOW);
    ASK("umask", syscall(SYS_umask, 0));
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_umask, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE), ALLOW);
    ASK("umask", syscall(SYS_umask, 0));
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE), ALLOW);
    ASK("getsid", syscall(SYS_getsid, 0));
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_LOG), ALLOW);
    /* X is the length of the data: 64 */
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 8), BPF_STMT(BPF_LD | BPF_IMM, 100),
               BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0), BPF_STMT(BPF_ST, 5),
               BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ERRNO), BPF_STMT(BPF_LDX | BPF_MEM, 5),
               BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), BPF_STMT(BPF_RET | BPF_A, 0), ALLOW);
    ASK("getpgid", syscall(SYS_getpgid, 0));
    /* a number that no call has is asked about all the same */
    TRY_FILTER(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 5000, 0, 1), FAIL(12), ALLOW);
    ASK("no call", syscall(5000));
    ASK("strict", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    CALL(prctl, PR_GET_SECCOMP, 0, 0, 0, 0);
}

int main(void) {
    /* root may set filters without giving up new privileges */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    asking();
    programs();
    filtering();
    return 0;
}
