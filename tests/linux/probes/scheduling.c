/* Scheduling: policies, priorities, nice values, affinity, memory policies, and processes that do not exist. */
#include "probe.h"
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#define BAD ((void *)8)
#define NOBODY 999999
#define CALL(name, ...) ASK(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t least, most;
    uint64_t unknown;
};

static void policies(void) {
    struct sched_param p = {0}, one = {1}, much = {100};
    const int known[] = {-1, 0, 1, 2, 3, 4, 5, 6, 8, 77};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        SAY("policy", "%d", known[i]);
        CALL(sched_get_priority_max, known[i]);
        CALL(sched_get_priority_min, known[i]);
        CALL(sched_setscheduler, 0, known[i], &p);
        CALL(sched_setscheduler, 0, known[i], &one);
        CALL(sched_setscheduler, 0, known[i], &much);
        CALL(sched_getscheduler, 0);
    }
    /* once idle, an ordinary process stays idle; that was the last but one that it may have */
    CALL(sched_setscheduler, 0, SCHED_OTHER, &p);
    CALL(sched_setscheduler, 0, SCHED_IDLE | 0x40000000, &p);
    CALL(sched_getscheduler, 0);
    CALL(sched_setscheduler, 0, SCHED_IDLE, &p);
    CALL(sched_setscheduler, -1, SCHED_IDLE, &p);
    CALL(sched_setscheduler, NOBODY, SCHED_IDLE, &p);
    CALL(sched_setscheduler, NOBODY, 77, &p);
    CALL(sched_setscheduler, 0, SCHED_IDLE, BAD);
    CALL(sched_setscheduler, NOBODY, SCHED_IDLE, BAD);
    CALL(sched_setscheduler, 0, SCHED_IDLE, NULL);
    CALL(sched_getscheduler, -1);
    CALL(sched_getscheduler, NOBODY);
    CALL(sched_getscheduler, 1);
    CALL(sched_setparam, 0, &p);
    CALL(sched_setparam, 0, &one);
    CALL(sched_setparam, 0, NULL);
    CALL(sched_setparam, -1, &p);
    CALL(sched_setparam, NOBODY, &p);
    CALL(sched_getparam, 0, &p);
    SAY("priority", "%d", p.sched_priority);
    CALL(sched_getparam, 0, NULL);
    CALL(sched_getparam, 0, BAD);
    CALL(sched_getparam, -1, &p);
    CALL(sched_getparam, NOBODY, &p);
    struct timespec slice = {-1, -1};
    CALL(sched_rr_get_interval, 0, &slice);
    SAY("slice", "%d", slice.tv_sec == 0 && slice.tv_nsec >= 0);
    CALL(sched_rr_get_interval, 0, BAD);
    CALL(sched_rr_get_interval, -1, &slice);
    CALL(sched_rr_get_interval, NOBODY, &slice);
    CALL(sched_yield, 0);
}

/* The nice value that the probe was started with; others are counted from it. */
static int first;

static long priority(int which, int who) {
    long found = syscall(SYS_getpriority, which, who);
    return found < 0 ? -1 : found + first;
}

static long set_priority(int which, int who, int nice) { return syscall(SYS_setpriority, which, who, first + nice); }

static void nice_values(void) {
    first = 20 - syscall(SYS_getpriority, PRIO_PROCESS, 0);
    TRY(priority(PRIO_PROCESS, 0));
    TRY(set_priority(PRIO_PROCESS, 0, -5));
    TRY(set_priority(PRIO_PROCESS, 0, 0));
    TRY(set_priority(PRIO_PROCESS, getpid(), 5));
    TRY(priority(PRIO_PROCESS, getpid()));
    TRY(set_priority(PRIO_PROCESS, 0, 4));
    TRY(priority(PRIO_PGRP, 0));
    TRY(set_priority(PRIO_PGRP, 0, 6));
    TRY(priority(PRIO_PROCESS, 0));
    TRY(priority(PRIO_USER, NOBODY));
    TRY(set_priority(PRIO_USER, NOBODY, 7));
    TRY(priority(3, 0));
    TRY(priority(-1, 0));
    TRY(set_priority(3, 0, 0));
    TRY(priority(PRIO_PROCESS, NOBODY));
    TRY(priority(PRIO_PROCESS, -1));
    TRY(priority(PRIO_PGRP, NOBODY));
    TRY(set_priority(PRIO_PROCESS, NOBODY, 0));
    TRY(set_priority(PRIO_PGRP, NOBODY, 0));
    TRY(set_priority(PRIO_PROCESS, 1, 0));
    TRY(set_priority(PRIO_PROCESS, 0, 100));
    CALL(getpriority, PRIO_PROCESS, 0);
    ASK("nice(1)", nice(1));
    ASK("nice(-1)", nice(-1));
}

static void io_priorities(void) {
    CALL(ioprio_get, 1, 0);
    CALL(ioprio_set, 1, 0, 2 << 13 | 4);
    CALL(ioprio_get, 1, 0);
    CALL(ioprio_get, 1, getpid());
    CALL(ioprio_get, 2, 0);
    CALL(ioprio_set, 1, 0, 3 << 13);
    CALL(ioprio_get, 1, 0);
    CALL(ioprio_set, 1, 0, 1 << 13);
    CALL(ioprio_set, 1, 0, 5 << 13);
    CALL(ioprio_set, 1, 0, 1);
    CALL(ioprio_set, 1, 0, 0);
    CALL(ioprio_get, 1, NOBODY);
    CALL(ioprio_set, 1, NOBODY, 0);
    CALL(ioprio_set, 1, NOBODY, 5 << 13);
    CALL(ioprio_get, 4, 0);
    CALL(ioprio_set, 4, 0, 0);
    CALL(ioprio_get, 2, NOBODY);
}

static void attributes(void) {
    struct attributes a = {sizeof a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    memset(&a, 0x55, sizeof a);
    CALL(sched_getattr, 0, &a, 48, 0);
    SAY("attributes", "size %u policy %u flags %lx nice %d priority %u", a.size, a.policy, (long)a.flags, a.nice, a.priority);
    SAY("untouched", "%lx", (long)a.unknown);
    static struct attributes page[64];
    CALL(sched_getattr, 0, page, 4096, 0);
    SAY("size", "%u", page[0].size);
    CALL(sched_getattr, 0, &a, 47, 0);
    CALL(sched_getattr, 0, &a, 4097, 0);
    CALL(sched_getattr, 0, &a, 48, 1);
    CALL(sched_getattr, -1, &a, 48, 0);
    CALL(sched_getattr, 0, NULL, 48, 0);
    CALL(sched_getattr, 0, BAD, 48, 0);
    CALL(sched_getattr, NOBODY, &a, 48, 0);
    a = (struct attributes){48, SCHED_IDLE, 0, 19, 0, 0, 0, 0, 0, 0, 0};
    CALL(sched_setattr, 0, &a, 0);
    a.size = 0;
    CALL(sched_setattr, 0, &a, 0);
    a.size = 47;
    CALL(sched_setattr, 0, &a, 0);
    SAY("the size that is known", "%u", a.size);
    a.size = 4097;
    CALL(sched_setattr, 0, &a, 0);
    a.size = sizeof a;
    CALL(sched_setattr, 0, &a, 0);
    a.size = sizeof a, a.unknown = 1;
    CALL(sched_setattr, 0, &a, 0);
    a.size = 48;
    CALL(sched_setattr, 0, &a, 1);
    CALL(sched_setattr, -1, &a, 0);
    CALL(sched_setattr, NOBODY, &a, 0);
    CALL(sched_setattr, 0, NULL, 0);
    CALL(sched_setattr, 0, BAD, 0);
    a.policy = 77;
    CALL(sched_setattr, 0, &a, 0);
    a.policy = -1;
    CALL(sched_setattr, 0, &a, 0);
    a.policy = SCHED_FIFO, a.priority = 1;
    CALL(sched_setattr, 0, &a, 0);
    a.policy = SCHED_IDLE;
    CALL(sched_setattr, 0, &a, 0);
    a.priority = 0, a.flags = 1L << 40;
    CALL(sched_setattr, 0, &a, 0);
    a.flags = 8 | 16;
    CALL(sched_setattr, 0, &a, 0);
    a.policy = 6, a.flags = 0;
    CALL(sched_setattr, 0, &a, 0);
}

static void affinity(void) {
    unsigned long set[128] = {0};
    WORKS(syscall(SYS_sched_getaffinity, 0, sizeof set, set));
    SAY("a processor", "%d", set[0] != 0);
    CALL(sched_getaffinity, 0, 0, set);
    CALL(sched_getaffinity, 0, 4, set);
    CALL(sched_getaffinity, 0, 12, set);
    CALL(sched_getaffinity, NOBODY, 8, set);
    CALL(sched_getaffinity, -1, 8, set);
    CALL(sched_getaffinity, 0, 8, BAD);
    WORKS(syscall(SYS_sched_getaffinity, 1, 8, set));
    CALL(sched_setaffinity, 0, 8, set);
    CALL(sched_setaffinity, NOBODY, 8, set);
    CALL(sched_setaffinity, 0, 8, BAD);
    CALL(sched_setaffinity, NOBODY, 8, BAD);
    CALL(sched_setaffinity, 0, 0, set);
    memset(set, 0, sizeof set);
    CALL(sched_setaffinity, 0, 8, set);
    set[0] = 1;
    CALL(sched_setaffinity, 0, 1, set);
    memset(set, 0xff, sizeof set);
    CALL(sched_setaffinity, 0, sizeof set, set);
    unsigned cpu = 99, node = 99;
    CALL(getcpu, &cpu, &node, NULL);
    SAY("node", "%u", node);
    CALL(getcpu, NULL, NULL, BAD);
    CALL(getcpu, BAD, NULL, NULL);
}

static void memory_policies(void) {
    int mode = -1;
    unsigned long nodes[4] = {7, 7, 7, 7};
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    *page = 1;
    CALL(get_mempolicy, &mode, nodes, 256, 0, 0);
    SAY("policy", "%d %lx %lx", mode, nodes[0], nodes[3]);
    CALL(get_mempolicy, &mode, NULL, 0, 0, 0);
    CALL(get_mempolicy, NULL, nodes, 256, 0, 4);
    SAY("allowed", "%lx", nodes[0]);
    CALL(get_mempolicy, &mode, NULL, 0, page, 3);
    SAY("node", "%d", mode);
    CALL(get_mempolicy, &mode, NULL, 0, page, 2);
    CALL(get_mempolicy, &mode, NULL, 0, page + 4096, 2);
    CALL(get_mempolicy, &mode, NULL, 0, page, 0);
    CALL(get_mempolicy, &mode, NULL, 0, 0, 1);
    CALL(get_mempolicy, &mode, NULL, 0, 0, 8);
    CALL(get_mempolicy, &mode, NULL, 0, 0, 6);
    CALL(get_mempolicy, BAD, NULL, 0, 0, 0);
    CALL(get_mempolicy, &mode, nodes, 0, 0, 0);
    nodes[0] = 1;
    CALL(set_mempolicy, 2, nodes, 64);
    CALL(get_mempolicy, &mode, nodes, 256, 0, 0);
    SAY("policy", "%d %lx", mode, nodes[0]);
    CALL(set_mempolicy, 1, NULL, 0);
    CALL(get_mempolicy, &mode, nodes, 256, 0, 0);
    SAY("policy", "%d %lx", mode, nodes[0]);
    nodes[0] = 1;
    CALL(set_mempolicy, 2, NULL, 0);
    CALL(set_mempolicy, 0, nodes, 64);
    CALL(set_mempolicy, 4, nodes, 64);
    CALL(set_mempolicy, 99, NULL, 0);
    CALL(set_mempolicy, 2, BAD, 64);
    CALL(set_mempolicy, 3 | 1 << 15 | 1 << 14, nodes, 64);
    nodes[0] = 2;
    CALL(set_mempolicy, 2, nodes, 64);
    CALL(set_mempolicy, 0, NULL, 0);
    nodes[0] = 1;
    CALL(mbind, page, 4096, 2, nodes, 64, 0);
    CALL(mbind, page, 4096, 0, NULL, 0, 0);
    CALL(mbind, page + 1, 4096, 2, nodes, 64, 0);
    CALL(mbind, page, 0, 2, nodes, 64, 0);
    CALL(mbind, page, -4096, 2, nodes, 64, 0);
    CALL(mbind, page, 8192, 2, nodes, 64, 0);
    CALL(mbind, page, 4096, 99, nodes, 64, 0);
    CALL(mbind, page, 4096, 2, nodes, 64, 8);
    CALL(mbind, page, 4096, 2, nodes, 64, 4);
    CALL(mbind, page, 4096, 2, NULL, 0, 0);
    void *pages[] = {page, page + 4096};
    int status[] = {99, 99}, to[] = {0, 0};
    CALL(move_pages, 0, 2, pages, NULL, status, 0);
    SAY("pages", "%d %d", status[0], status[1]);
    CALL(move_pages, 0, 1, pages, to, status, 2);
    SAY("pages", "%d", status[0]);
    to[0] = 77;
    CALL(move_pages, 0, 1, pages, to, status, 2);
    CALL(move_pages, 0, 1, pages, NULL, status, 1);
    CALL(move_pages, 0, 1, pages, NULL, status, 4);
    CALL(move_pages, NOBODY, 1, pages, NULL, status, 0);
    CALL(move_pages, 0, 1, BAD, NULL, status, 0);
    CALL(move_pages, 0, 0, NULL, NULL, NULL, 0);
    CALL(migrate_pages, 0, 64, nodes, nodes);
    CALL(migrate_pages, NOBODY, 64, nodes, nodes);
    nodes[0] = 2;
    CALL(migrate_pages, 0, 64, nodes, nodes);
    CALL(migrate_pages, 0, 64, BAD, nodes);
}

static void barriers(void) {
    CALL(membarrier, 8, 0, 0);
    CALL(membarrier, 16, 0, 0);
    CALL(membarrier, 8, 0, 0);
    CALL(membarrier, 1, 0, 0);
    CALL(membarrier, 2, 0, 0);
    CALL(membarrier, 4, 0, 0);
    CALL(membarrier, 32, 0, 0);
    CALL(membarrier, 64, 0, 0);
    CALL(membarrier, 32, 0, 0);
    CALL(membarrier, 0, 1, 0);
    CALL(membarrier, 1 << 20, 0, 0);
    CALL(membarrier, 3, 0, 0);
    CALL(membarrier, -1, 0, 0);
}

int main(void) {
    /* root has capabilities, a guest has none */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    nice_values();
    io_priorities();
    affinity();
    memory_policies();
    barriers();
    policies();
    attributes();
    return 0;
}
