/* Runs the SQL on standard input, a statement a line, in a database in memory, and prints all rows. */
#include <sqlite3.h>
#include <stdio.h>

static int print_row(void *unused, int columns, char **values, char **names) {
    (void)unused, (void)names;
    for (int i = 0; i < columns; i++)
        printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
    putchar('\n');
    return 0;
}

int main(void) {
    static char line[1 << 14];
    sqlite3 *database;
    if (sqlite3_open(":memory:", &database) != SQLITE_OK)
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        char *error = NULL;
        if (sqlite3_exec(database, line, print_row, NULL, &error) != SQLITE_OK)
            printf("error: %s\n", error);
        sqlite3_free(error);
    }
    printf("%d changes\n", sqlite3_total_changes(database));
    sqlite3_close(database);
    return 0;
}
