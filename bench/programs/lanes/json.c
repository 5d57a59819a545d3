/* Parses JSON, a document a line, into trees of allocated nodes, and prints what a walk of each tree finds:
   values, depth, sum of the numbers, and a hash with the members of objects sorted by name. Of a line that is
   no JSON it prints where the error is. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { WORD, NUMBER, STRING, ARRAY, OBJECT } Kind;

typedef struct Node {
    Kind kind;
    char *name, *text;
    double number;
    size_t size, room;
    struct Node **items;
} Node;

typedef struct {
    size_t values, deepest;
    double sum;
    uint64_t hash;
} Walk;

static const char *at;

static Node *value(void);

static void skip(void) { at += strspn(at, " \t\r\n"); }

static void release(Node *node) {
    if (!node)
        return;
    for (size_t i = 0; i < node->size; i++)
        release(node->items[i]);
    free(node->items);
    free(node->name);
    free(node->text);
    free(node);
}

static void add_utf8(char **to, unsigned code) {
    if (code < 0x80) {
        *(*to)++ = (char)code;
    } else if (code < 0x800) {
        *(*to)++ = (char)(0xC0 | code >> 6);
        *(*to)++ = (char)(0x80 | (code & 0x3F));
    } else {
        *(*to)++ = (char)(0xE0 | code >> 12);
        *(*to)++ = (char)(0x80 | (code >> 6 & 0x3F));
        *(*to)++ = (char)(0x80 | (code & 0x3F));
    }
}

static char *string(void) {
    if (*at != '"')
        return NULL;
    const char *end = at + 1;
    while (*end && *end != '"')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    if (!*end)
        return NULL;
    char *text = malloc((size_t)(end - at)), *to = text;
    for (at++; at < end; at++) {
        const char *escapes = "\"\\/bfnrt", *found;
        unsigned code;
        if (*at != '\\') {
            *to++ = *at;
        } else if ((found = strchr(escapes, *++at))) {
            *to++ = "\"\\/\b\f\n\r\t"[found - escapes];
        } else if (sscanf(at, "u%4x", &code) == 1) {
            add_utf8(&to, code);
            at += 4;
        } else {
            free(text);
            return NULL;
        }
    }
    at++;
    *to = 0;
    return text;
}

static int add(Node *node, Node *item) {
    if (node->size == node->room) {
        node->room = node->room ? 2 * node->room : 4;
        node->items = realloc(node->items, node->room * sizeof *node->items);
    }
    return (node->items[node->size++] = item) != NULL;
}

static Node *item(Kind kind) {
    if (kind == ARRAY)
        return value();
    skip();
    char *name = string();
    skip();
    if (!name || *at != ':') {
        free(name);
        return NULL;
    }
    at++;
    Node *node = value();
    if (node)
        node->name = name;
    else
        free(name);
    return node;
}

/* Fills an array or object; whether it ended as it must. */
static int items(Node *node, char last) {
    at++;
    skip();
    if (*at == last)
        return at++, 1;
    while (add(node, item(node->kind))) {
        skip();
        if (*at == last)
            return at++, 1;
        if (*at++ != ',')
            return at--, 0;
    }
    return node->size--, 0;
}

static int word(Node *node) {
    static const char *words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (!strncmp(at, words[i], strlen(words[i]))) {
            node->text = strdup(words[i]);
            at += strlen(words[i]);
            return 1;
        }
    return 0;
}

static int number(Node *node) {
    char *end;
    node->number = strtod(at, &end);
    int found = end != at;
    at = end;
    return found;
}

static Node *value(void) {
    Node *node = calloc(1, sizeof *node);
    int right;
    skip();
    if (*at == '{') {
        node->kind = OBJECT;
        right = items(node, '}');
    } else if (*at == '[') {
        node->kind = ARRAY;
        right = items(node, ']');
    } else if (*at == '"') {
        node->kind = STRING;
        right = (node->text = string()) != NULL;
    } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
        node->kind = NUMBER;
        right = number(node);
    } else {
        node->kind = WORD;
        right = word(node);
    }
    if (right)
        return node;
    release(node);
    return NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(Node *const *)a)->name, (*(Node *const *)b)->name);
}

static void mix(Walk *walk, const void *bytes, size_t size) {
    for (const unsigned char *byte = bytes; size--; byte++)
        walk->hash = (walk->hash ^ *byte) * 0x100000001b3;
}

static void walk(Walk *found, Node *node, size_t depth) {
    found->values++;
    if (depth > found->deepest)
        found->deepest = depth;
    mix(found, &node->kind, 1);
    if (node->name)
        mix(found, node->name, strlen(node->name) + 1);
    if (node->text)
        mix(found, node->text, strlen(node->text) + 1);
    if (node->kind == NUMBER) {
        found->sum += node->number;
        mix(found, &node->number, sizeof node->number);
    }
    if (node->kind == OBJECT)
        qsort(node->items, node->size, sizeof *node->items, by_name);
    for (size_t i = 0; i < node->size; i++)
        walk(found, node->items[i], depth + 1);
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        at = line;
        Node *document = value();
        skip();
        if (document && !*at) {
            Walk found = {.hash = 0xcbf29ce484222325};
            walk(&found, document, 1);
            printf("%zu values, %zu deep, sum %.6g, %016llx\n", found.values, found.deepest, found.sum,
                   (unsigned long long)found.hash);
        } else {
            printf("error at %td\n", at - line);
        }
        release(document);
    }
    free(line);
    return 0;
}
