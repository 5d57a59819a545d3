/* Parses JSON, a document a line, and prints of each: values, deepest nesting, sum of numbers, bytes of
   strings, hash of strings. A parser as programs have them: recursive, with the C library's getline, strtod,
   malloc and printf. A line that is no JSON gives the position of the error. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at;
    int depth;
    int deepest;
    long values;
    long bytes;
    double sum;
    uint32_t hash;
} Parse;

static void skip(Parse *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

static int hex(const char *at) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *found = at[i] ? strchr(digits, at[i] | 32) : NULL;
        if (!found)
            return -1;
        value = 16 * value + (int)(found - digits);
    }
    return value;
}

static int string(Parse *p) {
    const char *end = p->at + 1;
    while (*end && *end != '"')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    if (!*end)
        return 0;
    char *text = malloc(end - p->at), *to = text;
    for (p->at++; p->at < end; p->at++) {
        if (*p->at != '\\') {
            *to++ = *p->at;
            continue;
        }
        const char *escape = "\"\\/bfnrt", *found = strchr(escape, *++p->at);
        if (found)
            *to++ = "\"\\/\b\f\n\r\t"[found - escape];
        else if (*p->at == 'u' && hex(p->at + 1) >= 0 && hex(p->at + 1) < 128) {
            *to++ = (char)hex(p->at + 1);
            p->at += 4;
        } else {
            free(text);
            return 0;
        }
    }
    p->bytes += to - text;
    for (const char *c = text; c < to; c++)
        p->hash = (p->hash ^ (unsigned char)*c) * 16777619u;
    free(text);
    p->at = end + 1;
    return 1;
}

static int value(Parse *p);

static int members(Parse *p, char end, int named) {
    p->at++;
    if (++p->depth > p->deepest)
        p->deepest = p->depth;
    skip(p);
    while (*p->at != end) {
        if (named) {
            if (*p->at != '"' || !string(p))
                return 0;
            skip(p);
            if (*p->at++ != ':')
                return 0;
        }
        if (!value(p))
            return 0;
        skip(p);
        if (*p->at == end)
            break;
        if (*p->at++ != ',')
            return 0;
        skip(p);
        if (*p->at == end)
            return 0;
    }
    p->at++;
    p->depth--;
    return 1;
}

static int value(Parse *p) {
    static const char *const words[] = {"true", "false", "null"};
    skip(p);
    p->values++;
    if (*p->at == '{' || *p->at == '[')
        return members(p, *p->at == '{' ? '}' : ']', *p->at == '{');
    if (*p->at == '"')
        return string(p);
    for (int i = 0; i < 3; i++)
        if (strncmp(p->at, words[i], strlen(words[i])) == 0) {
            p->at += strlen(words[i]);
            return 1;
        }
    char *end;
    double number = strtod(p->at, &end);
    if (end == p->at)
        return 0;
    p->sum += number;
    p->at = end;
    return 1;
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        Parse p = {.at = line, .hash = 2166136261u};
        int good = value(&p);
        skip(&p);
        if (good && !*p.at)
            printf("%ld %d %.4f %ld %08x\n", p.values, p.deepest, p.sum, p.bytes, (unsigned)p.hash);
        else
            printf("error at %ld\n", (long)(p.at - line));
    }
    free(line);
    return 0;
}
