/*
 * load.h - a client that sends requests over many connections and times the answers:
 * behind `statekv load`, `statekv replay` and the suite `query`.
 *
 * A source says what to send, when, and whether an answer is good; the engine owns
 * connections, time and figures. A request that is due at a given time is timed from
 * then, also when no connection was free: a slow server cannot hide by slowing us
 * down. Only good answers enter the latencies; everything else is an error by kind.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "abci_query/buffer.h"
#include "bench/histogram.h"

enum {
    LOAD_CONNECTIONS_MAX = 60000,
    LOAD_KINDS_MAX = 32,       /* kinds of errors told apart */
    LOAD_KIND_SIZE = 160,      /* bytes of an error's text */
    LOAD_BODY_MAX = 256 << 20, /* bytes of an answer */
    LOAD_SAMPLES_MAX = 4096    /* seconds sampled for the RPS row */
};

/* http://HOST:PORT/PATH or unix://PATH, taken apart. */
struct load_url {
    char host[256]; /* for the Host header, with its port */
    char name[256]; /* to resolve, or the socket's path */
    char path[1024];
    uint16_t port;
    bool local;
};

KV_MUST_CHECK kv_code load_url_parse(const char *text, struct load_url *out, kv_status *status);

struct load_request {
    kv_slice wire;   /* the whole request; copied before the next call */
    uint64_t due_ns; /* after the start; 0: as soon as a connection is free */
    uint64_t token;  /* the source's own */
    bool head;       /* a HEAD request: its answer has no body */
};

struct load_response {
    unsigned status;
    kv_slice body; /* LOAD: QUERY_BUFFER_PADDING bytes after it are readable */
    uint64_t latency_ns;
};

struct load_source {
    void *context;
    /* Fill in the next request; false: there are no more. */
    bool (*next)(void *context, struct load_request *out);
    /* NULL if the answer is good, else what is wrong with it, in a few words. The
     * text lasts until the next call. */
    const char *(*check)(void *context, uint64_t token, const struct load_response *response);
};

struct load_config {
    struct load_url url;
    size_t connections;
    uint64_t requests_max; /* 0: no end */
    uint64_t duration_ns;  /* 0: no end */
    uint64_t timeout_ns;   /* for an answer */
};

struct load_kind {
    uint64_t count;
    char text[LOAD_KIND_SIZE];
};

struct load_result {
    uint64_t elapsed_ns;
    uint64_t still_ns; /* of it, this process did not run: stopped, or starved */
    uint64_t count;    /* requests that ended, well or not */
    uint64_t good;
    uint64_t statuses[6]; /* by hundreds, of answers that came */
    uint64_t bytes_read, bytes_written;
    uint64_t connections_served;    /* connections with at least one good answer */
    struct bench_histogram latency; /* of good answers */
    double latency_sum_ns, latency_squares;
    size_t kind_count;
    struct load_kind kinds[LOAD_KINDS_MAX];
    size_t sample_count; /* good answers in each whole second */
    uint64_t samples[LOAD_SAMPLES_MAX];
};

/* Called about five times a second with the figures so far. */
typedef void (*load_progress)(void *context, const struct load_result *so_far);

/* Run until the source, the requests or the duration end, or *stop. `result` may be
 * large: allocate it. */
KV_MUST_CHECK kv_code load_run(const struct load_config *config,
                               const struct load_source *source, const volatile bool *stop,
                               load_progress progress, void *context,
                               struct load_result *result, kv_status *status);

/* ---- Reports ------------------------------------------------------------ */

/* A line of a histogram in few bins. */
struct load_bin {
    uint64_t mean_ns, count;
};
/* Merge the closest until at most `limit` are left; returns how many. */
size_t load_bins(const struct bench_histogram *histogram, struct load_bin *out, size_t limit);

/* plow's report as text, and as JSON. */
void load_report_text(const struct load_config *config, const struct load_result *result,
                      struct query_buffer *out);
void load_report_json(const struct load_config *config, const struct load_result *result,
                      struct query_buffer *out);

/* ---- One request, sent again and again ---------------------------------- */

struct load_json; /* checks answers of JSON-RPC */

/*
 * A source that sends one request. Answers must have a status of 200 to 299 and
 * contain `expect` (empty: anything); where the body sent is JSON-RPC, or the answer
 * says it is, an error, a wrong id, a code that is not 0 or "version does not exist"
 * are errors.
 */
struct load_fixed {
    struct query_buffer wire;
    kv_slice expect;
    double rate; /* a second; 0: as fast as answers come */
    uint64_t sent;
    bool head;
    struct load_json *json;
    struct query_buffer last_good; /* an answer equal to it needs no other check */
    char text[LOAD_KIND_SIZE];
};

KV_MUST_CHECK kv_code load_fixed_init(struct load_fixed *fixed, const struct load_url *url,
                                      const char *method, const char *content_type,
                                      const char *const *headers, size_t header_count,
                                      kv_slice body, kv_status *status);
void load_fixed_clear(struct load_fixed *fixed);
struct load_source load_fixed_source(struct load_fixed *fixed);

/* Check JSON-RPC answers. `request` may be empty; then any id will do. */
struct load_json *load_json_new(kv_slice request);
void load_json_free(struct load_json *json);
/* NULL when the answer is good; `must` be JSON-RPC, or only if it looks so. */
const char *load_json_check(struct load_json *json, kv_slice body, bool must, char *text);

#endif /* BENCH_LOAD_H */
