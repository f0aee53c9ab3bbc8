/* reconnect_teacher.c - any bytes from a learner: the teacher answers or hangs up.
 * The first byte tells how the stream is cut into pieces. */
#include "reconnect/reconnect.h"
#include "reconnect_sides.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_side side;
    static reconnect_teacher *teacher;
    reconnect_link *link;
    if (teacher == NULL) {
        const reconnect_settings settings = RECONNECT_SETTINGS_INIT;
        fuzz_side_open(&side, 200, 1, 2);
        if (reconnect_teacher_new(side.state, &settings, &teacher, NULL) != KV_OK)
            abort();
    }
    if (size == 0 || reconnect_link_new(teacher, 1, "fuzz", &link, NULL) != KV_OK)
        return 0;
    size_t piece = data[0] == 0 ? size : data[0];
    int64_t now_us = 1;
    for (size_t at = 1; at < size; at += piece) {
        size_t left = size - at < piece ? size - at : piece;
        kv_status status = KV_STATUS_INIT;
        kv_code code = reconnect_link_input(link, ++now_us, kv_bytes(data + at, left), &status);
        if (code != KV_OK && status.message[0] == '\0')
            abort(); /* a fault without a reason */
        for (int i = 0; i < 64; i++) {
            kv_slice out = reconnect_link_output(link, ++now_us);
            if (out.size == 0)
                break;
            reconnect_link_sent(link, out.size);
        }
        if (reconnect_link_over(link, NULL))
            break;
    }
    reconnect_link_free(link);
    return 0;
}
