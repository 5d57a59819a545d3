/* Sockets of the Unix domain whose other end is in the same process: streams, datagrams, packets, and their room. */
#include "probe.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BAD ((void *)8)
#define NOW SOCK_NONBLOCK
#pragma GCC diagnostic ignored "-Wnonnull" /* bad pointers and counts are what is asked about */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

static char buffer[300000], zeros[300000];

static void made(int kind, int *ends) { socketpair(AF_UNIX, kind | NOW, 0, ends); }

static long polled(int fd) {
    struct pollfd entry = {fd, POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLRDHUP, 0};
    return poll(&entry, 1, 0) < 0 ? -1 : entry.revents;
}

static long get(int fd, size_t size, int flags) {
    memset(buffer, 0, 100);
    long result = recv(fd, buffer, size, flags);
    int error = errno;
    if (result > 0)
        SAY("got", "%.20s", buffer);
    errno = error;
    return result;
}

static long waiting(int fd) {
    int count = -5;
    return ioctl(fd, FIONREAD, &count) ? -1 : count;
}

/* Flags that recvmsg gives back. */
static long told(int fd, size_t size, int flags) {
    struct iovec piece = {buffer, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    long result = recvmsg(fd, &message, flags);
    return result < 0 ? -1 : result * 1000 + message.msg_flags;
}

static void kinds(void) {
    int ends[2];
    TRY(opened(socket(-1, SOCK_STREAM, 0)));
    TRY(opened(socket(0, SOCK_STREAM, 0)));
    TRY(opened(socket(46, SOCK_STREAM, 0)));
    for (int kind = 0; kind < 13; kind++) {
        char question[30];
        sprintf(question, "kind %d", kind);
        ASK(question, opened(socket(AF_UNIX, kind, 0)));
    }
    TRY(opened(socket(AF_UNIX, SOCK_STREAM, 1)));
    TRY(opened(socket(AF_UNIX, SOCK_STREAM, 2)));
    TRY(opened(socket(AF_UNIX, SOCK_STREAM | 0x100, 0)));
    TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, BAD));
    TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    TRY(fcntl(ends[0], F_GETFD));
    TRY(fcntl(socket(AF_UNIX, SOCK_STREAM | NOW, 0), F_GETFL) & O_NONBLOCK);
    int alone = socket(AF_UNIX, SOCK_STREAM | NOW, 0), letters = socket(AF_UNIX, SOCK_DGRAM | NOW, 0);
    TRY(polled(alone));
    TRY(get(alone, 5, 0));
    TRY(send(alone, "x", 1, 0));
    TRY(shutdown(alone, SHUT_RDWR));
    TRY(polled(alone));
    TRY(polled(letters));
    TRY(get(letters, 5, 0));
    TRY(send(letters, "x", 1, 0));
    TRY(get(socket(AF_UNIX, SOCK_SEQPACKET | NOW, 0), 5, 0));
    TRY(send(socket(AF_UNIX, SOCK_SEQPACKET | NOW, 0), "x", 1, 0));
}

static void streams(void) {
    int ends[2];
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    made(SOCK_STREAM, ends);
    TRY(polled(ends[0]));
    TRY(send(ends[0], "hello", 5, 0));
    TRY(write(ends[0], "world", 5));
    TRY(polled(ends[1]));
    TRY(waiting(ends[1]));
    TRY(get(ends[1], 7, MSG_PEEK));
    TRY(get(ends[1], 3, 0));
    TRY(get(ends[1], 100, 0));
    TRY(get(ends[1], 10, 0));
    TRY(get(ends[1], 0, 0));
    TRY(read(ends[1], buffer, 0));
    write(ends[0], "abcdef", 6);
    TRY(get(ends[1], 2, MSG_TRUNC));
    TRY(get(ends[1], 10, MSG_WAITALL));
    TRY(send(ends[0], "", 0, 0));
    TRY(polled(ends[1]));
    TRY(sendto(ends[0], "x", 1, 0, (void *)"\1\0abc", 5));
    TRY(sendto(ends[0], "x", 1, 0, (void *)"\1\0abc", 500));
    write(ends[0], "q", 1);
    TRY(recvfrom(ends[1], buffer, 5, 0, (void *)&name, &length));
    TRY(length);
    TRY(read(ends[1], BAD, 0));
    write(ends[0], "kept", 4);
    TRY(read(ends[1], BAD, 4));
    TRY(get(ends[1], 9, 0));
    close(ends[0]), close(ends[1]);
}

static void endings(void) {
    int ends[2];
    made(SOCK_STREAM, ends);
    TRY(shutdown(ends[0], 3));
    TRY(shutdown(ends[0], SHUT_WR));
    TRY(send(ends[0], "x", 1, 0));
    TRY(send(ends[0], "x", 1, MSG_NOSIGNAL));
    TRY(polled(ends[1]));
    TRY(polled(ends[0]));
    TRY(get(ends[1], 5, 0));
    TRY(send(ends[1], "y", 1, 0));
    TRY(get(ends[0], 5, 0));
    TRY(shutdown(ends[1], SHUT_RD));
    TRY(polled(ends[1]));
    TRY(write(ends[0], "z", 1));
    close(ends[1]);
    TRY(polled(ends[0]));
    TRY(get(ends[0], 5, 0));
    TRY(send(ends[0], "x", 1, 0));
    close(ends[0]), made(SOCK_STREAM, ends), write(ends[0], "unread", 6), close(ends[1]);
    ASK("closed with bytes unread", polled(ends[0]));
    TRY(get(ends[0], 5, 0));
    TRY(get(ends[0], 5, 0));
    close(ends[0]), made(SOCK_STREAM, ends), write(ends[1], "left", 4), close(ends[1]);
    TRY(get(ends[0], 9, 0));
    TRY(get(ends[0], 9, 0));
    close(ends[0]);
}

static void room(void) {
    static const int sizes[] = {1, 100, 1000, 4096, 10000, 32768, 65536};
    for (int k = 0; k < 7; k++) {
        int ends[2], count = 0;
        long total = 0, result, taken = 1;
        made(SOCK_STREAM, ends);
        while ((result = write(ends[0], zeros, sizes[k])) > 0)
            count++, total += result;
        SAY("stream", "%d writes of %d: %ld", count, sizes[k], total);
        TRY(polled(ends[0]));
        read(ends[1], buffer, 1);
        while (!(polled(ends[0]) & POLLOUT) && (result = read(ends[1], buffer, 1000)) > 0)
            taken += result;
        SAY("room again", "after %ld", taken);
        close(ends[0]), close(ends[1]), made(SOCK_DGRAM, ends);
        for (count = 0; send(ends[0], zeros, sizes[k], 0) > 0;)
            count++;
        SAY("datagrams", "%d of %d", count, sizes[k]);
        close(ends[0]), close(ends[1]);
    }
}

static void datagrams(void) {
    int ends[2];
    made(SOCK_DGRAM, ends);
    TRY(send(ends[0], "hello", 5, 0));
    TRY(send(ends[0], "", 0, 0));
    TRY(send(ends[0], "abc", 3, 0));
    TRY(waiting(ends[1]));
    TRY(get(ends[1], 2, 0));
    TRY(get(ends[1], 9, 0));
    TRY(get(ends[1], 1, MSG_TRUNC));
    TRY(get(ends[1], 1, 0));
    send(ends[0], "two", 3, 0);
    TRY(read(ends[1], buffer, 0));
    TRY(told(ends[1], 1, 0));
    send(ends[0], "two", 3, 0);
    TRY(told(ends[1], 1, MSG_TRUNC));
    send(ends[0], "lost", 4, 0);
    TRY(read(ends[1], BAD, 4));
    TRY(get(ends[1], 9, 0));
    TRY(send(ends[0], zeros, 212960, 0));
    TRY(send(ends[0], zeros, 212961, 0));
    get(ends[1], 9, 0), shutdown(ends[1], SHUT_RD);
    TRY(send(ends[0], "x", 1, 0));
    TRY(get(ends[1], 9, 0));
    close(ends[1]), made(SOCK_DGRAM, ends), close(ends[1]);
    TRY(polled(ends[0]));
    TRY(send(ends[0], "x", 1, 0));
    TRY(send(ends[0], "x", 1, 0));
    TRY(get(ends[0], 1, 0));
    close(ends[0]);
}

static void packets(void) {
    int ends[2];
    made(SOCK_SEQPACKET, ends);
    TRY(send(ends[0], "hello", 5, 0));
    TRY(send(ends[0], "ab", 2, MSG_EOR));
    TRY(waiting(ends[1]));
    TRY(get(ends[1], 2, 0));
    TRY(told(ends[1], 9, 0));
    shutdown(ends[0], SHUT_WR);
    TRY(get(ends[1], 9, 0));
    TRY(send(ends[0], "x", 1, 0));
    TRY(polled(ends[1]));
    close(ends[0]);
    TRY(polled(ends[1]));
    TRY(send(ends[1], "x", 1, 0));
}

static void several(void) {
    struct iovec pieces[3] = {{"a", 1}, {"bb", 2}, {"ccc", 3}};
    struct timespec odd = {0, -1};
    struct mmsghdr messages[3];
    char texts[3][9];
    int ends[2];
    made(SOCK_STREAM, ends), memset(messages, 0, sizeof messages);
    for (int i = 0; i < 3; i++) messages[i].msg_hdr.msg_iov = pieces + i, messages[i].msg_hdr.msg_iovlen = 1;
    TRY(sendmmsg(ends[0], messages, 3, 0));
    SAY("sent", "%d %d", messages[0].msg_len, messages[2].msg_len);
    for (int i = 0; i < 3; i++) pieces[i].iov_base = texts[i], pieces[i].iov_len = 2;
    TRY(recvmmsg(ends[1], messages, 3, MSG_DONTWAIT, 0));
    SAY("received", "%d %d %d", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len);
    TRY(recvmmsg(ends[1], messages, 3, MSG_DONTWAIT, 0));
    TRY(recvmmsg(ends[1], messages, 3, MSG_DONTWAIT, &odd));
}

static int ep;

static void edge(const char *question) {
    struct epoll_event event;
    int count = epoll_wait(ep, &event, 1, 0);
    SAY(question, "%x", count > 0 ? event.events : 0);
}

static void edges(void) {
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {0}};
    int ends[2];
    made(SOCK_STREAM, ends), ep = epoll_create1(0), epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &event);
    edge("new"), write(ends[1], "a", 1), edge("came"), write(ends[1], "a", 1), edge("came again");
    read(ends[0], buffer, 1), edge("read"), read(ends[0], buffer, 1), edge("read all"), write(ends[0], "x", 1);
    edge("sent"), read(ends[1], buffer, 1), edge("the other end read it"), shutdown(ends[1], SHUT_WR);
    edge("it ended"), shutdown(ends[1], SHUT_RD), edge("both directions"), close(ends[1]), edge("closed");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    kinds(), streams(), endings(), room(), datagrams(), packets(), several(), edges();
    return 0;
}
