/* flock and fcntl locks: whose they are, what they bar, how ranges join and part, when they go. */
#include "probe.h"
#include <sys/file.h>

static int a, b, reader, writer;

static int set(int fd, int command, int type, long start, long length) {
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, command, &l);
}

static const char *letter(int type) {
    return type == F_RDLCK ? "R" : type == F_WRLCK ? "W" : type == F_UNLCK ? "-" : "?";
}

/* Who bars a lock, as "type start length whose"; "-" if nothing does. */
static const char *barred(int fd, int command, int type, long start, long length) {
    static char text[100];
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length, .l_pid = 0};
    errno = 0;
    if (fcntl(fd, command, &l))
        sprintf(text, "-1 %s", strerrorname_np(errno));
    else if (l.l_type == F_UNLCK)
        sprintf(text, "- %ld %ld %d", (long)l.l_start, (long)l.l_len, l.l_pid);
    else
        sprintf(text, "%s %ld %ld %s", letter(l.l_type), (long)l.l_start, (long)l.l_len,
                l.l_pid == getpid() ? "process" : l.l_pid == -1 ? "description" : "?");
    return text;
}
#define WHO(fd, command, type, start, length) \
    SAY(#fd " " #command " " #type " " #start " " #length, "%s", barred(fd, command, type, start, length))

static void whole_files(void) {
    static const int operations[] = {LOCK_SH, LOCK_EX, LOCK_UN};
    static const char *const names[] = {"SH", "EX", "UN"};
    for (int first = 0; first < 3; first++)
        for (int second = 0; second < 3; second++)
            for (int third = 0; third < 3; third++) {
                char question[40];
                sprintf(question, "%s %s %s", names[first], names[second], names[third]);
                int x = flock(a, operations[first] | LOCK_NB), y = flock(b, operations[second] | LOCK_NB);
                int z = flock(a, operations[third] | LOCK_NB), w = flock(reader, LOCK_SH | LOCK_NB);
                SAY(question, "%d %d %d %d", x, y, z, w);
                flock(a, LOCK_UN);
                flock(b, LOCK_UN);
                flock(reader, LOCK_UN);
            }
    /* a descriptor that shares the open file shares the lock, which goes with the last of them */
    int copy = dup(a);
    TRY(flock(a, LOCK_EX | LOCK_NB));
    TRY(flock(copy, LOCK_EX | LOCK_NB));
    TRY(flock(b, LOCK_SH | LOCK_NB));
    TRY(close(copy));
    TRY(flock(b, LOCK_SH | LOCK_NB));
    int again = open("f", O_RDWR);
    TRY(flock(again, LOCK_SH | LOCK_NB));
    TRY(flock(a, LOCK_SH | LOCK_NB));
    TRY(flock(again, LOCK_SH | LOCK_NB));
    TRY(flock(a, LOCK_EX | LOCK_NB));
    TRY(flock(b, LOCK_EX | LOCK_NB));
    TRY(close(again));
    TRY(flock(b, LOCK_EX | LOCK_NB));
    TRY(flock(writer, LOCK_SH | LOCK_NB));
    TRY(set(a, F_SETLK, F_WRLCK, 0, 0)); /* locks of the other kind are none to it */
    TRY(flock(b, LOCK_UN));
    TRY(set(a, F_SETLK, F_UNLCK, 0, 0));
    TRY(flock(a, LOCK_NB));
    TRY(flock(a, 0));
    TRY(flock(a, LOCK_SH | LOCK_EX));
    TRY(flock(-1, 77));
    TRY(flock(-1, LOCK_SH));
}

static void of_the_process(void) {
    TRY(set(a, F_SETLK, F_WRLCK, 10, 10));
    TRY(set(b, F_SETLK, F_WRLCK, 15, 10)); /* one owner, whatever the descriptor */
    TRY(set(reader, F_SETLK, F_WRLCK, 0, 1));
    TRY(set(writer, F_SETLK, F_RDLCK, 0, 1));
    WHO(a, F_GETLK, F_WRLCK, 0, 0);
    WHO(a, F_OFD_GETLK, F_WRLCK, 0, 0);
    WHO(b, F_OFD_GETLK, F_RDLCK, 12, 1);
    WHO(b, F_OFD_GETLK, F_RDLCK, 25, 1);
    TRY(set(a, F_SETLK, F_RDLCK, 14, 2));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0, 0);
    WHO(b, F_OFD_GETLK, F_WRLCK, 14, 1);
    WHO(b, F_OFD_GETLK, F_RDLCK, 14, 2);
    WHO(b, F_OFD_GETLK, F_WRLCK, 16, 1);
    TRY(set(a, F_SETLK, F_WRLCK, 14, 2));
    WHO(b, F_OFD_GETLK, F_WRLCK, 12, 1);
    TRY(set(a, F_SETLK, F_UNLCK, 12, 3));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0, 13);
    WHO(b, F_OFD_GETLK, F_WRLCK, 12, 3);
    WHO(b, F_OFD_GETLK, F_WRLCK, 12, 4);
    TRY(set(a, F_SETLK, F_RDLCK, 100, 0));
    WHO(b, F_OFD_GETLK, F_WRLCK, 1000000, 5);
    TRY(set(b, F_OFD_SETLK, F_RDLCK, 100, 50));
    TRY(set(b, F_OFD_SETLK, F_WRLCK, 100, 50));
    TRY(set(a, F_SETLK, F_WRLCK, 100, 1));
    TRY(set(a, F_SETLK, F_WRLCK, 150, 1));
    /* closing any descriptor of the file gives up all of them */
    TRY(close(dup(reader)));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0, 0);
    TRY(set(b, F_OFD_SETLK, F_UNLCK, 0, 0));
}

static void of_descriptions(void) {
    TRY(set(a, F_OFD_SETLK, F_WRLCK, 0, 10));
    TRY(set(b, F_OFD_SETLK, F_WRLCK, 10, 10));
    TRY(set(b, F_OFD_SETLK, F_WRLCK, 9, 1));
    TRY(set(b, F_OFD_SETLK, F_RDLCK, 0, 0));
    TRY(set(a, F_SETLK, F_RDLCK, 5, 1));
    WHO(a, F_GETLK, F_RDLCK, 0, 0);
    WHO(a, F_OFD_GETLK, F_RDLCK, 0, 0);
    WHO(b, F_OFD_GETLK, F_RDLCK, 0, 0);
    WHO(b, F_GETLK, F_RDLCK, 10, 1);
    int copy = dup(b);
    TRY(close(b));
    WHO(a, F_OFD_GETLK, F_RDLCK, 0, 0);
    TRY(close(copy));
    WHO(a, F_OFD_GETLK, F_RDLCK, 0, 0);
    b = open("f", O_RDWR);
    struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_pid = 5};
    TRY(fcntl(b, F_OFD_SETLK, &l));
    TRY(fcntl(b, F_OFD_GETLK, &l));
    TRY(fcntl(b, F_GETLK, &l));
    l.l_type = F_UNLCK;
    TRY(fcntl(b, F_GETLK, &l));
    TRY(set(a, F_OFD_SETLK, F_UNLCK, 0, 0));
}

static void ends(void) {
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -5, .l_len = 3};
    lseek(a, 8, SEEK_SET);
    TRY(fcntl(a, F_SETLK, &l));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0, 0);
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -2, .l_len = -3};
    TRY(fcntl(a, F_SETLK, &l));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0, 0);
    WHO(b, F_OFD_GETLK, F_WRLCK, 6, 0);
    l.l_start = -20;
    TRY(fcntl(a, F_SETLK, &l));
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = -4};
    TRY(fcntl(a, F_SETLK, &l));
    l.l_len = -3;
    TRY(fcntl(a, F_SETLK, &l));
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x7fffffffffffffff, .l_len = 1};
    TRY(fcntl(a, F_SETLK, &l));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0x7ffffffffffffff0, 0);
    l.l_whence = SEEK_CUR;
    TRY(fcntl(a, F_SETLK, &l));
    TRY(fcntl(a, F_SETLKW, &l));
    TRY(set(a, F_SETLK, F_UNLCK, 0, 0));
    WHO(b, F_OFD_GETLK, F_WRLCK, 0, 0);
    TRY(fcntl(a, F_GETLEASE));
}

int main(void) {
    put("f", "0123456789");
    a = open("f", O_RDWR);
    b = open("f", O_RDWR);
    reader = open("f", O_RDONLY);
    writer = open("f", O_WRONLY);
    whole_files();
    of_the_process();
    of_descriptions();
    ends();
}
