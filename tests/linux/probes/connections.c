/* Names of sockets, connections within the process, open files and credentials that messages bring, options. */
#include "probe.h"
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BAD ((void *)8)
#define NOW SOCK_NONBLOCK
#pragma GCC diagnostic ignored "-Wnonnull" /* bad pointers and counts are what is asked about */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

static char buffer[2000];

/* A path, or with "@" an abstract name. */
static socklen_t address(struct sockaddr_un *name, const char *text) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    strcpy(name->sun_path, text);
    if (*text != '@')
        return offsetof(struct sockaddr_un, sun_path) + strlen(text) + 1;
    name->sun_path[0] = 0;
    return offsetof(struct sockaddr_un, sun_path) + strlen(text);
}

static long bound(int fd, const char *text) {
    struct sockaddr_un name;
    socklen_t length = address(&name, text);
    return bind(fd, (void *)&name, length);
}

static long connected(int fd, const char *text) {
    struct sockaddr_un name;
    socklen_t length = address(&name, text);
    return connect(fd, (void *)&name, length);
}

static long sent_to(int fd, const char *text) {
    struct sockaddr_un name;
    socklen_t length = address(&name, text);
    return sendto(fd, "x", 1, 0, (void *)&name, length);
}

static void named(const char *question, int fd, int peer) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    memset(&name, 0x55, sizeof name);
    if (peer ? getpeername(fd, (void *)&name, &length) : getsockname(fd, (void *)&name, &length))
        SAY(question, "%s", strerrorname_np(errno));
    else if (length > 2 && !name.sun_path[0])
        SAY(question, "%d @%.*s", length, length - 3, name.sun_path + 1);
    else
        SAY(question, "%d %d %.*s", length, name.sun_family, length - 2, name.sun_path);
}

static int new(int kind) { return socket(AF_UNIX, kind | NOW, 0); }
static long received(int fd) { return recv(fd, buffer, 100, 0); }

static long polled(int fd) {
    struct pollfd entry = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    return poll(&entry, 1, 0) < 0 ? -1 : entry.revents;
}

static void names(void) {
    struct sockaddr_un name = {AF_UNIX, ""};
    struct stat status;
    int fd = new(SOCK_STREAM), other = new(SOCK_STREAM);
    socklen_t length = sizeof name;
    named("none", fd, 0), named("no other end", fd, 1);
    TRY(listen(fd, 1));
    TRY(bound(fd, "socket"));
    TRY(stat("socket", &status));
    SAY("mode", "%o", status.st_mode);
    named("a path", fd, 0);
    TRY(bound(fd, "another"));
    TRY(access("another", F_OK));
    TRY(bound(other, "socket"));
    put("file", "x");
    TRY(bound(other, "file"));
    TRY(bound(other, "nothing/x"));
    TRY(bind(other, (void *)&name, 1));
    TRY(bind(other, (void *)&name, 111));
    TRY(bind(other, (void *)&name, 129));
    TRY(bind(other, (void *)&name, -1));
    TRY(bind(other, BAD, 10));
    name.sun_family = AF_INET;
    TRY(bind(other, (void *)&name, 10));
    name.sun_family = AF_UNIX;
    TRY(bind(other, (void *)&name, 2));
    getsockname(other, (void *)&name, &length);
    SAY("any name", "%d %d", length, name.sun_path[0]);
    TRY(open("socket", O_RDWR));
    TRY(bound(new(SOCK_STREAM), "@name"));
    fd = new(SOCK_STREAM);
    TRY(bound(fd, "@other"));
    TRY(bound(new(SOCK_STREAM), "@other"));
    TRY(bound(new(SOCK_DGRAM), "@other"));
    named("abstract", fd, 0), length = 4;
    TRY(getsockname(fd, (void *)&name, &length));
    SAY("cut", "%d", length);
    TRY(getsockname(fd, BAD, &length));
    TRY(getsockname(fd, (void *)&name, BAD));
    length = -1;
    TRY(getsockname(fd, (void *)&name, &length));
    close(fd);
    TRY(bound(new(SOCK_STREAM), "@other"));
}

static void listening(void) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    int fd = new(SOCK_STREAM), client = new(SOCK_STREAM), second = new(SOCK_STREAM), third = new(SOCK_STREAM);
    bound(fd, "server");
    TRY(connected(client, "server"));
    TRY(listen(fd, 1));
    TRY(polled(fd));
    TRY(accept4(fd, 0, 0, 0));
    TRY(connected(client, "nothing"));
    TRY(connected(client, "file"));
    TRY(connected(client, "."));
    TRY(connected(new(SOCK_SEQPACKET), "server"));
    TRY(connected(client, "server"));
    named("client", client, 0), named("its other end", client, 1);
    TRY(polled(client));
    TRY(polled(fd));
    TRY(send(client, "early", 5, 0));
    TRY(connected(second, "server"));
    TRY(connected(third, "server"));
    TRY(accept4(fd, 0, 0, 4));
    int server = accept4(fd, (void *)&name, &length, NOW | SOCK_CLOEXEC);
    SAY("accepted", "%d length %d flags %d %d", server > 0, length, fcntl(server, F_GETFD), fcntl(server, F_GETFL) & O_NONBLOCK);
    named("server", server, 0), named("its other end", server, 1);
    TRY(received(server));
    TRY(connected(client, "server"));
    TRY(connected(third, "server"));
    TRY(accept4(client, 0, 0, 0));
    TRY(accept4(new(SOCK_DGRAM), 0, 0, 0));
    TRY(listen(new(SOCK_DGRAM), 1));
    TRY(listen(client, 1));
    TRY(received(fd));
    TRY(send(fd, "x", 1, 0));
    TRY(opened(accept(fd, 0, 0)));
    TRY(opened(accept(fd, 0, BAD)));
    TRY(connected(fd, "server"));
    connected(new(SOCK_STREAM), "server"), third = new(SOCK_STREAM), connected(third, "server"), close(fd);
    ASK("the server is closed", polled(third));
    TRY(received(third));
    TRY(received(third));
    TRY(connected(new(SOCK_STREAM), "server"));
    unlink("server");
    TRY(connected(new(SOCK_STREAM), "server"));
    fd = new(SOCK_STREAM), bound(fd, "@server"), listen(fd, 0);
    TRY(connected(new(SOCK_STREAM), "@server"));
    TRY(connected(new(SOCK_STREAM), "@server"));
    TRY(connected(new(SOCK_STREAM), "@nothing"));
    close(fd);
    TRY(connected(new(SOCK_STREAM), "@server"));
}

static void letters(void) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    int to = new(SOCK_DGRAM), from = new(SOCK_DGRAM), queued = 0;
    bound(to, "box");
    TRY(sent_to(from, "box"));
    TRY(recvfrom(to, buffer, 9, 0, (void *)&name, &length));
    TRY(length);
    bound(from, "sender"), sent_to(from, "box"), length = 5;
    TRY(recvfrom(to, buffer, 9, 0, (void *)&name, &length));
    SAY("from", "%d %.2s", length, name.sun_path);
    TRY(sendto(from, "x", 1, 0, (void *)&name, 0));
    TRY(sent_to(from, "nothing"));
    TRY(connected(from, "box"));
    TRY(send(from, "x", 1, 0));
    TRY(sent_to(from, "box"));
    while (send(from, "x", 1, 0) > 0)
        queued++;
    SAY("queued", "%d", queued);
    TRY(polled(from));
    TRY(connected(to, "sender"));
    TRY(sent_to(new(SOCK_DGRAM), "box"));
    name.sun_family = AF_UNSPEC;
    TRY(connect(from, (void *)&name, 2));
    TRY(send(from, "x", 1, 0));
    close(to);
    TRY(sent_to(from, "box"));
}

/* Sends bytes with open files. */
static long give(int fd, int count, const int *files, const char *text) {
    static char control[CMSG_SPACE(4 * 300)];
    struct iovec piece = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(4 * count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(4 * count);
    memcpy(CMSG_DATA(header), files, 4 * count);
    return sendmsg(fd, &message, 0);
}

static int got[300];

static void take(const char *question, int fd, size_t size, size_t room, int flags) {
    static char control[1400];
    struct iovec piece = {buffer, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
    long result = recvmsg(fd, &message, flags);
    char text[400] = "";
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
        int count = (h->cmsg_len - CMSG_LEN(0)) / 4;
        sprintf(text + strlen(text), " [%d length %zd", h->cmsg_type, (size_t)h->cmsg_len);
        if (h->cmsg_type == SCM_RIGHTS)
            memcpy(got, CMSG_DATA(h), 4 * count);
        for (int i = 0; h->cmsg_type == SCM_RIGHTS && i < count; i++)
            strcat(text, fcntl(got[i], F_GETFD) < 0 ? " closed" : fcntl(got[i], F_GETFD) ? " cloexec" : " open");
        struct ucred *who = (void *)CMSG_DATA(h);
        if (h->cmsg_type == SCM_CREDENTIALS)
            sprintf(text + strlen(text), " %d %d", who->pid == getpid(), who->uid == getuid());
        strcat(text, "]");
    }
    SAY(question, "%ld flags %x control %zd%s", result, message.msg_flags, (size_t)message.msg_controllen, text);
}

static long control(int fd, int level, int type, size_t length, const void *body, size_t size) {
    char space[64] = {0};
    struct iovec piece = {buffer, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *header = (void *)space;
    header->cmsg_level = level, header->cmsg_type = type, header->cmsg_len = length;
    memcpy(CMSG_DATA(header), body, size);
    return sendmsg(fd, &message, 0);
}

static void rights(void) {
    int ends[2], ends_of_pipe[2], many[300], none = 99;
    socketpair(AF_UNIX, SOCK_STREAM | NOW, 0, ends), pipe2(ends_of_pipe, O_NONBLOCK);
    TRY(give(ends[0], 2, ends_of_pipe, "ab"));
    send(ends[0], "cd", 2, 0), take("with two", ends[1], 10, 200, 0), take("after them", ends[1], 10, 200, 0);
    close(ends_of_pipe[0]), close(ends_of_pipe[1]);
    TRY(write(got[1], "through", 7));
    TRY(read(got[0], buffer, 9));
    ends_of_pipe[0] = got[0], ends_of_pipe[1] = got[1];
    give(ends[0], 2, ends_of_pipe, "ab"), take("room for one", ends[1], 10, CMSG_LEN(4), 0);
    give(ends[0], 2, ends_of_pipe, "ab"), take("no room", ends[1], 10, 0, 0);
    give(ends[0], 1, ends_of_pipe, "ab");
    TRY(read(ends[1], buffer, 9));
    give(ends[0], 1, ends_of_pipe, "ab"), take("looked at", ends[1], 1, 100, MSG_PEEK);
    take("taken", ends[1], 1, 100, MSG_CMSG_CLOEXEC), take("the rest", ends[1], 1, 100, 0);
    TRY(give(ends[0], 1, &none, "a"));
    for (int i = 0; i < 300; i++) many[i] = ends_of_pipe[0];
    TRY(give(ends[0], 254, many, "a"));
    TRY(give(ends[0], 253, many, "a"));
    take("room for three", ends[1], 9, CMSG_LEN(12), 0);
    TRY(give(ends[0], 1, ends, "a"));
    TRY(give(ends[0], 1, ends_of_pipe, ""));
    give(ends[0], 1, ends_of_pipe, "1"), give(ends[0], 1, ends_of_pipe, "2");
    take("not joined", ends[1], 9, 200, 0), take("the second", ends[1], 9, 200, 0), take("the third", ends[1], 9, 200, 0);
    TRY(control(ends[0], SOL_SOCKET, SCM_RIGHTS, 5, "", 0));
    TRY(control(ends[0], SOL_SOCKET, 99, CMSG_LEN(4), ends, 4));
    TRY(control(ends[0], 0, 99, CMSG_LEN(4), ends, 4));
    pipe2(ends_of_pipe, O_NONBLOCK), give(ends[0], 1, ends_of_pipe + 1, "lost"), close(ends_of_pipe[1]);
    TRY(read(ends_of_pipe[0], buffer, 1));
    close(ends[0]), close(ends[1]);
    ASK("the last writer was in a message", read(ends_of_pipe[0], buffer, 1));
}

static void credentials(void) {
    struct ucred who = {0};
    socklen_t length = sizeof who;
    int ends[2], on = 1;
    socketpair(AF_UNIX, SOCK_STREAM | NOW, 0, ends);
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, &who, &length));
    SAY("the other end", "%d %d %d", who.pid == getpid(), who.uid == getuid(), length);
    TRY(getsockopt(new(SOCK_STREAM), SOL_SOCKET, SO_PEERCRED, &who, &length));
    SAY("none", "%d %d", who.pid, who.uid);
    TRY(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, 4));
    send(ends[0], "x", 1, 0), take("passed", ends[1], 9, 200, 0), on = 0;
    setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, 4), who = (struct ucred){getpid(), getuid(), getgid()};
    TRY(control(ends[0], SOL_SOCKET, SCM_CREDENTIALS, CMSG_LEN(sizeof who), &who, sizeof who));
    take("not asked for", ends[1], 9, 200, 0);
    TRY(control(ends[0], SOL_SOCKET, SCM_CREDENTIALS, CMSG_LEN(4), &who, 4));
}

static long option(int fd, int name) {
    int value = -77;
    socklen_t length = 4;
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) ? -1 : value;
}

static long set(int fd, int name, int value) { return setsockopt(fd, SOL_SOCKET, name, &value, 4); }

static void options(void) {
    static const int all[] = {SO_DEBUG, SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_DONTROUTE, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF,
        SO_KEEPALIVE, SO_OOBINLINE, SO_PRIORITY, SO_PASSCRED, SO_RCVLOWAT, SO_SNDLOWAT, SO_TIMESTAMP, SO_ACCEPTCONN,
        SO_PROTOCOL, SO_DOMAIN, SO_PASSSEC, 99, -1};
    struct timeval time = {2, 500};
    struct linger linger = {1, 5};
    socklen_t length = sizeof time;
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int i = 0; i < 21; i++) {
        char question[30];
        sprintf(question, "option %d", all[i]), ASK(question, option(ends[0], all[i]));
        sprintf(question, "set option %d", all[i]), ASK(question, set(ends[0], all[i], 1));
        sprintf(question, "option %d then", all[i]), ASK(question, option(ends[0], all[i]));
    }
    TRY(set(ends[1], SO_SNDBUF, 10000));
    TRY(option(ends[1], SO_SNDBUF));
    TRY(set(ends[1], SO_RCVBUF, 0));
    TRY(option(ends[1], SO_RCVBUF));
    TRY(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, &length));
    SAY("limit", "%ld %d", (long)time.tv_sec, time.tv_usec >= 500);
    time = (struct timeval){0, 1000000};
    TRY(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    TRY(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, 4));
    time.tv_usec = 20000, setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    ASK("until the limit", received(ends[0]));
    TRY(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    length = sizeof linger, linger.l_linger = 0, getsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, &length);
    SAY("linger", "%d %d", linger.l_onoff, linger.l_linger);
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, BAD, &length));
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, buffer, BAD));
    length = -1;
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, buffer, &length));
    length = 2;
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, buffer, &length));
    length = 100;
    TRY(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, buffer, &length));
    TRY(length);
    TRY(setsockopt(ends[0], SOL_SOCKET, SO_REUSEADDR, buffer, 3));
    TRY(setsockopt(ends[0], SOL_SOCKET, SO_REUSEADDR, BAD, 4));
    TRY(getsockopt(ends[0], 0, 1, buffer, &length));
    TRY(setsockopt(ends[0], 6, 1, buffer, 4));
}

static void bad_arguments(void) {
    struct iovec piece = {buffer, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1025};
    int ends[2], file = open("file", O_RDONLY);
    socketpair(AF_UNIX, SOCK_STREAM | NOW, 0, ends);
    TRY(recvmsg(ends[0], BAD, 0));
    TRY(sendmsg(ends[0], &message, 0));
    message.msg_iovlen = 0;
    TRY(sendmsg(ends[0], &message, 0));
    message.msg_iovlen = 1, message.msg_iov = BAD;
    TRY(sendmsg(ends[0], &message, 0));
    message.msg_iov = &piece, piece.iov_base = BAD;
    TRY(sendmsg(ends[0], &message, 0));
    piece.iov_base = buffer, message.msg_control = buffer, message.msg_controllen = 1 << 30;
    TRY(sendmsg(ends[0], &message, 0));
    message.msg_controllen = 0, message.msg_name = buffer, message.msg_namelen = -1;
    TRY(sendmsg(ends[0], &message, 0));
    message.msg_name = 0, message.msg_namelen = 0;
    TRY(sendmsg(ends[0], &message, 0x80000000));
    TRY(getsockopt(file, SOL_SOCKET, SO_TYPE, buffer, BAD));
    TRY(bind(file, BAD, 10));
    TRY(listen(file, 1));
    TRY(received(file));
    TRY(listen(99, 1));
    TRY(shutdown(file, 9));
}

static void edges(void) {
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {0}}, found;
    int fd = new(SOCK_STREAM), client = new(SOCK_STREAM), ep = epoll_create1(0);
#define EDGE(question) SAY(question, "%x", epoll_wait(ep, &found, 1, 0) > 0 ? found.events : 0)
    bound(fd, "@edge"), listen(fd, 5), epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
    EDGE("listening");
    connected(new(SOCK_STREAM), "@edge");
    EDGE("a caller");
    connected(new(SOCK_STREAM), "@edge");
    EDGE("another");
    opened(accept(fd, 0, 0));
    EDGE("accepted");
    epoll_ctl(ep, EPOLL_CTL_ADD, client, &event);
    EDGE("not connected");
    connected(client, "@edge");
    EDGE("connected");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    names(), listening(), letters(), rights(), credentials(), options(), bad_arguments(), edges();
    return 0;
}
