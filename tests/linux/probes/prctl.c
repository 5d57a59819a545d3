/* prctl: what is set is given back, and values, arguments and options that do not exist. */
#include "probe.h"
#include <signal.h>
#include <sys/prctl.h>

#define BAD ((void *)8)
#define CALL(...) ASK(#__VA_ARGS__, control(__VA_ARGS__, 0, 0, 0, 0))
#define control(option, a, b, c, d, ...) syscall(SYS_prctl, option, a, b, c, d)

static void ordinary(void) {
    char name[17] = {0};
    int number = -1;
    int *place = NULL;
    CALL(PR_SET_NAME, "a name that is much too long");
    CALL(PR_GET_NAME, name);
    SAY("name", "%s", name);
    CALL(PR_SET_NAME, BAD);
    CALL(PR_GET_NAME, BAD);
    CALL(PR_SET_NAME, "");
    CALL(PR_GET_NAME, name);
    SAY("name", "%s", name);
    CALL(PR_GET_PDEATHSIG, &number);
    SAY("signal", "%d", number);
    CALL(PR_SET_PDEATHSIG, SIGTERM);
    CALL(PR_SET_PDEATHSIG, 65);
    CALL(PR_SET_PDEATHSIG, -1);
    CALL(PR_GET_PDEATHSIG, &number);
    SAY("signal", "%d", number);
    CALL(PR_SET_PDEATHSIG, 64);
    CALL(PR_SET_PDEATHSIG, 0);
    CALL(PR_GET_PDEATHSIG, BAD);
    CALL(PR_SET_DUMPABLE, 1);
    CALL(PR_GET_DUMPABLE);
    CALL(PR_SET_DUMPABLE, 2);
    CALL(PR_SET_DUMPABLE, 7);
    CALL(PR_SET_DUMPABLE, 0);
    CALL(PR_GET_DUMPABLE);
    CALL(PR_GET_KEEPCAPS);
    CALL(PR_SET_KEEPCAPS, 2);
    CALL(PR_SET_KEEPCAPS, 1);
    CALL(PR_GET_KEEPCAPS);
    CALL(PR_GET_SECUREBITS);
    CALL(PR_SET_SECUREBITS, 0);
    CALL(PR_SET_SECUREBITS, 1 << 20);
    CALL(PR_SET_KEEPCAPS, 0);
    CALL(PR_GET_SECUREBITS);
    CALL(PR_GET_TIMING);
    CALL(PR_SET_TIMING, 0);
    CALL(PR_SET_TIMING, 1);
    CALL(PR_GET_TIMERSLACK);
    CALL(PR_SET_TIMERSLACK, 12345);
    CALL(PR_GET_TIMERSLACK);
    CALL(PR_SET_TIMERSLACK, 0);
    CALL(PR_GET_TIMERSLACK);
    CALL(PR_SET_TIMERSLACK, 1L << 40);
    CALL(PR_GET_TIMERSLACK);
    CALL(PR_TASK_PERF_EVENTS_DISABLE);
    CALL(PR_TASK_PERF_EVENTS_ENABLE);
    CALL(PR_GET_CHILD_SUBREAPER, &number);
    SAY("reaper", "%d", number);
    CALL(PR_SET_CHILD_SUBREAPER, 7);
    CALL(PR_GET_CHILD_SUBREAPER, &number);
    SAY("reaper", "%d", number);
    CALL(PR_GET_CHILD_SUBREAPER, BAD);
    CALL(PR_GET_TID_ADDRESS, &place);
    syscall(SYS_set_tid_address, &number);
    CALL(PR_GET_TID_ADDRESS, &place);
    SAY("what is cleared", "%d", place == &number);
    CALL(PR_GET_TID_ADDRESS, BAD);
}

static void with_all_arguments(void) {
    CALL(PR_GET_NO_NEW_PRIVS);
    CALL(PR_GET_NO_NEW_PRIVS, 1);
    CALL(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 1);
    CALL(PR_SET_NO_NEW_PRIVS, 0);
    CALL(PR_SET_NO_NEW_PRIVS, 2);
    CALL(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 1);
    CALL(PR_SET_NO_NEW_PRIVS, 1);
    CALL(PR_SET_NO_NEW_PRIVS, 0);
    CALL(PR_GET_NO_NEW_PRIVS);
    CALL(PR_GET_THP_DISABLE);
    CALL(PR_GET_THP_DISABLE, 1);
    CALL(PR_SET_THP_DISABLE, 1, 0, 1);
    CALL(PR_SET_THP_DISABLE, 5);
    CALL(PR_GET_THP_DISABLE);
    CALL(PR_SET_THP_DISABLE, 0);
    CALL(PR_GET_THP_DISABLE);
    CALL(PR_MCE_KILL_GET);
    CALL(PR_MCE_KILL_GET, 1);
    CALL(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY);
    CALL(PR_MCE_KILL_GET);
    CALL(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE);
    CALL(PR_MCE_KILL_GET);
    CALL(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_DEFAULT);
    CALL(PR_MCE_KILL_GET);
    CALL(PR_MCE_KILL, PR_MCE_KILL_SET, 3);
    CALL(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 1);
    CALL(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY);
    CALL(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 1);
    CALL(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0);
    CALL(PR_MCE_KILL_GET);
    CALL(PR_MCE_KILL, 2, 0);
    CALL(PR_SET_IO_FLUSHER, 1);
    CALL(PR_GET_IO_FLUSHER);
}

static void capabilities(void) {
    CALL(PR_CAPBSET_READ, 0);
    CALL(PR_CAPBSET_READ, 40);
    CALL(PR_CAPBSET_READ, 41);
    CALL(PR_CAPBSET_READ, -1);
    CALL(PR_CAPBSET_DROP, 0);
    CALL(PR_CAPBSET_DROP, 999);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 41);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0, 1);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, 0);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0);
    CALL(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 1);
    CALL(PR_CAP_AMBIENT, 9, 0);
}

static void none(void) {
    CALL(PR_SET_UNALIGN, 1);
    CALL(PR_GET_FPEMU, 0);
    CALL(PR_SET_FPEXC, 0);
    CALL(PR_GET_ENDIAN, 0);
    CALL(PR_MPX_ENABLE_MANAGEMENT);
    CALL(PR_GET_FP_MODE);
    CALL(PR_SVE_GET_VL);
    CALL(PR_SVE_SET_VL, 16);
    CALL(PR_PAC_GET_ENABLED_KEYS);
    CALL(PR_SET_VMA, 7, 0);
    CALL(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 1);
    CALL(PR_GET_SPECULATION_CTRL, 77);
    CALL(PR_SET_SPECULATION_CTRL, 77);
    CALL(PR_SET_MM, 0, 0, 0, 1);
    CALL(PR_SET_MM, PR_SET_MM_START_CODE, 0);
    CALL(-1);
    CALL(0);
    CALL(17);
    CALL(1234);
}

int main(void) {
    /* root has capabilities, a guest has none */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    ordinary();
    with_all_arguments();
    capabilities();
    none();
    return 0;
}
