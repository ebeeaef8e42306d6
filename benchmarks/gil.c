// Counts how often a process releases the GIL, and how long its threads hold it; see gil.py. It is preloaded, so that
// all shared libraries call these functions, libpython among them. What the interpreter itself gives to other threads
// between two bytecodes is not seen, so "held" is an upper bound.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

// Changed by the thread that holds the GIL.
static long long releases, held;
static __thread long long since;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void *PyEval_SaveThread(void) {
    static void *(*save)(void);
    if (!save) save = (void *(*)(void))dlsym(RTLD_NEXT, "PyEval_SaveThread");
    if (since) held += now() - since;
    since = 0;
    ++releases;
    return save();
}

void PyEval_RestoreThread(void *state) {
    static void (*restore)(void *);
    if (!restore) restore = (void (*)(void *))dlsym(RTLD_NEXT, "PyEval_RestoreThread");
    restore(state);
    since = now();
}

long long gil_releases(void) { return releases; }

long long gil_held(void) { return held + (since ? now() - since : 0); }
