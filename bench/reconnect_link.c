/* reconnect_link.c - the two threads, their writer threads and the wire. */
#include "bench/reconnect_link.h"

#include "bench/reconnect_data.h"
#include "reconnect/wire.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct timespec time_of(int64_t us)
{
    return (struct timespec){ us / 1000000, us % 1000000 * 1000 };
}

static void sleep_us(double us)
{
    if (us < 1)
        return;
    struct timespec wait = { (time_t)(us / 1e6), (long)(us * 1000) % 1000000000 };
    nanosleep(&wait, NULL);
}

/* A message under way. */
struct parcel {
    struct parcel *next;
    int64_t arrive_us;
    size_t size;
    uint8_t bytes[];
};

struct parcels {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct parcel *first, **last;
    bool closed;
};

static void parcels_init(struct parcels *parcels)
{
    pthread_condattr_t attribute;
    memset(parcels, 0, sizeof(*parcels));
    pthread_condattr_init(&attribute);
    pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
    pthread_mutex_init(&parcels->lock, NULL);
    pthread_cond_init(&parcels->change, &attribute);
    pthread_condattr_destroy(&attribute);
    parcels->last = &parcels->first;
}

static void parcels_add(struct parcels *parcels, struct parcel *parcel)
{
    pthread_mutex_lock(&parcels->lock);
    parcel->next = NULL;
    *parcels->last = parcel;
    parcels->last = &parcel->next;
    pthread_cond_signal(&parcels->change);
    pthread_mutex_unlock(&parcels->lock);
}

static void parcels_close(struct parcels *parcels)
{
    pthread_mutex_lock(&parcels->lock);
    parcels->closed = true;
    pthread_cond_broadcast(&parcels->change);
    pthread_mutex_unlock(&parcels->lock);
}

/* The next one that has arrived, waiting for it until `until_us`. NULL: none
 * came, or the other side closed and `*closed` is set. */
static struct parcel *parcels_take(struct parcels *parcels, int64_t until_us, bool *closed)
{
    struct parcel *parcel = NULL;
    pthread_mutex_lock(&parcels->lock);
    for (;;) {
        int64_t now = now_us();
        parcel = parcels->first;
        if (parcel != NULL && parcel->arrive_us <= now) {
            parcels->first = parcel->next;
            if (parcels->first == NULL)
                parcels->last = &parcels->first;
            break;
        }
        *closed = parcel == NULL && parcels->closed;
        int64_t wake =
            parcel != NULL && parcel->arrive_us < until_us ? parcel->arrive_us : until_us;
        parcel = NULL;
        if (*closed || wake <= now)
            break;
        struct timespec at = time_of(wake);
        pthread_cond_timedwait(&parcels->change, &parcels->lock, &at);
    }
    pthread_mutex_unlock(&parcels->lock);
    return parcel;
}

static void parcels_clear(struct parcels *parcels)
{
    while (parcels->first != NULL) {
        struct parcel *parcel = parcels->first;
        parcels->first = parcel->next;
        free(parcel);
    }
    pthread_mutex_destroy(&parcels->lock);
    pthread_cond_destroy(&parcels->change);
}

/* One direction: what a side gave to its writer, and what came to the other. */
struct way {
    struct parcels given, arrived;
    const struct link_model *model;
    double share; /* of the model's sleeps that a message costs */
    struct java_random storage_random, network_random;
    pthread_t writer;
    int64_t free_us; /* when the wire has sent all before */
};

/* The fuzzed delay: value * (1 + u), u from [-range, range). */
static double fuzzed(struct java_random *random, unsigned us, double range)
{
    return us * (1 + (2 * java_random_double(random) - 1) * range);
}

static void *write_parcels(void *context)
{
    struct way *way = context;
    const struct link_model *model = way->model;
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        bool closed = false;
        struct parcel *parcel = parcels_take(&way->given, INT64_MAX / 2, &closed);
        if (parcel == NULL && closed)
            break;
        if (parcel == NULL)
            continue;
        if (model->network_us > 0)
            sleep_us(way->share *
                     fuzzed(&way->network_random, model->network_us, model->network_fuzz));
        int64_t now = now_us();
        int64_t begin = way->free_us > now ? way->free_us : now;
        way->free_us = begin;
        if (model->bits_second > 0)
            way->free_us += (int64_t)((double)parcel->size * 8e6 / (double)model->bits_second);
        parcel->arrive_us = way->free_us + model->latency_us;
        parcels_add(&way->arrived, parcel);
    }
    parcels_close(&way->arrived);
    return NULL;
}

static void way_init(struct way *way, const struct link_model *model, double share)
{
    memset(way, 0, sizeof(*way));
    parcels_init(&way->given);
    parcels_init(&way->arrived);
    way->model = model;
    way->share = share;
    java_random_init(&way->storage_random, model->seed);
    java_random_init(&way->network_random, -model->seed);
}

/* Give one message to the writer, after the sleep of who sends it. */
static kv_code give(struct way *way, kv_slice bytes)
{
    struct parcel *parcel = malloc(sizeof(*parcel) + bytes.size);
    if (parcel == NULL)
        return KV_NO_MEMORY;
    if (way->model->storage_us > 0)
        sleep_us(way->share * fuzzed(&way->storage_random, way->model->storage_us,
                                     way->model->storage_fuzz));
    parcel->arrive_us = 0;
    parcel->size = bytes.size;
    memcpy(parcel->bytes, bytes.data, bytes.size);
    parcels_add(&way->given, parcel);
    return KV_OK;
}

/* The first whole frame of `bytes`; outputs are whole frames. */
static kv_slice first_frame(kv_slice bytes)
{
    const uint8_t *at = bytes.data;
    if (bytes.size < WIRE_FRAME_HEADER_SIZE)
        return bytes;
    size_t size = ((size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3]) + 4;
    return kv_bytes(at, size < bytes.size ? size : bytes.size);
}

struct teaching {
    struct way *up, *down;
    state *state;
    kv_status status;
};

static void *teach(void *context)
{
    struct teaching *teaching = context;
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    reconnect_teacher *teacher = NULL;
    reconnect_link *link = NULL;
    prctl(PR_SET_TIMERSLACK, 1);
    kv_code code =
        reconnect_teacher_new(teaching->state, &settings, &teacher, &teaching->status);
    if (code == KV_OK)
        code = reconnect_link_new(teacher, now_us(), "learner", &link, &teaching->status);
    bool closed = false;
    while (code == KV_OK && !closed) {
        kv_slice out = first_frame(reconnect_link_output(link, now_us()));
        if (out.size > 0) {
            code = give(teaching->down, out);
            reconnect_link_sent(link, out.size);
        } else if (reconnect_link_over(link, NULL)) {
            break;
        }
        struct parcel *parcel;
        int64_t until = out.size > 0 ? 0 : reconnect_link_wake_us(link);
        while (code == KV_OK &&
               (parcel = parcels_take(&teaching->up->arrived, until, &closed)) != NULL) {
            code = reconnect_link_input(link, now_us(), kv_bytes(parcel->bytes, parcel->size),
                                        &teaching->status);
            free(parcel);
            until = 0;
        }
    }
    parcels_close(&teaching->down->given);
    reconnect_link_free(link);
    reconnect_teacher_free(teacher);
    return NULL;
}

static kv_code learn(struct way *up, struct way *down, reconnect_learner *learner,
                     kv_status *status)
{
    unsigned peer;
    kv_code code = reconnect_learner_join(learner, now_us(), "teacher", &peer, status);
    bool closed = false;
    while (code == KV_OK && reconnect_learner_phase(learner) == RECONNECT_RUNNING) {
        kv_slice out = first_frame(reconnect_learner_output(learner, now_us(), peer));
        if (out.size > 0) {
            code = give(up, out);
            reconnect_learner_sent(learner, peer, out.size);
        }
        int64_t until = out.size > 0 ? 0 : reconnect_learner_wake_us(learner);
        struct parcel *parcel = parcels_take(&down->arrived, until, &closed);
        bool came = parcel != NULL;
        if (came) {
            if (!reconnect_learner_input(learner, now_us(), peer,
                                         kv_bytes(parcel->bytes, parcel->size), status))
                code = status->code;
            free(parcel);
        }
        if (closed)
            reconnect_learner_leave(learner, now_us(), peer, "connection lost");
        else if (!came && out.size == 0)
            reconnect_learner_tick(learner, now_us());
    }
    kv_slice last = reconnect_learner_output(learner, now_us(), peer);
    if (code == KV_OK && last.size > 0)
        code = give(up, last);
    parcels_close(&up->given);
    return code == KV_OK ? reconnect_learner_result(learner, status) : code;
}

kv_code link_run(const struct link_model *model, kv_db *learner_db, state *learner_state,
                 state *teacher_state, const reconnect_goal *goal, reconnect_figures *figures,
                 kv_status *status)
{
    struct way up, down;
    struct teaching teaching = { &up, &down, teacher_state, KV_STATUS_INIT };
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    reconnect_learner *learner;
    kv_code code =
        reconnect_learner_new(learner_db, learner_state, &settings, goal, &learner, status);
    if (code != KV_OK)
        return code;
    reconnect_learner_sole_peer(learner, true);
    way_init(&up, model, model->learner_share);
    way_init(&down, model, 1);
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_t teacher;
    pthread_create(&up.writer, NULL, write_parcels, &up);
    pthread_create(&down.writer, NULL, write_parcels, &down);
    pthread_create(&teacher, NULL, teach, &teaching);
    code = learn(&up, &down, learner, status);
    uint64_t version;
    if (code == KV_OK)
        code = reconnect_learner_switch(learner, &version, status);
    reconnect_learner_measure(learner, figures);
    pthread_join(teacher, NULL);
    pthread_join(up.writer, NULL);
    pthread_join(down.writer, NULL);
    reconnect_learner_free(learner);
    parcels_clear(&up.given);
    parcels_clear(&up.arrived);
    parcels_clear(&down.given);
    parcels_clear(&down.arrived);
    if (code == KV_OK && teaching.status.code != KV_OK)
        code = kv_fail(status, teaching.status.code, "%s", teaching.status.message);
    return code;
}
