/*
 * usage: expression < FILE: evaluates one integer expression per line: + - * / % ( ) and unary minus.
 * A line that cannot be read prints an error and makes the exit code 1.
 */
#include "start.h"

static const char *at;
static const char *error;

static int64_t sum(void);

static char peek(void)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return *at;
}

static int64_t factor(void)
{
    char c = peek();
    int64_t value = 0;
    if (c == '-') {
        at++;
        return (int64_t)-(uint64_t)factor();
    }
    if (c == '(') {
        at++;
        value = sum();
        if (peek() == ')')
            at++;
        else if (!error)
            error = "missing )";
        return value;
    }
    if (c < '0' || c > '9') {
        if (!error)
            error = "a number is missing";
        return 0;
    }
    while (*at >= '0' && *at <= '9')
        value = (int64_t)((uint64_t)value * 10 + (uint64_t)(*at++ - '0'));
    return value;
}

static int64_t product(void)
{
    int64_t value = factor();
    for (;;) {
        char c = peek();
        if (c != '*' && c != '/' && c != '%')
            return value;
        at++;
        int64_t right = factor();
        if (c == '*')
            value = (int64_t)((uint64_t)value * (uint64_t)right);
        else if (right == 0)
            error = error ? error : "division by zero";
        else
            value = c == '/' ? value / right : value % right;
    }
}

static int64_t sum(void)
{
    int64_t value = product();
    for (;;) {
        char c = peek();
        if (c != '+' && c != '-')
            return value;
        at++;
        uint64_t right = (uint64_t)product();
        value = (int64_t)(c == '+' ? (uint64_t)value + right : (uint64_t)value - right);
    }
}

static int evaluate(const char *line)
{
    at = line;
    error = 0;
    if (!peek())
        return 0;
    int64_t value = sum();
    if (!error && peek())
        error = "unexpected character";
    if (error) {
        print("error: ");
        print(error);
    } else
        print_number(value);
    print("\n");
    return error != 0;
}

int main(int argc, char **argv)
{
    char line[256], c;
    size_t n = 0;
    int failed = 0;
    (void)argc, (void)argv;
    while (read_some(STDIN, &c, 1) == 1) {
        if (c != '\n') {
            if (n < sizeof line - 1)
                line[n++] = c;
            continue;
        }
        line[n] = 0;
        failed |= evaluate(line);
        n = 0;
    }
    line[n] = 0;
    return failed | evaluate(line);
}
