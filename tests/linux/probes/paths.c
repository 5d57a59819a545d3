/* Every call that takes a path, for every way to write one; and every pair of names for those that take two.
   What the call has changed in its directory is part of the answer. */
#include "probe.h"
#include <dirent.h>
#include <sys/statfs.h>

static char before[1024], after[1024];
static char longest[300];
static int home;

static void list(char *to, const char *directory) {
    struct dirent **entries;
    int count = scandir(directory, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        int kind = entries[i]->d_type;
        char path[300];
        if (!strcmp(name, ".") || !strcmp(name, ".."))
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, name);
        sprintf(to + strlen(to), " %s%s", path + 2, kind == DT_DIR ? "/" : kind == DT_LNK ? "@" : "");
        if (kind == DT_DIR)
            list(to, path);
    }
}

/* A file, a full directory, an empty one, links to each, a link to nothing, and a loop of links. */
static void furnish(void) {
    static int number;
    char name[20];
    sprintf(name, "t%d", number++);
    mkdir(name, 0755);
    chdir(name);
    put("f", "text");
    mkdir("d", 0755);
    put("d/x", "");
    mkdir("e", 0755);
    symlink("f", "lf");
    symlink("d", "ld");
    symlink("e", "le");
    symlink("f/", "lf-slash");
    symlink("e/", "le-slash");
    symlink("nothing", "dangling");
    symlink("nothing/", "dangling-slash");
    symlink("e/new", "outside");
    symlink("loop", "loop");
    before[0] = 0;
    list(before, ".");
    home = open(".", O_PATH);
}

/* The next call has this directory too, unless this one has changed it. */
static void finish(const char *function, const char *call, const char *path, long result, int error) {
    after[0] = 0;
    list(after, ".");
    int changed = strcmp(before, after);
    printf("%s: %s %s = ", function, call, *path ? path : "''");
    result == -1 && error ? printf("-1 %s", strerrorname_np(error)) : printf("%ld", result);
    puts(changed ? after : "");
    if (changed) {
        close(home);
        chdir("..");
        furnish();
    }
}

static struct stat st;
static char buffer[4096];

#define CALL(name, call) \
    static long name(const char *p) { return call; }
CALL(do_stat, stat(p, &st))
CALL(do_lstat, lstat(p, &st))
CALL(do_access, access(p, F_OK))
CALL(do_statfs, statfs(p, (struct statfs *)buffer))
CALL(do_open, opened(open(p, O_RDONLY)))
CALL(do_open_write, opened(open(p, O_WRONLY)))
CALL(do_open_create, opened(open(p, O_RDWR | O_CREAT, 0644)))
CALL(do_open_create_read, opened(open(p, O_RDONLY | O_CREAT, 0644)))
CALL(do_open_exclusive, opened(open(p, O_RDWR | O_CREAT | O_EXCL, 0644)))
CALL(do_open_create_nofollow, opened(open(p, O_RDWR | O_CREAT | O_NOFOLLOW, 0644)))
CALL(do_open_directory, opened(open(p, O_RDONLY | O_DIRECTORY)))
CALL(do_open_directory_create, opened(open(p, O_RDONLY | O_DIRECTORY | O_CREAT, 0644)))
CALL(do_open_nofollow, opened(open(p, O_RDONLY | O_NOFOLLOW)))
CALL(do_open_path, opened(open(p, O_PATH)))
CALL(do_open_path_nofollow, opened(open(p, O_PATH | O_NOFOLLOW)))
CALL(do_open_tmpfile, opened(open(p, O_TMPFILE | O_RDWR, 0644)))
CALL(do_truncate, truncate(p, 2))
CALL(do_chdir, chdir(p) ? -1 : fchdir(home))
CALL(do_mkdir, mkdir(p, 0755))
CALL(do_mknod, mknod(p, S_IFREG | 0644, 0))
CALL(do_unlink, unlink(p))
CALL(do_rmdir, rmdir(p))
CALL(do_symlink, symlink("target", p))
CALL(do_link_from, link(p, "hard"))
CALL(do_link_follow, linkat(AT_FDCWD, p, AT_FDCWD, "hard", AT_SYMLINK_FOLLOW))
CALL(do_link_to, link("f", p))
CALL(do_rename_from, rename(p, "new-name"))
CALL(do_rename_file_to, rename("f", p))
CALL(do_rename_directory_to, rename("e", p))
CALL(do_rename_noreplace_to, syscall(SYS_renameat2, AT_FDCWD, "e", AT_FDCWD, p, 1))
CALL(do_readlink, readlink(p, buffer, sizeof buffer))
CALL(do_chmod, chmod(p, 0755))
CALL(do_chown, chown(p, -1, -1))
CALL(do_lchown, lchown(p, -1, -1))
CALL(do_utimes, utimensat(AT_FDCWD, p, NULL, 0))
CALL(do_utimes_nofollow, utimensat(AT_FDCWD, p, NULL, AT_SYMLINK_NOFOLLOW))

#define ROW(name) {#name, do_##name}
static const struct {
    const char *name;
    long (*call)(const char *);
} calls[] = {
    ROW(stat), ROW(lstat), ROW(access), ROW(statfs), ROW(open), ROW(open_write), ROW(open_create),
    ROW(open_create_read), ROW(open_exclusive), ROW(open_create_nofollow), ROW(open_directory),
    ROW(open_directory_create), ROW(open_nofollow), ROW(open_path), ROW(open_path_nofollow), ROW(open_tmpfile),
    ROW(truncate), ROW(chdir), ROW(mkdir), ROW(mknod), ROW(unlink), ROW(rmdir), ROW(symlink), ROW(link_from),
    ROW(link_follow), ROW(link_to), ROW(rename_from), ROW(rename_file_to), ROW(rename_directory_to),
    ROW(rename_noreplace_to), ROW(readlink), ROW(chmod), ROW(chown), ROW(lchown), ROW(utimes),
    ROW(utimes_nofollow),
};

static const char *const spellings[] = {
    "f", "f/", "f/.", "f/..", "f/x", "d", "d/", "d//", "d/.", "d/..", "e", "e/", "e/.", "e/..", "e/../e/",
    "lf", "lf/", "lf-slash", "lf-slash/", "ld", "ld/", "ld/x", "ld/x/", "le", "le/", "le/.", "le/..", "le-slash",
    "le-slash/", "dangling", "dangling/", "dangling-slash", "dangling-slash/", "dangling/x", "outside", "outside/",
    "loop", "loop/", "loop/x", "missing", "missing/", "missing/.", "missing/x", "d/new", "d/new/", "ld/new", ".",
    "./", "..", "../", "/", "//", "", longest,
};

static void one_path(void) {
    for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++)
        for (int s = 0; s < (int)(sizeof spellings / sizeof *spellings); s++) {
            const char *path = spellings[s];
            if (*path == '/' && strchr("cu", *calls[c].name))
                continue; /* it would change the machine's root */
            errno = 0;
            long result = calls[c].call(path);
            int error = errno;
            finish(__func__, calls[c].name, path == longest ? "long" : path, result, error);
        }
}

static void two_paths(void) {
    static const char *const names[] = {"f", "f/", "d", "d/", "e", "e/", "e/new", "d/x", "lf", "lf/", "ld", "ld/",
                                        "le", "le/", "dangling", "dangling/", "loop", "missing", "missing/", "e/.."};
    int count = sizeof names / sizeof *names;
    for (int flags = 0; flags < 3; flags++)
        for (int a = 0; a < count; a++)
            for (int b = 0; b < count; b++) {
                char pair[100];
                errno = 0;
                long result = syscall(SYS_renameat2, AT_FDCWD, names[a], AT_FDCWD, names[b], flags);
                int error = errno;
                sprintf(pair, "%s %s %d", names[a], names[b], flags);
                finish(__func__, "rename", pair, result, error);
            }
}

int main(void) {
    memset(longest, 'a', sizeof longest - 1);
    furnish();
    one_path();
    two_paths();
}
