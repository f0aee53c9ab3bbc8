/* engine_damage.c - reading tables until one is damaged. */
#include "drivers/engine_damage.h"

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What is read to find out: seconds of a large database, not minutes. */
#define DAMAGE_READ_MAX (UINT64_C(4) << 30)

bool engine_is_table(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".ldb") == 0 || strcmp(dot, ".sst") == 0);
}

static void look(struct engine_damage *damage, const char *dir,
                 bool (*is_damaged)(const char *path))
{
    DIR *stream = opendir(dir);
    uint64_t left = DAMAGE_READ_MAX;
    const struct dirent *entry;
    while (stream != NULL && damage->name[0] == '\0' && (entry = readdir(stream)) != NULL) {
        char path[PATH_MAX];
        struct stat info;
        if (!engine_is_table(entry->d_name) ||
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= (int)sizeof(path) ||
            stat(path, &info) != 0 || (uint64_t)info.st_size > left)
            continue;
        left -= (uint64_t)info.st_size;
        if (is_damaged(path))
            snprintf(damage->name, sizeof(damage->name), "%s", entry->d_name);
    }
    if (stream != NULL)
        closedir(stream);
}

const char *engine_damage_find(struct engine_damage *damage, const char *dir,
                               bool (*is_damaged)(const char *path))
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (!damage->looked)
        look(damage, dir, is_damaged);
    damage->looked = true;
    pthread_mutex_unlock(&mutex);
    return damage->name[0] != '\0' ? damage->name : NULL;
}
