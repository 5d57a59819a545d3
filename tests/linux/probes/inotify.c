/* inotify: what a process's own changes tell it, in which order, what is joined, and bad arguments. */
#include "probe.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define BAD ((void *)8)
#pragma GCC diagnostic ignored "-Wstringop-overflow" /* bad pointers and counts are what is asked about */
#pragma GCC diagnostic ignored "-Wstringop-overread"

static int notes;

/* All events that wait: number of the watch, mask, whether it has a cookie, name. */
static void told(const char *question) {
    char buffer[4096] __attribute__((aligned(8))), text[2000] = "";
    static unsigned last;
    ssize_t size = read(notes, buffer, sizeof buffer);
    for (char *at = buffer; at < buffer + size; at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len) {
        struct inotify_event *e = (struct inotify_event *)at;
        sprintf(text + strlen(text), " %d:%x%s%s%s", e->wd, e->mask, !e->cookie ? "" : e->cookie == last ? "same" : "new",
            e->len ? ":" : "", e->len ? e->name : "");
        last = e->cookie;
    }
    SAY(question, "%s", size < 0 ? strerrorname_np(errno) : text + 1);
}

static int watch(const char *path, unsigned mask) { return inotify_add_watch(notes, path, mask); }

static void begin(void) {
    if (notes)
        close(notes);
    notes = inotify_init1(IN_NONBLOCK);
}

static void files(void) {
    char buffer[20];
    begin(), mkdir("d", 0755), put("d/file", "text"), watch("d", IN_ALL_EVENTS), watch("d/file", IN_ALL_EVENTS);
    int fd = open("d/file", O_RDONLY);
    told("open"), read(fd, buffer, 2), told("read"), read(fd, buffer, 2), read(fd, buffer, 2), told("read twice");
    read(fd, buffer, 2), told("the end"), pread(fd, buffer, 2, 0), told("pread"), close(fd), told("close");
    fd = open("d/file", O_RDWR), told("for writing"), write(fd, "more", 4), told("write"), write(fd, "", 0), told("nothing written");
    pwrite(fd, "x", 1, 9), told("pwrite"), ftruncate(fd, 3), told("ftruncate"), ftruncate(fd, 3), told("the same size");
    fchmod(fd, 0600), told("chmod"), fchmod(fd, 0600), told("the same mode"), fchown(fd, -1, -1), told("chown to none");
    fchown(fd, getuid(), -1), told("chown"), futimens(fd, 0), told("times");
    futimens(fd, (struct timespec[]){{5, 0}, {0, UTIME_OMIT}}), told("time of access");
    futimens(fd, (struct timespec[]){{0, UTIME_OMIT}, {5, 0}}), told("time of change");
    fallocate(fd, 0, 0, 100), told("fallocate"), fsync(fd), told("fsync"), lseek(fd, 0, SEEK_SET), told("seek"), close(fd);
    told("close"), truncate("d/file", 2), told("truncate"), close(open("d/file", O_WRONLY | O_TRUNC)), told("cut and close");
    close(open("d/file", O_PATH)), told("O_PATH"), access("d/file", R_OK), told("access"), readlink("d/file", buffer, 5);
    told("readlink"), chmod("d/file", 0644), told("chmod by name"), open("d/none", O_RDONLY), told("nothing there");
    fd = open("d/file", O_RDONLY), dup(fd), close(fd), told("one of two closed"), close(fd + 1), told("the other");
}

static void copies(void) {
    begin(), put("from", "some text"), put("to", ""), watch("from", IN_ALL_EVENTS), watch("to", IN_ALL_EVENTS);
    int from = open("from", O_RDONLY), to = open("to", O_RDWR), ends[2];
    pipe(ends), told("open"), sendfile(to, from, 0, 3), told("sendfile"), sendfile(ends[1], from, 0, 2), told("to a pipe");
    copy_file_range(from, 0, to, 0, 2, 0), told("copy_file_range"), splice(ends[0], 0, to, 0, 2, 0), told("from a pipe");
    readv(from, &(struct iovec){(char[9]){0}, 1}, 1), told("readv"), writev(to, &(struct iovec){"x", 1}, 1), told("writev");
    close(ends[0]), close(ends[1]), close(from), close(to), told("close");
}

static void names(void) {
    begin(), mkdir("e", 0755), mkdir("f", 0755), watch("e", IN_ALL_EVENTS), watch("f", IN_ALL_EVENTS);
    close(open("e/new", O_CREAT | O_WRONLY, 0644)), told("create"), close(open("e/new", O_CREAT | O_WRONLY, 0644)), told("it exists");
    mkdir("e/dir", 0755), told("mkdir"), symlink("new", "e/link"), told("symlink"), link("e/new", "e/hard"), told("link");
    close(open("e/link", O_RDONLY)), told("through a link"), mknod("e/node", S_IFREG | 0644, 0), told("mknod");
    rename("e/new", "e/other"), told("rename"), rename("e/other", "f/moved"), told("to another directory");
    rename("e/dir", "e/named"), told("a directory"), rename("e/hard", "f/moved"), told("to itself");
    put("e/a", ""), put("e/b", ""), told("two"), rename("e/a", "e/b"), told("over another");
    unlink("e/b"), told("unlink"), unlink("e/link"), told("unlink a link"), rmdir("e/named"), told("rmdir");
    int fd = open("e", O_RDONLY);
    char buffer[500];
    told("open the directory"), syscall(SYS_getdents64, fd, buffer, 500), told("list"), close(fd), told("close it");
    chmod("e", 0700), told("chmod the directory"), unlink("e/nothing"), told("no such name"), mkdir("e/node", 0755), told("there is one");
}

static void ends(void) {
    begin(), put("gone", "x"), mkdir("gone.d", 0755), link("gone", "kept"), watch("gone", IN_ALL_EVENTS), watch("gone.d", IN_ALL_EVENTS);
    unlink("gone"), told("one of two names"), unlink("kept"), told("the last name"), rmdir("gone.d"), told("a directory");
    put("gone", "x"), watch("gone", IN_ALL_EVENTS);
    int fd = open("gone", O_RDONLY);
    told("open"), unlink("gone"), told("open, without a name"), close(fd), told("closed");
    put("one", "x"), put("two", "x"), watch("one", IN_ALL_EVENTS), watch("two", IN_ALL_EVENTS), rename("one", "two"), told("renamed over");
    rename("two", "three"), told("renamed");
    mkdir("moved", 0755), watch("moved", IN_ALL_EVENTS), rename("moved", "moved2"), told("a directory renamed");
    put("moved2/x", ""), told("still watched"), rename("moved2/x", "out"), told("moved out"), rename("out", "moved2/in"), told("moved in");
}

static void masks(void) {
    begin(), mkdir("m", 0755), put("m/x", "");
    int id = watch("m", IN_CREATE);
    put("m/new", ""), told("creation only");
    TRY(watch("m", IN_DELETE) == id);
    put("m/other", ""), told("replaced by deletion"), unlink("m/other"), told("deletion");
    TRY(watch("m", IN_CREATE | IN_MASK_ADD) == id);
    put("m/other", ""), unlink("m/other"), told("both");
    TRY(watch("m", IN_CREATE | IN_MASK_CREATE));
    TRY(watch("m/x", IN_OPEN | IN_MASK_CREATE) > 0);
    TRY(watch("m/x", IN_OPEN | IN_ONESHOT) > 0);
    close(open("m/x", O_RDONLY)), close(open("m/x", O_RDONLY)), told("once");
    TRY(watch("m/x", IN_OPEN | IN_ONLYDIR));
    symlink("x", "m/link");
    TRY(watch("m/link", IN_OPEN | IN_DONT_FOLLOW) > 0);
    told("made"), close(open("m/link", O_RDONLY)), told("the link is not opened"), unlink("m/link"), told("gone");
    id = watch("m/x", IN_OPEN);
    TRY(inotify_rm_watch(notes, id));
    told("removed");
    TRY(inotify_rm_watch(notes, id));
    TRY(watch("m/x", IN_OPEN) > id);
    watch("m", IN_OPEN | IN_CLOSE);
    close(open("m/x", O_RDONLY)), told("parent and file");
}

static long available(void) {
    int count = -1;
    return ioctl(notes, FIONREAD, &count) ? -1 : count;
}

static void reading(void) {
    char buffer[100];
    struct pollfd entry;
    begin(), mkdir("r", 0755), watch("r", IN_CREATE | IN_DELETE), entry = (struct pollfd){notes, POLLIN | POLLOUT, 0};
    TRY(poll(&entry, 1, 0));
    TRY(available());
    TRY(read(notes, buffer, 100));
    mknod("r/a", S_IFREG, 0), mknod("r/a-name-of-17-byte", S_IFREG, 0), mknod("r/a-name-of-16byte", S_IFREG, 0);
    TRY(available());
    TRY(poll(&entry, 1, 0));
    TRY(read(notes, buffer, 15));
    TRY(read(notes, buffer, 16));
    TRY(read(notes, buffer, 31));
    TRY(read(notes, buffer, 40));
    TRY(read(notes, BAD, 100));
    TRY(read(notes, buffer, 100));
    TRY(available());
    TRY(read(notes, buffer, 0));
    int ep = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {0}};
    epoll_ctl(ep, EPOLL_CTL_ADD, notes, &event), unlink("r/a");
    ASK("an edge", epoll_wait(ep, &event, 1, 0));
    ASK("no other", epoll_wait(ep, &event, 1, 0));
    mknod("r/a", S_IFREG, 0);
    ASK("the next", epoll_wait(ep, &event, 1, 0));
}

static void overflow(void) {
    char buffer[4096];
    int count = 0;
    ssize_t size;
    begin(), put("o", "x"), put("p", "x"), watch("o", IN_CLOSE), watch("p", IN_CLOSE);
    for (int i = 0; i < 10000; i++) close(open("o", O_RDONLY)), close(open("p", O_RDONLY));
    struct inotify_event last = {0};
    while ((size = read(notes, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < size; at += sizeof last, count++) memcpy(&last, buffer + at, sizeof last);
    SAY("events", "%d, the last %d %x", count, last.wd, last.mask);
}

static void bad_arguments(void) {
    begin(), put("file", "");
    TRY(inotify_init1(1));
    TRY(fcntl(inotify_init1(IN_CLOEXEC), F_GETFD));
    TRY(fcntl(notes, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    TRY(watch("file", 0));
    TRY(watch("file", IN_ISDIR));
    TRY(watch("file", 0x00800000));
    TRY(watch("file", IN_OPEN | 0x00800000) > 0);
    TRY(watch("file", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
    TRY(watch("nothing", IN_OPEN));
    TRY(watch("", IN_OPEN));
    TRY(watch(BAD, IN_OPEN));
    TRY(inotify_add_watch(99, "file", IN_OPEN));
    TRY(inotify_add_watch(99, "file", 0));
    TRY(inotify_add_watch(open("file", O_RDONLY), "file", IN_OPEN));
    TRY(inotify_rm_watch(99, 1));
    TRY(inotify_rm_watch(open("file", O_RDONLY), 1));
    TRY(inotify_rm_watch(notes, 99));
    TRY(inotify_rm_watch(notes, -1));
    TRY(write(notes, "x", 1));
    told("nothing");
}

int main(void) {
    files(), copies(), names(), ends(), masks(), reading(), overflow(), bad_arguments();
    return 0;
}
