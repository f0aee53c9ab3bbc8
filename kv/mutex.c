/* mutex.c - glibc's adaptive mutex. */
#include "kv/mutex.h"

int kv_mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    int failed = pthread_mutexattr_init(&attributes);
    if (failed != 0)
        return failed;
    failed = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    if (failed == 0)
        failed = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return failed;
}
