/* /proc: what the process reads about itself and writes there, and files that are not there. */
#include "probe.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define PAGE 4096L
#define OPEN(path, flags) ASK("open " path " " #flags, opened(open(path, flags)))

static char text[1 << 16];

/* A file, as far as it goes. */
static char *contents(const char *path) {
    int fd = open(path, O_RDONLY);
    long size = 0, more;
    while (fd >= 0 && (more = read(fd, text + size, sizeof text - size - 1)) > 0)
        size += more;
    text[size] = 0;
    if (fd >= 0)
        close(fd);
    return text;
}

/* The line of a file that begins with a name, without its newline. */
static char *line(const char *path, const char *name) {
    char *at = contents(path);
    while (at && strncmp(at, name, strlen(name)))
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    if (!at)
        return "none";
    at[strcspn(at, "\n")] = 0;
    return at;
}

static long store(const char *path, const char *value) {
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -1;
    long done = write(fd, value, strlen(value));
    int error = errno;
    close(fd);
    errno = error;
    return done;
}

static void there(void) {
    OPEN("/proc/self/auxv", O_RDONLY);
    OPEN("/proc/self/cgroup", O_RDONLY);
    OPEN("/proc/self/cmdline", O_RDONLY);
    OPEN("/proc/self/coredump_filter", O_RDWR);
    OPEN("/proc/self/cpuset", O_RDONLY);
    OPEN("/proc/self/environ", O_RDONLY);
    OPEN("/proc/self/environ", O_WRONLY);
    OPEN("/proc/self/exe", O_RDONLY);
    OPEN("/proc/self/fd", O_RDONLY);
    OPEN("/proc/self/fdinfo/0", O_RDONLY);
    OPEN("/proc/self/io", O_RDONLY);
    OPEN("/proc/self/limits", O_RDONLY);
    OPEN("/proc/self/maps", O_RDONLY);
    OPEN("/proc/self/mem", O_RDWR);
    OPEN("/proc/self/mountinfo", O_RDONLY);
    OPEN("/proc/self/mounts", O_RDONLY);
    OPEN("/proc/self/mountstats", O_RDONLY);
    OPEN("/proc/self/ns/mnt", O_RDONLY);
    OPEN("/proc/self/oom_score", O_RDONLY);
    OPEN("/proc/self/oom_score_adj", O_RDWR);
    OPEN("/proc/self/pagemap", O_RDONLY);
    OPEN("/proc/self/pagemap", O_RDWR);
    OPEN("/proc/self/personality", O_RDONLY);
    OPEN("/proc/self/smaps", O_RDONLY);
    OPEN("/proc/self/smaps_rollup", O_RDONLY);
    OPEN("/proc/self/stat", O_RDONLY);
    OPEN("/proc/self/statm", O_RDONLY);
    OPEN("/proc/self/status", O_RDONLY);
    OPEN("/proc/self/syscall", O_RDONLY);
    OPEN("/proc/self/task", O_RDONLY);
    OPEN("/proc/self/wchan", O_RDONLY);
    OPEN("/proc/thread-self/comm", O_RDONLY);
    OPEN("/proc/1/comm", O_RDONLY);
    OPEN("/proc/1/stat", O_RDONLY);
    OPEN("/proc/1/status", O_RDONLY);
    OPEN("/proc/999999/comm", O_RDONLY);
    OPEN("/proc/cmdline", O_RDONLY);
    OPEN("/proc/cpuinfo", O_RDONLY);
    OPEN("/proc/devices", O_RDONLY);
    OPEN("/proc/filesystems", O_RDONLY);
    OPEN("/proc/loadavg", O_RDONLY);
    OPEN("/proc/meminfo", O_RDONLY);
    OPEN("/proc/stat", O_RDONLY);
    OPEN("/proc/swaps", O_RDONLY);
    OPEN("/proc/uptime", O_RDONLY);
    OPEN("/proc/version", O_RDONLY);
    OPEN("/proc/sys/fs/file-max", O_RDONLY);
    OPEN("/proc/sys/fs/nr_open", O_RDONLY);
    OPEN("/proc/sys/kernel/cap_last_cap", O_RDONLY);
    OPEN("/proc/sys/kernel/core_pattern", O_RDONLY);
    OPEN("/proc/sys/kernel/hostname", O_RDONLY);
    OPEN("/proc/sys/kernel/ngroups_max", O_RDONLY);
    OPEN("/proc/sys/kernel/osrelease", O_RDONLY);
    OPEN("/proc/sys/kernel/pid_max", O_RDONLY);
    OPEN("/proc/sys/kernel/random/boot_id", O_RDONLY);
    OPEN("/proc/sys/kernel/random/uuid", O_RDONLY);
    OPEN("/proc/sys/vm/max_map_count", O_RDONLY);
    OPEN("/proc/sys/vm/mmap_min_addr", O_RDONLY);
    OPEN("/proc/sys/vm/overcommit_memory", O_RDONLY);
    OPEN("/proc/nothing", O_RDONLY);
    OPEN("/sys/devices/system/cpu/online", O_RDONLY);
    OPEN("/sys/devices/system/cpu/possible", O_RDONLY);
    OPEN("/sys/devices/system/cpu/present", O_RDONLY);
    OPEN("/sys/devices/system/cpu/cpu0", O_RDONLY);
    OPEN("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
    OPEN("/proc/sys/kernel/hostname", O_WRONLY);
    OPEN("/sys/devices/system/cpu/online", O_WRONLY);
    OPEN("/etc/passwd", O_RDONLY);
    SAY("system", "%s", contents("/proc/sys/kernel/ostype"));
    SAY("the last capability", "%s", contents("/proc/sys/kernel/cap_last_cap"));
    contents("/proc/sys/kernel/random/uuid");
    SAY("a UUID", "%zu %c %c", strlen(text), text[14], text[8]);
    char before[64];
    strcpy(before, contents("/proc/sys/kernel/random/uuid"));
    SAY("another UUID", "%d", strcmp(before, contents("/proc/sys/kernel/random/uuid")) != 0);
    strcpy(before, contents("/proc/sys/kernel/random/boot_id"));
    SAY("the same boot", "%d", strcmp(before, contents("/proc/sys/kernel/random/boot_id")));
}

static void written(void) {
    char name[17] = {0};
    ASK("comm", store("/proc/self/comm", "short"));
    prctl(PR_GET_NAME, name);
    SAY("name", "%s %s", name, contents("/proc/self/comm"));
    ASK("comm", store("/proc/self/comm", "a name that is too long for it"));
    SAY("name", "%s", contents("/proc/self/comm"));
    ASK("comm", store("/proc/self/comm", "line\n"));
    SAY("name", "%zu", strlen(contents("/proc/self/comm")));
    prctl(PR_SET_NAME, "back");
    SAY("name", "%s", contents("/proc/thread-self/comm"));
    ASK("score", store("/proc/self/oom_score_adj", "500\n"));
    SAY("score", "%s", contents("/proc/self/oom_score_adj"));
    ASK("score", store("/proc/self/oom_score_adj", "0x10"));
    SAY("score", "%s", contents("/proc/self/oom_score_adj"));
    ASK("score", store("/proc/self/oom_score_adj", "1001"));
    ASK("score", store("/proc/self/oom_score_adj", "-1001"));
    ASK("score", store("/proc/self/oom_score_adj", "-1"));
    ASK("score", store("/proc/self/oom_score_adj", "none"));
    ASK("score", store("/proc/self/oom_score_adj", "010"));
    SAY("score", "%s", contents("/proc/self/oom_score_adj"));
    ASK("score", store("/proc/self/oom_score_adj", "0"));
    ASK("dumps", store("/proc/self/coredump_filter", "0x7f"));
    SAY("dumps", "%s", contents("/proc/self/coredump_filter"));
    ASK("slack", store("/proc/self/timerslack_ns", "777"));
    SAY("slack", "%s", contents("/proc/self/timerslack_ns"));
    ASK("slack", prctl(PR_GET_TIMERSLACK));
    ASK("references", store("/proc/self/clear_refs", "1"));
    ASK("references", store("/proc/self/clear_refs", "9"));
}

static void again(void) {
    char first[64] = {0}, second[64] = {0};
    int fd = open("/proc/self/comm", O_RDONLY);
    prctl(PR_SET_NAME, "one");
    TRY(read(fd, first, 2));
    prctl(PR_SET_NAME, "two");
    TRY(read(fd, first + 2, 60));
    SAY("as it was", "%s", first);
    TRY(pread(fd, second, 60, 0));
    SAY("as it is", "%s", second);
    TRY(lseek(fd, 0, SEEK_SET));
    memset(first, 0, sizeof first);
    TRY(read(fd, first, 60));
    SAY("from the start", "%s", first);
    TRY(read(fd, first, 60));
    TRY(lseek(fd, 0, SEEK_END));
    TRY(lseek(fd, 100, SEEK_SET));
    TRY(read(fd, first, 60));
    struct stat status;
    TRY(fstat(fd, &status));
    SAY("size", "%ld %o", (long)status.st_size, status.st_mode);
}

static void memory(void) {
    static long value = 5;
    long got = 0, other = 7;
    int fd = open("/proc/self/mem", O_RDWR);
    char *page = mmap(0, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + PAGE, PAGE);
    ASK("read", pread(fd, &got, 8, (off_t)&value));
    SAY("got", "%ld", got);
    ASK("write", pwrite(fd, &other, 8, (off_t)&value));
    SAY("is", "%ld", value);
    ASK("write what is only read", pwrite(fd, &other, 8, (off_t)page));
    SAY("is", "%ld", *(long *)page);
    ASK("read across the end", pread(fd, text, 100, (off_t)(page + PAGE - 10)));
    ASK("read nowhere", pread(fd, text, 100, 8));
    ASK("write nowhere", pwrite(fd, text, 100, 8));
    ASK("seek", lseek(fd, (off_t)&value, SEEK_SET) == (off_t)&value);
    ASK("seek from the end", lseek(fd, 0, SEEK_END));
    ASK("read", read(fd, &got, 8));
    SAY("got", "%ld", got);
    int map = open("/proc/self/pagemap", O_RDONLY);
    unsigned long words[2] = {0, 0};
    char *pages = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages[PAGE] = 1;
    ASK("page map", pread(map, words, 16, (long)pages / PAGE * 8));
    SAY("in memory", "%lu %lu", words[0] >> 63, words[1] >> 63);
    ASK("half a word", pread(map, words, 4, 0));
    ASK("between words", pread(map, words, 8, 4));
}

static void of_mappings(void) {
    put("file", "contents");
    TRY(truncate("file", 3 * PAGE));
    int fd = open("file", O_RDWR);
    struct {
        const char *name;
        char *at;
    } maps[] = {
        {"memory", mmap((void *)0x30000000, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)},
        {"shared memory", mmap((void *)0x30010000, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0)},
        {"a file", mmap((void *)0x30020000, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, PAGE)},
        {"a shared file", mmap((void *)0x30030000, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, PAGE)},
        {"no permissions", mmap((void *)0x30040000, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)},
    };
    maps[0].at[0] = maps[0].at[2 * PAGE] = 1;
    for (int i = 0; i < 5; i++) {
        char start[32], *found, name[64] = "", letters[8];
        unsigned long from, to, offset;
        snprintf(start, sizeof start, "%lx-", (long)maps[i].at);
        found = line("/proc/self/maps", start);
        sscanf(found, "%lx-%lx %7s %lx", &from, &to, letters, &offset);
        if (strrchr(found, '/') && i != 1)
            snprintf(name, sizeof name, "%s at %d", strrchr(found, '/'), (int)(strchr(found, '/') - found));
        SAY("maps", "%s: %lx-%lx %s %lx %s", maps[i].name, from, to, letters, offset, name);
    }
    char *smaps = contents("/proc/self/smaps"), *here = strstr(smaps, "30000000-");
    for (const char *name = "Size:\0Rss:\0Private_Dirty:\0Anonymous:\0Swap:\0Locked:\0"; *name; name += strlen(name) + 1)
        SAY("smaps", "%.*s", (int)strcspn(strstr(here, name), "\n"), strstr(here, name));
    TRY(mlock(maps[0].at, PAGE));
    SAY("locked", "%s", line("/proc/self/status", "VmLck"));
    struct stat status;
    fstat(fd, &status);
    char *file = line("/proc/self/maps", "30020000-");
    unsigned major, minor;
    unsigned long inode;
    sscanf(file, "%*s %*s %*s %x:%x %lu", &major, &minor, &inode);
    SAY("the same file", "%d", inode == status.st_ino);
    TRY(unlink("file"));
    SAY("deleted", "%s", strrchr(line("/proc/self/maps", "30020000-"), '/'));
}

static long field(int number) {
    char *at = strrchr(contents("/proc/self/stat"), ')') + 2;
    for (int i = 3; i < number; i++)
        at = strchr(at, ' ') + 1;
    return atol(at);
}

static void of_the_process(void) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGUSR2, SIG_IGN);
    raise(SIGUSR1);
    umask(027);
    const char *names[] = {"Umask:", "State:", "TracerPid:", "Threads:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:",
                           "SigCgt:", "CapInh:", "CapPrm:", "CapEff:", "CapAmb:", "NoNewPrivs:", "Seccomp:"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        SAY("status", "%s", line("/proc/self/status", names[i]));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    SAY("status", "%s", line("/proc/self/status", "NoNewPrivs:"));
    SAY("pid", "%d", atoi(line("/proc/self/status", "Pid:") + 4) == getpid());
    int first = field(19);
    setpriority(PRIO_PROCESS, 0, first + 3);
    SAY("priority", "%ld %ld", field(18) - 20 - first, field(19) - first);
    struct sched_param none = {0};
    sched_setscheduler(0, SCHED_BATCH, &none);
    SAY("policy", "%ld", field(41));
    SAY("threads", "%ld", field(20));
    SAY("stack", "%d", labs(field(28) - (long)&mask) < 1 << 20);
    SAY("blocked", "%ld %ld", field(32), field(33));
    SAY("the end's signal", "%ld", field(38));
    SAY("heap", "%d", field(47) <= (long)sbrk(0) && field(47) > 0);
    char *at = contents("/proc/self/stat");
    int fields = 1;
    for (char *in = strrchr(at, ')'); *in; in++)
        fields += *in == ' ';
    SAY("fields", "%d", fields + 1);
    struct rlimit limit = {12345, 23456};
    setrlimit(RLIMIT_CORE, &limit);
    SAY("limits", "%s", line("/proc/self/limits", "Max core"));
    SAY("limits", "%s", line("/proc/self/limits", "Limit"));
    SAY("arguments", "%d", strlen(contents("/proc/self/cmdline")) > 0);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    SAY("position", "%s", line(path, "pos:"));
    SAY("flags", "%lo", strtol(line(path, "flags:") + 6, NULL, 8) & (O_ACCMODE | O_CLOEXEC | O_NONBLOCK));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    SAY("link", "%ld", (long)readlink(path, text, sizeof text));
    close(fd);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    ASK("closed", open(path, O_RDONLY));
}

int main(void) {
    of_mappings();
    /* root has capabilities, a guest has none; who changes its user is not dumpable, and then not its files' owner */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    prctl(PR_SET_DUMPABLE, 1);
    there();
    written();
    again();
    memory();
    of_the_process();
    return 0;
}
