/* Runs the Lua script on standard input; an error that it does not catch is a line of the output. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

static char script[1 << 16];

int main(void) {
    size_t size = fread(script, 1, sizeof script, stdin);
    lua_State *lua = luaL_newstate();
    if (!lua)
        return 2;
    luaL_openlibs(lua);
    int failed = luaL_loadbuffer(lua, script, size, "=script") || lua_pcall(lua, 0, 0, 0);
    if (failed)
        printf("error: %s\n", lua_tostring(lua, -1));
    lua_close(lua);
    return failed;
}
