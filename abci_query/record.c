/* record.c - the recorder: a bounded queue and a thread that writes it. */
#include "abci_query/record.h"

#include "abci_query/gor.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { QUEUE_MAX = 64 << 20, KEEP = 4 << 20 };

struct query_recorder {
    gzFile file;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct query_buffer queue;   /* under the lock */
    struct query_buffer writing; /* the thread's */
    struct query_buffer record;  /* under the lock: one record being made */
    uint64_t serial, dropped;
    bool ending, failed;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *write_queue(void *context)
{
    struct query_recorder *recorder = context;
    pthread_mutex_lock(&recorder->lock);
    while (!recorder->ending || recorder->queue.size > 0) {
        if (recorder->queue.size == 0) {
            pthread_cond_wait(&recorder->wake, &recorder->lock);
            continue;
        }
        struct query_buffer full = recorder->queue;
        recorder->queue = recorder->writing;
        recorder->writing = full;
        pthread_mutex_unlock(&recorder->lock);
        bool good = gzwrite(recorder->file, full.data, (unsigned)full.size) == (int)full.size;
        query_buffer_reset(&recorder->writing, KEEP);
        pthread_mutex_lock(&recorder->lock);
        recorder->failed = recorder->failed || !good;
    }
    pthread_mutex_unlock(&recorder->lock);
    return NULL;
}

kv_code query_recorder_open(const char *path, struct query_recorder **out, kv_status *status)
{
    *out = NULL;
    struct query_recorder *recorder = calloc(1, sizeof(*recorder));
    if (recorder == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a recorder");
    size_t size = strlen(path);
    bool packed = size > 3 && strcmp(path + size - 3, ".gz") == 0;
    errno = 0;
    recorder->file = gzopen(path, packed ? "ab1e" : "abTe");
    if (recorder->file == NULL) {
        free(recorder);
        return kv_fail(status, KV_IO, "query.record %s: %s", path,
                       errno == 0 ? "out of memory" : strerror(errno));
    }
    pthread_mutex_init(&recorder->lock, NULL);
    pthread_cond_init(&recorder->wake, NULL);
    int fault = pthread_create(&recorder->thread, NULL, write_queue, recorder);
    if (fault != 0) {
        gzclose(recorder->file);
        free(recorder);
        return kv_fail(status, KV_INTERNAL, "thread: %s", strerror(fault));
    }
    *out = recorder;
    return KV_OK;
}

void query_recorder_close(struct query_recorder *recorder)
{
    if (recorder == NULL)
        return;
    pthread_mutex_lock(&recorder->lock);
    recorder->ending = true;
    pthread_cond_signal(&recorder->wake);
    pthread_mutex_unlock(&recorder->lock);
    pthread_join(recorder->thread, NULL);
    if (gzclose(recorder->file) != Z_OK || recorder->failed)
        fprintf(stderr, "statekv: the recording could not be written whole\n");
    pthread_mutex_destroy(&recorder->lock);
    pthread_cond_destroy(&recorder->wake);
    query_buffer_clear(&recorder->queue);
    query_buffer_clear(&recorder->writing);
    query_buffer_clear(&recorder->record);
    free(recorder);
}

/* A request as it would be sent to get this answer: its framing is ours (a chunked
 * body gets a length), of its headers those that matter here are kept. */
static void write_request(struct query_buffer *out, const struct query_http_recorded *what)
{
    const struct query_http_request *request = what->request;
    query_buffer_text(out, what->method);
    query_buffer_literal(out, " ");
    query_buffer_slice(out, what->url);
    query_buffer_literal(out, " HTTP/1.1\r\nHost: ");
    query_buffer_slice(out, request->headers[QUERY_HTTP_HOST]);
    query_buffer_literal(out, "\r\n");
    if (request->body.size > 0) {
        query_buffer_literal(out, "Content-Type: application/json\r\nContent-Length: ");
        query_buffer_unsigned(out, request->body.size);
        query_buffer_literal(out, "\r\n");
    }
    query_buffer_literal(out, "\r\n");
    query_buffer_slice(out, request->body);
}

static void record(void *context, const struct query_http_recorded *what)
{
    struct query_recorder *recorder = context;
    char id[25];
    int64_t now = now_ns();
    pthread_mutex_lock(&recorder->lock);
    if (recorder->queue.size + what->answer.size + what->request->body.size > QUEUE_MAX) {
        recorder->dropped++;
        pthread_mutex_unlock(&recorder->lock);
        return;
    }
    snprintf(id, sizeof(id), "%08llx%016llx",
             (unsigned long long)(now / 1000000000) & 0xffffffff,
             (unsigned long long)recorder->serial++);
    struct query_gor_record entry = { .type = QUERY_GOR_REQUEST,
                                      .id = kv_bytes(id, 24),
                                      .timestamp_ns = now - what->latency_ns,
                                      .latency_ns = -1 };
    query_buffer_reset(&recorder->record, KEEP);
    write_request(&recorder->record, what);
    entry.bytes = kv_bytes(recorder->record.data, recorder->record.size);
    query_gor_write(&recorder->queue, &entry);
    entry.type = QUERY_GOR_RESPONSE;
    entry.timestamp_ns = now;
    entry.latency_ns = what->latency_ns;
    entry.bytes = what->answer;
    query_gor_write(&recorder->queue, &entry);
    pthread_cond_signal(&recorder->wake);
    pthread_mutex_unlock(&recorder->lock);
}

void query_recorder_attach(struct query_recorder *recorder, struct query_http *http)
{
    if (recorder == NULL)
        return;
    http->handler.record = record;
    http->handler.record_context = recorder;
}

uint64_t query_recorder_dropped(struct query_recorder *recorder)
{
    if (recorder == NULL)
        return 0;
    pthread_mutex_lock(&recorder->lock);
    uint64_t dropped = recorder->dropped;
    pthread_mutex_unlock(&recorder->lock);
    return dropped;
}
