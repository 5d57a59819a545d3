/* Programs whose addresses no stride foretells, for traces: irregular MODE [SEED], all with about 16 MB of data.
 * list: sort a linked list, then walk it; tree: a binary search tree; hash: a chained hash table;
 * graph: breadth-first search; sparse: matrix times vector, rows compressed; heap: a priority queue. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ULL;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }

typedef struct node { struct node *next; uint64_t key; uint64_t pad[2]; } node;
static node *merge(node *a, node *b) {
    node head, *t = &head;
    while (a && b) { if (a->key <= b->key) { t->next = a; a = a->next; } else { t->next = b; b = b->next; } t = t->next; }
    t->next = a ? a : b;
    return head.next;
}
static node *sort(node *l) {
    if (!l || !l->next) return l;
    node *slow = l, *fast = l->next;
    while (fast && fast->next) { slow = slow->next; fast = fast->next->next; }
    node *other = slow->next; slow->next = 0;
    return merge(sort(l), sort(other));
}
static uint64_t list(int n) {
    node *l = 0; uint64_t s = 0;
    for (int i = 0; i < n; i++) { node *p = malloc(sizeof *p); p->key = next(); p->next = l; l = p; }
    l = sort(l);
    for (int r = 0; r < 4; r++) for (node *p = l; p; p = p->next) s += p->key * r;
    return s;
}

typedef struct leaf { struct leaf *left, *right; uint64_t key, count; } leaf;
static uint64_t tree(int n) {
    leaf *root = 0; uint64_t s = 0;
    for (int i = 0; i < 3 * n; i++) {
        uint64_t key = next() % n; leaf **p = &root;
        while (*p && (*p)->key != key) p = key < (*p)->key ? &(*p)->left : &(*p)->right;
        if (!*p) { *p = calloc(1, sizeof **p); (*p)->key = key; }
        s += ++(*p)->count;
    }
    return s;
}

static uint64_t hash(int n) {
    node **table = calloc(n, sizeof *table); uint64_t s = 0;
    for (int i = 0; i < 4 * n; i++) {
        uint64_t key = next() % (2 * n), h = key * 0x9E3779B97F4A7C15ULL % n; node *p = table[h];
        while (p && p->key != key) p = p->next;
        if (!p) { p = malloc(sizeof *p); p->key = key; p->pad[0] = 0; p->next = table[h]; table[h] = p; }
        s += ++p->pad[0];
    }
    return s;
}

static uint64_t graph(int n) {
    uint32_t *edges = malloc(8 * n * 4), *queue = malloc(n * 4), *level = malloc(n * 4); uint64_t s = 0;
    for (int i = 0; i < 8 * n; i++) edges[i] = next() % n;
    for (int r = 0; r < 3; r++) {
        memset(level, 0xff, n * 4); uint32_t head = 0, tail = 0; queue[tail++] = r; level[r] = 0;
        while (head < tail) {
            uint32_t v = queue[head++];
            for (int k = 0; k < 8; k++) { uint32_t w = edges[8 * v + k]; if (level[w] == ~0u) { level[w] = level[v] + 1; queue[tail++] = w; } }
        }
        s += level[n - 1] + tail;
    }
    return s;
}

static uint64_t sparse(int n) {
    uint32_t *column = malloc(8 * n * 4); double *value = malloc(8 * n * 8), *x = malloc(n * 8), *y = malloc(n * 8);
    for (int i = 0; i < 8 * n; i++) { column[i] = next() % n; value[i] = (double)(next() & 255); }
    for (int i = 0; i < n; i++) x[i] = i;
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < n; i++) { double t = 0; for (int k = 8 * i; k < 8 * i + 8; k++) t += value[k] * x[column[k]]; y[i] = t; }
        for (int i = 0; i < n; i++) x[i] = y[i] / 1024;
    }
    return (uint64_t)x[n / 2];
}

static uint64_t heap(int n) {
    uint64_t *h = malloc((n + 1) * 8), s = 0; int size = 0;
    for (int i = 0; i < 4 * n; i++) {
        if (size < n && (i < n || (next() & 1))) {
            int k = ++size; uint64_t v = next();
            while (k > 1 && h[k / 2] > v) { h[k] = h[k / 2]; k /= 2; }
            h[k] = v;
        } else if (size) {
            s += h[1]; uint64_t v = h[size--]; int k = 1;
            while (2 * k <= size) { int c = 2 * k; if (c < size && h[c + 1] < h[c]) c++; if (h[c] >= v) break; h[k] = h[c]; k = c; }
            h[k] = v;
        }
    }
    return s;
}

int main(int argc, char **argv) {
    static const struct { const char *name; uint64_t (*run)(int); int n; } modes[] = {
        {"list", list, 200000}, {"tree", tree, 200000}, {"hash", hash, 200000},
        {"graph", graph, 200000}, {"sparse", sparse, 120000}, {"heap", heap, 500000}};
    if (argc > 2) state += strtoull(argv[2], 0, 10);
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        if (argc > 1 && !strcmp(argv[1], modes[i].name)) { printf("%s %016llx\n", argv[1], (unsigned long long)modes[i].run(modes[i].n)); return 0; }
    return 2;
}
