/* corpus.c - run each file of a folder through a fuzz target, as a plain test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 20 };

static int run_file(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *whole = malloc(INPUT_MAX);
    if (file == NULL || whole == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    size_t size = fread(whole, 1, INPUT_MAX, file);
    fclose(file);
    uint8_t *exact = malloc(size == 0 ? 1 : size); /* so that a read past the end is seen */
    if (exact == NULL)
        exit(1);
    memcpy(exact, whole, size);
    free(whole);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    int count = 0;
    if (folder == NULL) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            count += run_file(argv[1], entry->d_name);
    closedir(folder);
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
