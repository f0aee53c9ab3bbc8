/*
 * inject.h - make the n-th allocation, or the n-th call of a kind to the system,
 * fail. The linker puts __wrap_x before x in everything linked statically: in our
 * own code and in the engines (the --wrap options in CMakeLists.txt).
 */
#ifndef TEST_FAULT_INJECT_H
#define TEST_FAULT_INJECT_H

enum inject_kind {
    INJECT_ALLOCATION,
    INJECT_OPEN,
    INJECT_READ,
    INJECT_WRITE,
    INJECT_SYNC,
    INJECT_RENAME,
    INJECT_KINDS
};

extern const char *const inject_names[INJECT_KINDS];

/* Let the `nth` call of `kind` from now on (1 is the next) fail with `error`; with
 * `stay` all later ones too. 0 lets all pass and counts. */
void inject_start(enum inject_kind kind, unsigned long nth, int error, int stay);
unsigned long inject_stop(void); /* the calls of that kind since */

#endif /* TEST_FAULT_INJECT_H */
