/* pair.c - two states and a wire between them. */
#include "pair.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void require_failed(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

static const kv_option_table *const tables[] = { &state_option_table, NULL };

#define MUST(call)                                                      \
    do {                                                                \
        kv_status must_status = KV_STATUS_INIT;                         \
        kv_status *status = &must_status;                               \
        REQUIRE((call) == KV_OK, "%s: %s", #call, must_status.message); \
    } while (0)

/* ---- A side ------------------------------------------------------------- */

static void open_both(struct side *side)
{
    MUST(kv_open(side->options, KV_CREATE, &side->db, status));
    MUST(state_open(side->db, side->options, KV_CREATE, &side->state, status));
}

void side_open(struct side *side, const char *driver, const char *page_bits)
{
    memset(side, 0, sizeof(*side));
    snprintf(side->driver, sizeof(side->driver), "%s", driver);
    snprintf(side->dir, sizeof(side->dir), "/tmp/reconnect-XXXXXX");
    bool memory = strcmp(driver, "memory") == 0;
    if (memory)
        side->dir[0] = '\0';
    else
        REQUIRE(mkdtemp(side->dir) != NULL, "no folder");
    MUST(kv_options_new(driver, side->dir, tables, &side->options, status));
    if (page_bits != NULL)
        MUST(kv_options_set(side->options, "vmap.page_bits", page_bits, status));
    open_both(side);
}

static void close_both(struct side *side)
{
    MUST(state_close(side->state, status));
    MUST(kv_close(side->db, status));
}

void side_reopen(struct side *side)
{
    close_both(side);
    open_both(side);
}

void side_open_at(struct side *side, const char *driver, const char *dir)
{
    memset(side, 0, sizeof(*side));
    MUST(kv_options_new(driver, dir, tables, &side->options, status));
    open_both(side);
}

void side_shut(struct side *side)
{
    close_both(side);
    kv_options_free(side->options);
}

void side_close(struct side *side)
{
    close_both(side);
    kv_options_free(side->options);
    if (side->dir[0] != '\0') {
        char command[128];
        snprintf(command, sizeof(command), "rm -rf '%s'", side->dir);
        REQUIRE(system(command) == 0, "%s", command);
    }
}

vmap *side_map(struct side *side, const char *map)
{
    vmap *out;
    MUST(state_map_open(side->state, map, KV_CREATE, &out, status));
    return out;
}

static kv_slice make_key(uint64_t key, uint8_t bytes[8])
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(key >> (56 - 8 * i));
    return kv_bytes(bytes, 8);
}

void side_put(struct side *side, const char *map, uint64_t key, uint64_t value)
{
    uint8_t bytes[8];
    char text[64];
    snprintf(text, sizeof(text), "value %llu of the pair", (unsigned long long)value);
    MUST(vmap_put(side_map(side, map), make_key(key, bytes), kv_text(text), status));
}

void side_delete(struct side *side, const char *map, uint64_t key)
{
    uint8_t bytes[8];
    MUST(vmap_delete(side_map(side, map), make_key(key, bytes), status));
}

void side_fill(struct side *side, const char *map, uint64_t first, uint64_t limit,
               uint64_t salt)
{
    side_map(side, map);
    for (uint64_t key = first; key < limit; key++)
        side_put(side, map, key, key + salt);
}

uint64_t side_commit(struct side *side)
{
    uint64_t version = 0;
    MUST(state_commit(side->state, 0, &version, status));
    return version;
}

/* ---- The wire ----------------------------------------------------------- */

/* Bytes under way in one direction, cut into frames for the filter. */
struct direction {
    struct wire_frames frames; /* whole ones pass */
    struct wire_out ready;     /* and stand here until they arrive */
    int64_t arrive_us;
    size_t number;
    uint64_t carried;
};

static void pass(struct wire *wire, struct direction *direction, bool to_learner,
                 kv_slice bytes, int64_t now_us)
{
    unsigned type;
    kv_slice body;
    REQUIRE(wire_frames_add(&direction->frames, bytes) == KV_OK, "no memory");
    while (wire_frames_next(&direction->frames, &type, &body, NULL) == KV_OK) {
        uint8_t *copy = malloc(body.size + 1);
        if (body.size > 0)
            memcpy(copy, body.data, body.size);
        struct frame frame = {
            to_learner, type, direction->number++, copy, body.size, NULL, 1
        };
        if (wire->filter != NULL)
            wire->filter(wire->context, &frame);
        const uint8_t *sent = frame.grown != NULL ? frame.grown : frame.body;
        for (unsigned i = 0; i < frame.copies; i++) {
            size_t begin = wire_frame_begin(&direction->ready, (enum wire_type)frame.type);
            wire_put(&direction->ready, sent, frame.size);
            wire_frame_end(&direction->ready, begin);
        }
        if (direction->ready.size > 0 && direction->arrive_us == 0)
            direction->arrive_us = now_us + wire->latency_us;
        free(frame.grown);
        free(copy);
    }
}

struct run {
    struct wire *wire;
    reconnect_learner *learner;
    reconnect_teacher *teacher;
    reconnect_link *link;
    unsigned peer;
    struct direction up, down;
    int64_t now_us;
    bool hung_up;
};

static bool move_up(struct run *run)
{
    bool moved = false;
    for (;;) {
        kv_slice out = reconnect_learner_output(run->learner, run->now_us, run->peer);
        if (out.size == 0)
            break;
        pass(run->wire, &run->up, false, out, run->now_us);
        reconnect_learner_sent(run->learner, run->peer, out.size);
        moved = true;
    }
    if (run->up.ready.size == 0 || run->up.arrive_us > run->now_us ||
        !reconnect_link_hungry(run->link))
        return moved;
    size_t size = run->up.ready.size;
    if (run->wire->chunk > 0 && size > run->wire->chunk)
        size = run->wire->chunk;
    kv_code code = reconnect_link_input(
        run->link, run->now_us, kv_bytes(run->up.ready.data, size), &run->wire->teacher_status);
    REQUIRE(code == KV_OK || run->wire->teacher_status.code == code,
            "a fault without a reason");
    wire_out_drop(&run->up.ready, size);
    if (run->up.ready.size == 0)
        run->up.arrive_us = 0;
    return true;
}

static bool move_down(struct run *run)
{
    bool moved = false;
    kv_slice out = reconnect_link_output(run->link, run->now_us);
    if (out.size > 0) {
        pass(run->wire, &run->down, true, out, run->now_us);
        reconnect_link_sent(run->link, out.size);
        moved = true;
    }
    if (run->down.ready.size == 0 || run->down.arrive_us > run->now_us)
        return moved;
    size_t size = run->down.ready.size;
    if (run->wire->chunk > 0 && size > run->wire->chunk)
        size = run->wire->chunk;
    uint64_t cut = run->wire->cut_after > 0 ? run->wire->cut_after : run->wire->stop_after;
    if (cut > 0 && run->down.carried + size > cut)
        size = (size_t)(cut - run->down.carried);
    if (size > 0 && !reconnect_learner_input(run->learner, run->now_us, run->peer,
                                             kv_bytes(run->down.ready.data, size), NULL))
        run->hung_up = true;
    run->down.carried += size;
    wire_out_drop(&run->down.ready, size);
    if (run->down.ready.size == 0)
        run->down.arrive_us = 0;
    return true;
}

/* Nothing moves now: go to the time when something may. */
static bool advance(struct run *run)
{
    int64_t wake = reconnect_link_wake_us(run->link);
    int64_t mine = reconnect_learner_wake_us(run->learner);
    wake = mine < wake ? mine : wake;
    if (run->up.ready.size > 0 && run->up.arrive_us < wake)
        wake = run->up.arrive_us;
    if (run->down.ready.size > 0 && run->down.arrive_us < wake)
        wake = run->down.arrive_us;
    if (wake == INT64_MAX)
        return false;
    run->now_us = wake > run->now_us ? wake : run->now_us + 1;
    reconnect_learner_tick(run->learner, run->now_us);
    return true;
}

static bool at_the_cut(const struct run *run, uint64_t cut)
{
    return cut > 0 && run->down.carried >= cut;
}

static void run_loop(struct run *run)
{
    struct wire *wire = run->wire;
    for (uint64_t turns = 0; reconnect_learner_phase(run->learner) == RECONNECT_RUNNING;
         turns++) {
        REQUIRE(turns < 50000000, "it never ends");
        if (wire->each_turn != NULL)
            wire->each_turn(wire->context, run->learner);
        bool moved = move_up(run);
        moved |= move_down(run);
        if (at_the_cut(run, wire->stop_after))
            return;
        bool lost = at_the_cut(run, wire->cut_after) ||
                    (reconnect_link_over(run->link, NULL) && run->down.ready.size == 0 &&
                     reconnect_link_output(run->link, run->now_us).size == 0);
        if (lost || run->hung_up)
            reconnect_learner_leave(run->learner, run->now_us, run->peer, "connection lost");
        else if (!moved && !advance(run))
            REQUIRE(false, "both sides wait for ever");
        run->now_us++;
    }
}

/* The learner's END goes up and the teacher's comes down. */
static void say_goodbye(struct run *run)
{
    for (int i = 0; i < 100 && !run->hung_up; i++) {
        move_up(run);
        move_down(run);
    }
}

void wire_tell(struct wire *wire)
{
    wire->goal.app_hash = state_app_hash(wire->teacher->state);
    wire->goal.app_hash_known = true;
}

kv_code wire_run(struct wire *wire, kv_status *why)
{
    struct run run = { .wire = wire, .now_us = 1000000 };
    wire->switched = false;
    wire->teacher_status = (kv_status)KV_STATUS_INIT;
    wire_frames_init(&run.up.frames, WIRE_FRAME_SIZE_MAX);
    wire_frames_init(&run.down.frames, WIRE_FRAME_SIZE_MAX);
    MUST(reconnect_teacher_new(wire->teacher->state, &wire->teacher_settings, &run.teacher,
                               status));
    MUST(reconnect_link_new(run.teacher, run.now_us, "learner", &run.link, status));
    kv_code code = reconnect_learner_new(wire->learner->db, wire->learner->state,
                                         &wire->settings, &wire->goal, &run.learner, why);
    if (code == KV_OK) {
        reconnect_learner_sole_peer(run.learner, true);
        MUST(reconnect_learner_join(run.learner, run.now_us, "teacher", &run.peer, status));
        run_loop(&run);
        wire->elapsed_us = run.now_us - 1000000;
        if (reconnect_learner_phase(run.learner) != RECONNECT_RUNNING)
            say_goodbye(&run);
        code = reconnect_learner_result(run.learner, why);
        if (code == KV_OK && (reconnect_learner_phase(run.learner) == RECONNECT_FETCHED ||
                              reconnect_learner_phase(run.learner) == RECONNECT_DONE)) {
            code = reconnect_learner_switch(run.learner, &wire->version, why);
            wire->switched = code == KV_OK;
        }
        reconnect_learner_measure(run.learner, &wire->figures);
        REQUIRE(reconnect_learner_measure_peer(run.learner, run.peer, &wire->peer), "no peer");
        reconnect_learner_free(run.learner);
    }
    if (reconnect_link_over(run.link, &wire->teacher_status)) {
        /* the status is what is asked for */
    }
    reconnect_teacher_measure(run.teacher, &wire->teacher_figures);
    reconnect_link_free(run.link);
    reconnect_teacher_free(run.teacher);
    wire_frames_clear(&run.up.frames);
    wire_frames_clear(&run.down.frames);
    wire_out_clear(&run.up.ready);
    wire_out_clear(&run.down.ready);
    return code;
}

/* ---- Comparing ---------------------------------------------------------- */

static void maps_equal(state_view *a, state_view *b, const char *name)
{
    vmap_iter *left, *right;
    MUST(state_view_iter_open(a, name, NULL, &left, status));
    MUST(state_view_iter_open(b, name, NULL, &right, status));
    bool left_on = vmap_iter_first(left), right_on = vmap_iter_first(right);
    while (left_on && right_on) {
        REQUIRE(kv_compare(vmap_iter_key(left), vmap_iter_key(right)) == 0, "keys differ");
        REQUIRE(kv_compare(vmap_iter_value(left), vmap_iter_value(right)) == 0,
                "values differ");
        left_on = vmap_iter_next(left);
        right_on = vmap_iter_next(right);
    }
    REQUIRE(left_on == right_on, "map %s: one has more", name);
    MUST(vmap_iter_status(left, status));
    MUST(vmap_iter_status(right, status));
    vmap_iter_close(left);
    vmap_iter_close(right);
}

/* Every key that tests use, looked up one by one on both sides. */
static void lookups_equal(state_view *a, state_view *b, const char *name)
{
    for (uint64_t key = 0; key < 3000; key++) {
        uint8_t bytes[8];
        kv_value left = KV_VALUE_INIT, right = KV_VALUE_INIT;
        kv_code found = state_view_get(a, name, make_key(key, bytes), &left, NULL);
        kv_code other = state_view_get(b, name, make_key(key, bytes), &right, NULL);
        REQUIRE(found == other, "map %s, key %d: %s and %s", name, (int)key,
                kv_code_name(found), kv_code_name(other));
        REQUIRE(kv_compare(left.bytes, right.bytes) == 0, "values differ");
        kv_value_release(&left);
        kv_value_release(&right);
    }
}

void sides_equal(struct side *a, struct side *b)
{
    state_view *left, *right;
    MUST(state_view_open(a->state, 0, &left, status));
    MUST(state_view_open(b->state, 0, &right, status));
    vmap_digest left_hash = state_view_app_hash(left), right_hash = state_view_app_hash(right);
    REQUIRE(memcmp(left_hash.bytes, right_hash.bytes, VMAP_DIGEST_SIZE) == 0, "app hashes");
    REQUIRE(state_view_version(left) == state_view_version(right), "versions differ");
    size_t left_count, right_count;
    const vmap_named_root *maps = state_view_maps(left, &left_count);
    const vmap_named_root *others = state_view_maps(right, &right_count);
    REQUIRE(left_count == right_count, "one has more maps");
    for (size_t i = 0; i < left_count; i++) {
        REQUIRE(strcmp(maps[i].name, others[i].name) == 0, "other maps");
        maps_equal(left, right, maps[i].name);
        lookups_equal(left, right, maps[i].name);
    }
    MUST(state_view_verify(left, NULL, NULL, status));
    state_view_close(left);
    state_view_close(right);
}

void side_nothing_staged(struct side *side)
{
    kv_space *space;
    kv_iter *iter;
    if (kv_space_open(side->db, "reconnect", 0, &space, NULL) != KV_OK)
        return;
    MUST(kv_iter_open(space, NULL, NULL, &iter, status));
    REQUIRE(!kv_iter_first(iter), "something is left in the staging space");
    MUST(kv_iter_status(iter, status));
    kv_iter_close(iter);
}

struct staged {
    state_view *truth;
    const char *map;
    size_t prefix; /* bytes before the key */
};

/* Every record of `range` is the teacher's pair, or the removal of a key that it has not. */
static void records_true(kv_space *space, const kv_range *range, const struct staged *staged)
{
    kv_iter *iter;
    MUST(kv_iter_open(space, NULL, range, &iter, status));
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter), value = kv_iter_value(iter);
        kv_value right = KV_VALUE_INIT;
        key = kv_bytes((const uint8_t *)key.data + staged->prefix, key.size - staged->prefix);
        kv_code code = state_view_get(staged->truth, staged->map, key, &right, NULL);
        REQUIRE(value.size == 0 ? code == KV_NOT_FOUND
                                : code == KV_OK && kv_compare(right.bytes, value) == 0,
                "a lie is staged in map %s", staged->map);
        kv_value_release(&right);
    }
    MUST(kv_iter_status(iter, status));
    kv_iter_close(iter);
}

/* The same of the pairs of a map that is built. */
static void build_true(struct side *side, uint8_t number, const struct staged *staged)
{
    kv_space *values;
    const uint8_t first[] = { 0, 0, 0, number }, limit[] = { 0, 0, 0, (uint8_t)(number + 1) };
    kv_range range = { kv_bytes(first, sizeof(first)), kv_bytes(limit, sizeof(limit)) };
    MUST(kv_space_open(side->db, "state.values", 0, &values, status));
    records_true(values, &range, staged);
}

void side_staged_true(struct side *side, struct side *teacher)
{
    kv_space *space;
    state_view *view;
    if (kv_space_open(side->db, "reconnect", 0, &space, NULL) != KV_OK)
        return;
    MUST(state_view_open(teacher->state, 0, &view, status));
    for (uint8_t i = 0; i < 10; i++) {
        char map[STATE_MAP_NAME_SIZE_MAX + 1] = "";
        const uint8_t name_key[] = { 'N', 0, i }, build_key[] = { 'B', 0, i };
        const uint8_t first[] = { 'C', 0, i }, limit[] = { 'C', 0, (uint8_t)(i + 1) };
        kv_range range = { kv_bytes(first, sizeof(first)), kv_bytes(limit, sizeof(limit)) };
        kv_value name = KV_VALUE_INIT, number = KV_VALUE_INIT;
        if (kv_get(space, NULL, kv_bytes(name_key, 3), &name, NULL) == KV_OK)
            memcpy(map, name.bytes.data, name.bytes.size);
        struct staged changes = { view, map, sizeof(first) };
        records_true(space, &range, &changes);
        struct staged pairs = { view, map, STATE_BUILD_PREFIX };
        if (kv_get(space, NULL, kv_bytes(build_key, 3), &number, NULL) == KV_OK)
            build_true(side, *(const uint8_t *)number.bytes.data, &pairs);
        kv_value_release(&name);
        kv_value_release(&number);
    }
    state_view_close(view);
}

void sides_at_rest(struct side *learner, struct side *teacher, reconnect_traversal traversal)
{
    struct wire wire = WIRE(learner, teacher);
    kv_status status = KV_STATUS_INIT;
    wire.goal.traversal = traversal;
    REQUIRE(wire_run(&wire, &status) == KV_OK, "%s", status.message);
    REQUIRE(wire.figures.pages + wire.figures.leaves == 0, "it moved something");
    REQUIRE(wire.figures.bytes_in + wire.figures.bytes_out < 1024, "it moved much");
}
