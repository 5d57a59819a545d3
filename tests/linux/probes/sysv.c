/* System V semaphores, messages and shared memory of one process. */
#include "probe.h"
#include <signal.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>

#define BAD ((void *)8)
#pragma GCC diagnostic ignored "-Wnonnull" /* bad pointers are what is asked about */

union semun { int val; struct semid_ds *buf; unsigned short *array; struct seminfo *info; };

static int key; /* of this run alone */

static long control(int id, int nth, int command, long value) {
    return semctl(id, nth, command, (union semun){.array = (void *)value});
}

static long operate(int id, int nth, int change, int flags) {
    struct sembuf operation = {nth, change, flags};
    return semop(id, &operation, 1);
}

static void semaphores(void) {
    struct sembuf several[3] = {{0, 1, 0}, {1, -1, IPC_NOWAIT}, {0, 0, IPC_NOWAIT}};
    struct timespec soon = {0, 1000}, odd = {0, -1};
    unsigned short values[3] = {0};
    struct semid_ds status;
    int id = semget(IPC_PRIVATE, 3, 0600);
    TRY(semget(IPC_PRIVATE, 0, 0600));
    TRY(semget(IPC_PRIVATE, -1, 0600));
    TRY(semget(IPC_PRIVATE, 32001, 0600));
    TRY(semget(key, 1, 0600));
    WORKS(semget(key, 1, IPC_CREAT | 0600));
    TRY(semget(key, 1, IPC_CREAT | IPC_EXCL | 0600));
    TRY(semget(key, 2, 0600));
    WORKS(semget(key, 0, 0));
    TRY(semctl(semget(key, 1, 0), 0, IPC_RMID));
    TRY(control(id, 0, GETVAL, 0));
    TRY(operate(id, 0, 5, 0));
    TRY(operate(id, 0, -2, 0));
    TRY(control(id, 0, GETVAL, 0));
    TRY(control(id, 0, GETPID, 0) == getpid());
    TRY(control(id, 1, GETPID, 0));
    TRY(operate(id, 0, -4, IPC_NOWAIT));
    TRY(operate(id, 0, 0, IPC_NOWAIT));
    TRY(operate(id, 1, 0, 0));
    TRY(operate(id, 0, 32767, IPC_NOWAIT));
    TRY(operate(id, 3, 1, 0));
    TRY(operate(id, 65535, 1, 0));
    TRY(operate(id, 0, 1, SEM_UNDO));
    TRY(semop(id, several, 2));
    TRY(control(id, 0, GETVAL, 0));
    control(id, 1, SETVAL, 1);
    TRY(semop(id, several, 2));
    TRY(control(id, 0, GETVAL, 0));
    TRY(semop(id, several, 0));
    TRY(semop(id, several, 501));
    TRY(semop(id, BAD, 1));
    TRY(semop(-1, several, 1));
    TRY(semtimedop(id, &(struct sembuf){2, -1, 0}, 1, &soon));
    TRY(semtimedop(id, &(struct sembuf){2, -1, 0}, 1, &odd));
    TRY(semtimedop(id, &(struct sembuf){2, 1, 0}, 1, &odd));
    TRY(semtimedop(id, &(struct sembuf){2, -1, 0}, 1, BAD));
    TRY(control(id, 0, SETVAL, 40000));
    TRY(control(id, 0, SETVAL, -1));
    TRY(control(id, 3, SETVAL, 1));
    TRY(control(id, -1, GETVAL, 0));
    TRY(control(id, 0, GETNCNT, 0));
    TRY(control(id, 0, GETZCNT, 0));
    values[0] = 7, values[1] = 8, values[2] = 9;
    TRY(control(id, 0, SETALL, (long)values));
    memset(values, 0, sizeof values);
    TRY(control(id, 0, GETALL, (long)values));
    SAY("values", "%d %d %d", values[0], values[1], values[2]);
    values[1] = 40000;
    TRY(control(id, 0, SETALL, (long)values));
    TRY(control(id, 0, GETALL, 8));
    memset(&status, 0x55, sizeof status);
    TRY(control(id, 0, IPC_STAT, (long)&status));
    SAY("status", "%ld mode %o uid %d cuid %d key %d op %d", (long)status.sem_nsems, status.sem_perm.mode,
        status.sem_perm.uid == getuid(), status.sem_perm.cuid == getuid(), status.sem_perm.__key, status.sem_otime > 0);
    status.sem_perm.mode = 0640;
    TRY(control(id, 0, IPC_SET, (long)&status));
    control(id, 0, IPC_STAT, (long)&status);
    SAY("mode", "%o", status.sem_perm.mode);
    TRY(control(id, 0, IPC_STAT, 8));
    TRY(control(id, 0, 99, 0));
    TRY(control(-1, 0, GETVAL, 0));
    TRY(control(id, 0, IPC_RMID, 0));
    TRY(control(id, 0, GETVAL, 0));
    TRY(operate(id, 0, 1, 0));
}

struct message { long type; char text[64]; };

static long send(int id, long type, const char *text, size_t size, int flags) {
    struct message message = {type, ""};
    memcpy(message.text, text, size < 64 ? size : 64);
    return msgsnd(id, &message, size, flags);
}

static long receive(int id, size_t size, long type, int flags) {
    struct message message = {0};
    long result = msgrcv(id, &message, size, type, flags);
    int error = errno;
    SAY("message", "%ld %.6s", message.type, message.text);
    errno = error;
    return result;
}

static void messages(void) {
    struct msqid_ds status;
    int id = msgget(IPC_PRIVATE, 0600), full = 0;
    TRY(msgget(key, 0600));
    WORKS(msgget(key, IPC_CREAT | 0600));
    TRY(msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    TRY(msgctl(msgget(key, 0), IPC_RMID, 0));
    TRY(send(id, 0, "x", 1, 0));
    TRY(send(id, -1, "x", 1, 0));
    TRY(send(id, 1, "x", 8193, 0));
    TRY(send(id, 1, "x", -1, 0));
    TRY(msgsnd(id, BAD, 1, 0));
    TRY(receive(id, 10, 0, IPC_NOWAIT));
    send(id, 3, "three", 5, 0), send(id, 1, "one", 3, 0), send(id, 2, "two", 3, 0), send(id, 1, "again", 5, 0);
    TRY(receive(id, 10, 1, 0));
    TRY(receive(id, 10, -2, 0));
    TRY(receive(id, 10, -9, 0));
    TRY(receive(id, 2, 0, 0));
    TRY(receive(id, 2, 0, MSG_NOERROR));
    TRY(receive(id, 10, 0, IPC_NOWAIT));
    send(id, 1, "one", 3, 0), send(id, 2, "two", 3, 0), send(id, 3, "", 0, 0);
    TRY(receive(id, 10, 1, 020000));
    TRY(receive(id, 10, 9, IPC_NOWAIT));
    TRY(receive(id, 10, 1, 040000 | IPC_NOWAIT));
    TRY(receive(id, 10, 7, 040000 | IPC_NOWAIT));
    TRY(receive(id, 10, 1, 040000));
    TRY(receive(id, 10, 1, 040000 | 020000 | IPC_NOWAIT));
    TRY(receive(id, 10, 3, 0));
    TRY(receive(id, -1, 0, IPC_NOWAIT));
    memset(&status, 0x55, sizeof status);
    TRY(msgctl(id, IPC_STAT, &status));
    SAY("status", "%ld bytes %ld most %ld mode %o sender %d receiver %d", (long)status.msg_qnum, (long)status.__msg_cbytes,
        (long)status.msg_qbytes, status.msg_perm.mode, status.msg_lspid == getpid(), status.msg_lrpid == getpid());
    while (send(id, 1, "fill", 64, IPC_NOWAIT) == 0)
        full++;
    SAY("how many fit", "%d %s", full, strerrorname_np(errno));
    TRY(msgctl(id, IPC_STAT, BAD));
    TRY(msgctl(id, 99, &status));
    status.msg_perm.mode = 0666, status.msg_qbytes = 100;
    TRY(msgctl(id, IPC_SET, &status));
    TRY(msgctl(id, IPC_RMID, 0));
    TRY(msgctl(id, IPC_RMID, 0));
    TRY(send(id, 1, "x", 1, 0));
    TRY(receive(id, 1, 0, 0));
}

static void *attached(int id, void *at, int flags) {
    void *result = shmat(id, at, flags);
    ASK("attached", result == (void *)-1 ? -1 : 0);
    return result;
}

static void memory(void) {
    struct shmid_ds status;
    int id = shmget(IPC_PRIVATE, 5000, 0600);
    TRY(shmget(IPC_PRIVATE, 0, 0600));
    TRY(shmget(key, 100, 0600));
    WORKS(shmget(key, 100, IPC_CREAT | 0600));
    TRY(shmget(key, 100, IPC_CREAT | IPC_EXCL | 0600));
    TRY(shmget(key, 101, 0600));
    WORKS(shmget(key, 0, 0));
    TRY(shmctl(shmget(key, 0, 0), IPC_RMID, 0));
    char *at = attached(id, 0, 0);
    SAY("at first", "%d %d", at[0], at[8191]);
    strcpy(at, "kept"), at[8191] = 7;
    memset(&status, 0x55, sizeof status);
    TRY(shmctl(id, IPC_STAT, &status));
    SAY("status", "%zd mode %o attached %ld creator %d last %d times %d %d", status.shm_segsz, status.shm_perm.mode,
        (long)status.shm_nattch, status.shm_cpid == getpid(), status.shm_lpid == getpid(), status.shm_atime > 0,
        status.shm_dtime > 0);
    TRY(shmdt(at + 1));
    TRY(shmdt(at));
    TRY(shmdt(at));
    at = attached(id, 0, SHM_RDONLY);
    SAY("again", "%s %d", at, at[8191]);
    TRY(read(open("/dev/zero", O_RDONLY), at, 1));
    shmdt(at);
    attached(id, (void *)0x12345, 0);
    at = attached(id, (void *)0x7000001000, SHM_RND);
    SAY("place", "%d", at == (void *)0x7000001000);
    shmdt(at);
    attached(-1, 0, 0), attached(id, 0, SHM_REMAP);
    TRY(shmctl(id, SHM_LOCK, 0));
    shmctl(id, IPC_STAT, &status);
    SAY("locked", "%o", status.shm_perm.mode);
    TRY(shmctl(id, IPC_STAT, BAD));
    TRY(shmctl(id, 99, &status));
    TRY(shmctl(-1, IPC_STAT, &status));
    at = attached(id, 0, 0);
    TRY(shmctl(id, IPC_RMID, 0));
    SAY("removed, but attached", "%s", at);
    TRY(shmctl(id, IPC_STAT, &status));
    SAY("mode", "%o", status.shm_perm.mode);
    TRY(shmdt(at));
    TRY(shmctl(id, IPC_STAT, &status));
}

/* whatever unmaps a segment detaches it, and it keeps what it holds */
static void shown(int id, const char *after) {
    struct shmid_ds status;
    shmctl(id, IPC_STAT, &status);
    SAY(after, "attached %ld", (long)status.shm_nattch);
    char *at = shmat(id, 0, 0);
    SAY(after, "%s %s", at == (char *)-1 ? "none" : at, at == (char *)-1 ? "" : at + 4096);
    shmdt(at);
}

static char *filled(int id, void *where) {
    char *at = shmat(id, where, 0);
    strcpy(at, "first"), strcpy(at + 4096, "second");
    return at;
}

static void unmapped(void) {
    int id = shmget(IPC_PRIVATE, 8192, 0600), other = shmget(key, 8192, IPC_CREAT | 0600);
    char *at = filled(id, 0);
    ASK("mapped over", mmap(at, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    shown(id, "mapped over");
    TRY(shmdt(at));
    char *end = (char *)(((long)sbrk(0) + 4095) & -4096L);
    ASK("brk", syscall(SYS_brk, end + 8192) == (long)end + 8192);
    munmap(end, 8192);
    filled(id, end);
    ASK("brk", syscall(SYS_brk, end) == (long)end);
    shown(id, "the heap ends before it");
    at = filled(id, 0);
    ASK("smaller", mremap(at, 8192, 4096, 0) == at);
    SAY("smaller", "%s", at);
    TRY(shmdt(at));
    shown(id, "smaller");
    at = filled(id, 0);
    char *to = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(at, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    ASK("moved", moved == to);
    SAY("moved", "%s %s", to, to + 4096);
    TRY(shmdt(at));
    TRY(shmdt(to));
    shown(id, "moved");
    at = filled(id, 0);
    char *page = mmap(0, 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASK("moved there", mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
    at[0] = 'x';
    TRY(shmdt(at));
    SAY("what was moved there", "%s", at);
    shown(id, "moved there");
    munmap(at, 4096);
    at = filled(id, 0);
    ASK("another there", shmat(other, at, SHM_REMAP) == at);
    shown(id, "another there");
    shmctl(id, IPC_RMID, 0), shmctl(other, IPC_RMID, 0);
    TRY(msync(at, 8192, MS_ASYNC));
    TRY(shmdt(at));
    TRY(msync(at, 8192, MS_ASYNC));
}

int main(void) {
    key = 0x4b000000 | getpid();
    semaphores(), messages(), memory(), unmapped();
    return 0;
}
