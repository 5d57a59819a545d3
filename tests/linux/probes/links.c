/* Names of open files, files without names, removed directories, and what /proc/self/fd says of them. */
#include "probe.h"
#include <dirent.h>

static char top[1000];

static const char *shown(int fd) {
    static char text[1200];
    char path[40];
    sprintf(path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, text, sizeof text - 1);
    if (length < 0)
        return strerrorname_np(errno);
    text[length] = 0;
    char *number = strstr(text, "/#");
    if (number) /* the inode of a file without a name */
        strcpy(number, "/#N (deleted)");
    return strncmp(text, top, strlen(top)) ? text : text + strlen(top);
}
#define SHOWN(fd) SAY(#fd, "%s", shown(fd))

static long links_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? -1 : (long)st.st_nlink;
}

static void renaming(void) {
    put("a", "a");
    put("b", "b");
    mkdir("d", 0755);
    int a = open("a", O_RDWR), b = open("b", O_RDONLY), d = open("d", O_RDONLY), path = open("a", O_PATH);
    SHOWN(a);
    TRY(rename("a", "d/c"));
    SHOWN(a);
    SHOWN(path);
    TRY(rename("d", "e"));
    SHOWN(a);
    SHOWN(d);
    TRY(syscall(SYS_renameat2, AT_FDCWD, "e/c", AT_FDCWD, "b", 2));
    SHOWN(a);
    SHOWN(b);
    TRY(rename("b", "e/c"));
    SHOWN(a);
    SHOWN(b);
    TRY(links_of(a));
    TRY(links_of(b));
    put("b", "new");
    SHOWN(b);
    TRY(link("e/c", "second"));
    TRY(unlink("e/c"));
    SHOWN(a);
    TRY(links_of(a));
    TRY(rename("second", "third"));
    SHOWN(a);
    TRY(unlink("third"));
    TRY(links_of(a));
    TRY(fchmod(a, 0600));
    TRY(write(a, "more", 4));
    char again[40];
    sprintf(again, "/proc/self/fd/%d", a);
    int reopened = open(again, O_RDONLY);
    SHOWN(reopened);
    char text[10] = "";
    TRY(read(reopened, text, 9));
    SAY("text", "%s", text);
    TRY(linkat(AT_FDCWD, again, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
    TRY(linkat(a, "", AT_FDCWD, "back", AT_EMPTY_PATH));
    TRY(truncate(again, 1));
    TRY(chmod(again, 0644));
    TRY(opened(open(again, O_RDONLY | O_NOFOLLOW)));
    TRY(opened(open(again, O_RDONLY | O_DIRECTORY)));
    TRY(unlink(again));
    TRY(rename(again, "x"));
    close(a), close(b), close(d), close(path), close(reopened);
    TRY(syscall(SYS_renameat2, AT_FDCWD, "b", AT_FDCWD, "white", 4));
    struct stat st;
    TRY(stat("b", &st));
    SAY("whiteout", "%o %lx", st.st_mode & S_IFMT, (long)st.st_rdev);
    TRY(opened(open("b", O_RDONLY)));
    TRY(unlink("b"));
}

static void without_names(void) {
    char path[40];
    int fd = open(".", O_TMPFILE | O_RDWR, 0640), alone = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0640);
    SHOWN(fd);
    TRY(links_of(fd));
    TRY(write(fd, "temporary", 9));
    sprintf(path, "/proc/self/fd/%d", fd);
    TRY(link(path, "wrong"));
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "dir/none", AT_SYMLINK_FOLLOW));
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    TRY(links_of(fd));
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "twice", AT_SYMLINK_FOLLOW));
    TRY(links_of(fd));
    TRY(unlink("named"));
    TRY(unlink("twice"));
    TRY(links_of(fd));
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    sprintf(path, "/proc/self/fd/%d", alone);
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    TRY(opened(open(".", O_TMPFILE | O_RDONLY, 0600)));
    TRY(opened(open(".", (O_TMPFILE & ~O_DIRECTORY) | O_RDWR, 0600)));
    TRY(opened(open("f", O_TMPFILE | O_RDWR, 0600)));
    TRY(opened(open("missing", O_TMPFILE | O_RDWR, 0600)));
    TRY(opened(open(".", O_TMPFILE | O_RDWR | O_CREAT, 0600)));
    int empty = open(".", O_TMPFILE | O_WRONLY, 0600);
    TRY(linkat(empty, "", AT_FDCWD, "empty", AT_EMPTY_PATH));
    TRY(links_of(empty));
    close(fd), close(alone), close(empty);
}

static void removed_directories(void) {
    char buffer[1000];
    mkdir("gone", 0755);
    mkdir("gone/below", 0755);
    int fd = open("gone", O_RDONLY), below = open("gone/below", O_RDONLY);
    TRY(rmdir("gone"));
    TRY(rmdir("gone/below"));
    TRY(links_of(below));
    TRY(links_of(fd));
    TRY(rmdir("gone"));
    TRY(links_of(fd));
    SHOWN(fd);
    SHOWN(below);
    mkdir("gone", 0755);
    TRY(opened(openat(fd, "x", O_CREAT | O_RDWR, 0600)));
    TRY(opened(openat(fd, ".", O_RDONLY)));
    TRY(opened(openat(below, "..", O_RDONLY)));
    TRY(mkdirat(fd, "x", 0700));
    TRY(symlinkat("x", fd, "x"));
    TRY(linkat(AT_FDCWD, "empty", fd, "x", 0));
    TRY(renameat(AT_FDCWD, "empty", fd, "x"));
    TRY(mknodat(fd, "x", S_IFREG | 0600, 0));
    TRY(opened(openat(fd, ".", O_TMPFILE | O_RDWR, 0600)));
    TRY(unlinkat(fd, "x", 0));
    TRY(getdents64(fd, buffer, sizeof buffer));
    TRY(fchmod(fd, 0700));
    TRY(fchdir(fd));
    TRY(syscall(SYS_getcwd, buffer, sizeof buffer));
    TRY(opened(open("x", O_CREAT | O_RDWR, 0600)));
    TRY(opened(open(".", O_RDONLY)));
    TRY(chdir(".."));
    TRY(access("gone", F_OK));
    TRY(mkdirat(AT_FDCWD, "gone/x", 0700));
    TRY(faccessat(fd, "x", F_OK, 0));
    /* replaced by a rename */
    mkdir("old", 0755), mkdir("new", 0755);
    int old = open("old", O_RDONLY);
    TRY(rename("new", "old"));
    TRY(links_of(old));
    SHOWN(old);
    TRY(opened(openat(old, "x", O_CREAT | O_RDWR, 0600)));
    close(fd), close(below), close(old);
}

static int count(int fd, int most) {
    char buffer[400];
    int found = 0, length;
    while (most-- && (length = getdents64(fd, buffer, sizeof buffer)) > 0)
        for (int at = 0; at < length; at += ((struct dirent64 *)(buffer + at))->d_reclen)
            found++;
    return found;
}

static void listing(void) {
    mkdir("many", 0755);
    char name[300];
    for (int i = 0; i < 100; i++) {
        sprintf(name, "many/%d", i);
        put(name, "");
    }
    int fd = open("many", O_RDONLY);
    TRY(count(fd, -1));
    TRY(count(fd, -1));
    TRY(lseek(fd, 0, SEEK_SET));
    put("many/new", "");
    TRY(count(fd, -1));
    TRY(lseek(fd, 0, SEEK_SET));
    int some = count(fd, 3);
    off_t here = lseek(fd, 0, SEEK_CUR);
    int rest = count(fd, -1);
    SAY("all", "%d", some + rest);
    TRY(lseek(fd, here, SEEK_SET) == here);
    TRY(count(fd, -1) == rest);
    /* what is removed on the way is seen once at most, and all goes */
    DIR *dir = opendir("many");
    int removed = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (*e->d_name != '.') {
            sprintf(name, "many/%s", e->d_name);
            removed += !unlink(name);
        }
    closedir(dir);
    SAY("removed", "%d", removed);
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(count(fd, -1));
    TRY(rmdir("many"));
    TRY(getdents64(fd, (void *)8, 400));
    close(fd);
    put("f", "");
    fd = open("f", O_RDONLY);
    TRY(getdents64(fd, name, sizeof name));
    close(fd);
    struct stat st;
    mkdir("parent", 0755), mkdir("parent/a", 0755), mkdir("parent/b", 0755);
    stat("parent", &st);
    SAY("links of a directory", "%ld", (long)st.st_nlink);
    rename("parent/a", "a2");
    stat("parent", &st);
    SAY("links of a directory", "%ld", (long)st.st_nlink);
    rmdir("parent/b");
    stat("parent", &st);
    SAY("links of a directory", "%ld", (long)st.st_nlink);
}

static void moved_here(void) {
    mkdir("w", 0755), mkdir("w/x", 0755), mkdir("v", 0755);
    int below = open("w/x", O_RDONLY);
    TRY(chdir("w/x"));
    TRY(rename("../../w", "../../v/y"));
    char buffer[1200];
    TRY(syscall(SYS_getcwd, buffer, sizeof buffer) > 0);
    SAY("here", "%s", buffer + strlen(top));
    put("file", "");
    TRY(access("../../../v/y/x/file", F_OK));
    TRY(opened(openat(below, "../../y/x/file", O_RDONLY)));
    SHOWN(below);
    TRY(chdir("../../.."));
    TRY(rename("v/y/x", "v/y/x/z"));
    TRY(rename("v", "v/y/v"));
    TRY(syscall(SYS_renameat2, AT_FDCWD, "v", AT_FDCWD, "v/y", 2));
    TRY(syscall(SYS_renameat2, AT_FDCWD, "v/y", AT_FDCWD, "v", 2));
    TRY(rename("v/y", "v"));
    TRY(syscall(SYS_renameat2, AT_FDCWD, "v/y", AT_FDCWD, "a2", 2));
    TRY(access("a2/x/file", F_OK));
    SHOWN(below);
    TRY(fchdir(below));
    TRY(chdir("../.."));
    TRY(access("v/y", F_OK));
}

/* a path of more than PATH_MAX bytes */
static void far_below(void) {
    char name[201], buffer[5000];
    memset(name, 'd', 200), name[200] = 0;
    for (int i = 0; i < 21; i++)
        mkdir(name, 0700), chdir(name);
    TRY(syscall(SYS_getcwd, buffer, 100));
    TRY(syscall(SYS_getcwd, buffer, sizeof buffer));
    for (int i = 0; i < 21; i++)
        chdir(".."), rmdir(name);
    TRY(syscall(SYS_getcwd, buffer, 2));
}

int main(void) {
    getcwd(top, sizeof top);
    put("f", "");
    renaming();
    without_names();
    removed_directories();
    listing();
    moved_here();
    far_below();
}
