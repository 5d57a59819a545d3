/* Pipes and FIFOs: what fits, what is merged, what is read at once, and what moves between them. */
#include "probe.h"
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static char big[1 << 21];
static int p[2], q[2];

static void fresh(int flags) {
    close(p[0]), close(p[1]);
    pipe2(p, flags | O_NONBLOCK);
}

static long inside(int fd) {
    int count = -1;
    ioctl(fd, FIONREAD, &count);
    return count;
}

static int events(int fd) {
    struct pollfd f = {fd, POLLIN | POLLOUT, 0};
    poll(&f, 1, 0);
    return f.revents;
}

static void room(void) {
    static const int sizes[] = {1, 100, 2048, 2049, 4095, 4096, 4097, 6000, 8192, 65535, 65536, 65537, 100000};
    for (int i = 0; i < 13; i++) {
        char question[40];
        int count = 0, last = 0;
        long total = 0;
        fresh(0);
        for (int written; (written = write(p[1], big, sizes[i])) > 0; count++)
            total += last = written;
        sprintf(question, "writes of %d", sizes[i]);
        SAY(question, "%d %ld %d %x %x", count, total, last, events(p[0]), events(p[1]));
        /* what becomes free as bytes are taken */
        static const int takes[] = {1, 4094, 1, 1, 4096, 8191};
        for (int k = 0; k < 6; k++) {
            int taken = read(p[0], big, takes[k]), one = write(p[1], big, 1), page = write(p[1], big, 4096);
            SAY(question, "%d: %d %d %ld %x", taken, one, page, inside(p[0]), events(p[1]));
        }
    }
}

static void merging(void) {
    fresh(0);
    static const int writes[] = {4096, 4000, 90, 7, 5000, 3000, 4096, 10, 4080, 1, 8192, 8191, 1, 1};
    for (int i = 0; i < 14; i++) {
        char question[40];
        sprintf(question, "write %d of %d", i, writes[i]);
        ASK(question, write(p[1], big, writes[i]));
    }
    struct iovec parts[3] = {{big, 100}, {big, 4000}, {big, 90}};
    TRY(writev(p[1], parts, 3));
    TRY(writev(p[1], parts, 3));
    int slots = 0;
    while (write(p[1], big, 4096) > 0)
        slots++;
    SAY("slots left", "%d", slots);
    TRY(write(p[1], big, 90));
    TRY(write(p[1], big, 3));
    TRY(read(p[0], big, 4000));
    TRY(write(p[1], big, 90));
    TRY(write(p[1], big, 4000));
}

static void resizing(void) {
    fresh(0);
    static const unsigned sizes[] = {0, 1, 4096, 4097, 8192, 12288, 65536, 1 << 20, (1 << 20) + 1, 1u << 31, (1u << 31) + 1, 5000};
    for (int i = 0; i < 12; i++) {
        if (sizes[i] > 1 << 20)
            continue; /* what the machine allows root */
        char question[40];
        sprintf(question, "F_SETPIPE_SZ %u", sizes[i]);
        ASK(question, fcntl(p[i & 1], F_SETPIPE_SZ, sizes[i]));
        SAY(question, "%d", fcntl(p[0], F_GETPIPE_SZ));
    }
    TRY(fcntl(p[0], F_SETPIPE_SZ, -1));
    TRY(write(p[1], big, 10000));
    TRY(fcntl(p[0], F_SETPIPE_SZ, 8192));
    TRY(fcntl(p[0], F_SETPIPE_SZ, 12288));
    TRY(read(p[0], big, 4096));
    TRY(fcntl(p[0], F_SETPIPE_SZ, 8192));
    TRY(write(p[1], big, 4096));
    TRY(read(p[0], big, 10000));
    TRY(write(p[1], big, 10000));
}

static void packets(void) {
    fresh(O_DIRECT);
    TRY(write(p[1], "one", 3));
    TRY(write(p[1], "second", 6));
    TRY(write(p[1], big, 5000));
    SAY("inside", "%ld", inside(p[0]));
    TRY(read(p[0], big, 2));
    TRY(read(p[0], big, 100));
    TRY(read(p[0], big, 10000));
    TRY(read(p[0], big, 10000));
    TRY(read(p[0], big, 10000));
    TRY((fcntl(p[1], F_GETFL) & O_DIRECT) != 0);
    TRY(fcntl(p[1], F_SETFL, O_NONBLOCK));
    TRY(write(p[1], "a", 1));
    TRY(write(p[1], "b", 1));
    TRY(fcntl(p[1], F_SETFL, O_NONBLOCK | O_DIRECT));
    TRY(write(p[1], "c", 1));
    TRY(write(p[1], "d", 1));
    TRY(read(p[0], big, 10));
    TRY(read(p[0], big, 10));
    int count = 0;
    fresh(O_DIRECT);
    while (write(p[1], big, 1) > 0)
        count++;
    SAY("packets of one byte", "%d", count);
}

static void ends(void) {
    fresh(0);
    SAY("both open", "%x %x", events(p[0]), events(p[1]));
    TRY(write(p[1], "x", 1));
    close(p[1]);
    SAY("writer gone", "%x", events(p[0]));
    TRY(read(p[0], big, 0));
    TRY(read(p[0], big, 10));
    TRY(read(p[0], big, 10));
    SAY("empty", "%x", events(p[0]));
    pipe2(p, O_NONBLOCK);
    close(p[0]);
    SAY("reader gone", "%x", events(p[1]));
    TRY(write(p[1], "", 0));
    TRY(write(p[1], "x", 1));
    TRY(splice(open("f", O_RDONLY), NULL, p[1], NULL, 3, 0));
    TRY(sendfile(p[1], open("f", O_RDONLY), NULL, 3));
    TRY(vmsplice(p[1], &(struct iovec){big, 3}, 1, 0));
    /* through /proc an end of the same pipe is opened */
    char path[40], link[40];
    fresh(0);
    sprintf(path, "/proc/self/fd/%d", p[0]);
    int writer = open(path, O_WRONLY | O_NONBLOCK);
    TRY(write(writer, "abc", 3));
    TRY(close(p[1]));
    TRY(read(p[0], big, 2));
    SAY("another writer", "%x", events(p[0]));
    TRY(close(writer));
    SAY("none", "%x", events(p[0]));
    int both = open(path, O_RDWR);
    TRY(write(both, "d", 1));
    TRY(read(both, big, 9));
    TRY(close(both));
    link[readlink(path, link, 6)] = 0;
    SAY("link", "%s", link);
    struct stat st;
    fstat(p[0], &st);
    SAY("status", "%o %ld %ld %ld", st.st_mode, (long)st.st_nlink, (long)st.st_size, (long)st.st_blksize);
}

static void fifos(void) {
    char name[60];
    sprintf(name, "/dev/shm/kvrm-fifo-%d", getpid());
    TRY(mkfifo(name, 0640));
    TRY(mkfifo(name, 0640));
    TRY(opened(open(name, O_WRONLY | O_NONBLOCK)));
    TRY(opened(open(name, 3 | O_NONBLOCK)));
    int reader = open(name, O_RDONLY | O_NONBLOCK);
    SAY("reader alone", "%x", events(reader));
    TRY(read(reader, big, 10));
    int writer = open(name, O_WRONLY | O_NONBLOCK);
    SAY("both", "%x %x", events(reader), events(writer));
    TRY(read(reader, big, 10));
    TRY(write(writer, "hello", 5));
    TRY(close(writer));
    SAY("writer gone", "%x", events(reader));
    TRY(read(reader, big, 3));
    TRY(close(reader));
    reader = open(name, O_RDONLY | O_NONBLOCK);
    TRY(read(reader, big, 3)); /* what nobody read is gone */
    TRY(close(reader));
    int both = open(name, O_RDWR);
    TRY(write(both, "again", 5));
    TRY(unlink(name));
    TRY(read(both, big, 10));
    SAY("after all", "%x", events(both));
    struct stat st;
    fstat(both, &st);
    SAY("status", "%o %ld", st.st_mode, (long)st.st_nlink);
    close(both);
    TRY(mknod(name, S_IFSOCK | 0600, 0));
    TRY(opened(open(name, O_RDWR)));
    TRY(opened(open(name, O_PATH)));
    TRY(unlink(name));
    TRY(mknod(name, S_IFDIR | 0600, 0));
    TRY(mknod(name, 0170000 | 0600, 0));
    TRY(mknod(name, 0600, 0));
    TRY(unlink(name));
}

static void between(void) {
    int file = open("f", O_RDWR);
    off_t offset = 4090;
    fresh(0);
    pipe2(q, O_NONBLOCK);
    TRY(splice(file, &offset, p[1], NULL, 20000, 0));
    SAY("after", "%ld %ld", (long)offset, inside(p[0]));
    int slots = 0;
    while (write(p[1], big, 4096) > 0)
        slots++;
    SAY("slots left", "%d", slots);
    TRY(splice(file, NULL, p[1], NULL, 10, 0));
    TRY(splice(file, NULL, p[1], NULL, 10, 2));
    TRY(read(p[0], big, 7));
    SAY("read", "%.7s", big);
    TRY(tee(p[0], q[1], 10, 0));
    TRY(write(q[1], "merged?", 7));
    TRY(tee(p[0], q[1], 1000000, 0));
    SAY("inside", "%ld %ld", inside(p[0]), inside(q[0]));
    TRY(read(q[0], big, 20));
    SAY("read", "%.20s", big);
    TRY(splice(p[0], NULL, q[1], NULL, 5000, 0));
    SAY("inside", "%ld %ld", inside(p[0]), inside(q[0]));
    int out = open("out", O_RDWR | O_CREAT, 0644);
    TRY(splice(q[0], NULL, out, NULL, 1000000, 0));
    TRY(splice(q[0], NULL, out, NULL, 1000000, 0));
    TRY(lseek(out, 0, SEEK_CUR));
    offset = 3;
    TRY(splice(p[0], NULL, out, &offset, 4, 0));
    SAY("offset", "%ld", (long)offset);
    TRY(lseek(out, 0, SEEK_CUR));
    /* pages of memory take a slot each */
    fresh(0);
    static char pages[20000] __attribute__((aligned(4096)));
    struct iovec parts[3] = {{pages + 4000, 200}, {pages, 1}, {pages + 8192, 9000}};
    TRY(vmsplice(p[1], parts, 3, 0));
    slots = 0;
    while (write(p[1], big, 4096) > 0)
        slots++;
    SAY("slots left", "%d", slots);
    TRY(vmsplice(p[1], parts, 3, 2));
    struct iovec room = {big, 300};
    TRY(vmsplice(p[0], &room, 1, 2));
    TRY(vmsplice(p[0], &room, 0, 2));
    fresh(0);
    TRY(sendfile(p[1], file, NULL, 100000));
    SAY("inside", "%ld", inside(p[0]));
    TRY(lseek(file, 0, SEEK_CUR));
    fresh(0);
    lseek(file, 1, SEEK_SET);
    int count = 0;
    while (splice(file, NULL, p[1], NULL, 1, 0) > 0)
        count++;
    SAY("slots of one byte", "%d", count);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < (int)sizeof big; i++)
        big[i] = 'a' + i % 26;
    int fd = open("f", O_WRONLY | O_CREAT, 0644);
    for (int i = 0; i < 100000; i += 10)
        write(fd, "0123456789", 10);
    close(fd);
    room();
    merging();
    resizing();
    packets();
    ends();
    fifos();
    between();
}
