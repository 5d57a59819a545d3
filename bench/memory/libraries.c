/* Debian's static libraries at work, for traces: built with -DUSE_name and -lname, one program for each.
 * sqlite3 runs the SQL of standard input, lua its script; z, bz2, lzma and zstd compress it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[8 << 20], packed[9 << 20];

#if defined USE_sqlite3
#include <sqlite3.h>
static int row(void *seen, int n, char **v, char **names) { for (int i = 0; i < n; i++) printf("%s ", v[i] ? v[i] : ""); puts(""); return 0; }
static long work(size_t n) { sqlite3 *db; return sqlite3_open(":memory:", &db) || sqlite3_exec(db, text, row, 0, 0); }
#elif defined USE_lua
#include <lauxlib.h>
#include <lualib.h>
static long work(size_t n) { lua_State *l = luaL_newstate(); luaL_openlibs(l); return luaL_dostring(l, text); }
#elif defined USE_z
#include <zlib.h>
static long work(size_t n) { uLongf m = sizeof packed; compress2((void *)packed, &m, (void *)text, n, 6); return (long)m; }
#elif defined USE_bz2
#include <bzlib.h>
static long work(size_t n) { unsigned m = sizeof packed; BZ2_bzBuffToBuffCompress(packed, &m, text, n, 9, 0, 0); return m; }
#elif defined USE_lzma
#include <lzma.h>
static long work(size_t n) { size_t m = 0; lzma_easy_buffer_encode(4, LZMA_CHECK_CRC32, 0, (void *)text, n, (void *)packed, &m, sizeof packed); return (long)m; }
#elif defined USE_zstd
#include <zstd.h>
static long work(size_t n) { return (long)ZSTD_compress(packed, sizeof packed, text, n, 5); }
#endif

int main(void) { size_t n = fread(text, 1, sizeof text - 1, stdin); printf("%ld\n", work(n)); return 0; }
