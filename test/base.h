/*
 * base.h - where tests put their folders: $TMPDIR, else memory, else /tmp. What must
 * outlive the loss of power is not asked of them, so memory will do for a disk.
 */
#ifndef TEST_BASE_H
#define TEST_BASE_H

#include <stdlib.h>
#include <unistd.h>

static inline const char *test_base(void)
{
    const char *base = getenv("TMPDIR");
    if (base != NULL && base[0] != '\0')
        return base;
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

#endif /* TEST_BASE_H */
