/* reconnect_learner.c - any bytes from a teacher: the learner never reaches a state
 * that is not the goal's. The first byte chooses the traversal and how the stream is
 * cut; the goal is the honest teacher's app hash. */
#include "reconnect/reconnect.h"
#include "reconnect_sides.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_side teacher;
    struct fuzz_side side;
    const reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    reconnect_learner *learner;
    unsigned peer;
    if (teacher.state == NULL)
        fuzz_side_open(&teacher, 200, 1, 2);
    if (size == 0)
        return 0;
    fuzz_side_open(&side, 180, 2, 1);
    reconnect_goal goal = { .traversal = (reconnect_traversal)(data[0] % 5),
                            .app_hash_known = true,
                            .app_hash = state_app_hash(teacher.state) };
    if (reconnect_learner_new(side.db, side.state, &settings, &goal, &learner, NULL) != KV_OK ||
        reconnect_learner_join(learner, 1, "fuzz", &peer, NULL) != KV_OK)
        abort();
    size_t piece = data[0] < 5 ? size : data[0];
    int64_t now_us = 1;
    for (size_t at = 1; at < size; at += piece) {
        size_t left = size - at < piece ? size - at : piece;
        bool live =
            reconnect_learner_input(learner, ++now_us, peer, kv_bytes(data + at, left), NULL);
        kv_slice out = reconnect_learner_output(learner, now_us, peer);
        reconnect_learner_sent(learner, peer, out.size);
        if (!live)
            break;
    }
    uint64_t version;
    if (reconnect_learner_phase(learner) == RECONNECT_FETCHED &&
        reconnect_learner_switch(learner, &version, NULL) == KV_OK) {
        vmap_digest reached = state_app_hash(side.state);
        if (memcmp(&reached, &goal.app_hash, sizeof(reached)) != 0)
            abort();
    }
    reconnect_learner_free(learner);
    if (state_close(side.state, NULL) != KV_OK || kv_close(side.db, NULL) != KV_OK)
        abort();
    kv_options_free(side.options);
    return 0;
}
