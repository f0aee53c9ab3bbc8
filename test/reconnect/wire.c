/* wire.c - the bytes: what is put can be got, and nothing else can. */
#include "reconnect/align.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 7;

static uint64_t draw(uint64_t below)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

Test(wire, numbers_have_one_encoding)
{
    const uint64_t numbers[] = { 0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct wire_out out = { 0 };
        wire_put_number(&out, numbers[i]);
        struct wire_in in = wire_in_of(kv_bytes(out.data, out.size));
        cr_expect_eq(wire_get_number(&in, UINT64_MAX), numbers[i]);
        cr_expect(!in.bad && in.at == in.end);
        in = wire_in_of(kv_bytes(out.data, out.size));
        if (numbers[i] > 0) {
            wire_get_number(&in, numbers[i] - 1);
            cr_expect(in.bad, "over its maximum");
        }
        in = wire_in_of(kv_bytes(out.data, out.size - 1));
        wire_get_number(&in, UINT64_MAX);
        cr_expect(in.bad, "cut short");
        wire_out_clear(&out);
    }
    const uint8_t padded[] = { 0x80, 0x00 };
    const uint8_t long_one[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 };
    struct wire_in in = wire_in_of(kv_bytes(padded, sizeof(padded)));
    wire_get_number(&in, UINT64_MAX);
    cr_expect(in.bad, "padded with zeros");
    in = wire_in_of(kv_bytes(long_one, sizeof(long_one)));
    wire_get_number(&in, UINT64_MAX);
    cr_expect(in.bad, "over 64 bits");
}

Test(wire, keys_share_what_they_share)
{
    struct wire_key *key = calloc(1, sizeof(*key));
    struct wire_out out = { 0 };
    uint8_t keys[40][300];
    size_t sizes[40];
    kv_slice before = kv_bytes(NULL, 0);
    for (int i = 0; i < 40; i++) {
        sizes[i] = 1 + (size_t)draw(300);
        memset(keys[i], 'a', sizes[i]);
        keys[i][draw(sizes[i])] = (uint8_t)draw(256);
        wire_put_key(&out, before, kv_bytes(keys[i], sizes[i]));
        before = kv_bytes(keys[i], sizes[i]);
    }
    struct wire_in in = wire_in_of(kv_bytes(out.data, out.size));
    for (int i = 0; i < 40; i++) {
        kv_slice got = wire_get_key(&in, key, false);
        cr_expect_eq(kv_compare(got, kv_bytes(keys[i], sizes[i])), 0, "key %d", i);
    }
    cr_expect(!in.bad && in.at == in.end);

    const uint8_t shares_more_than_there_is[] = { 0x50 }, empty[] = { 0x00 };
    key->size = 4;
    in = wire_in_of(kv_bytes(shares_more_than_there_is, 1));
    wire_get_key(&in, key, false);
    cr_expect(in.bad);
    key->size = 0;
    in = wire_in_of(kv_bytes(empty, 1));
    wire_get_key(&in, key, false);
    cr_expect(in.bad);
    in = wire_in_of(kv_bytes(empty, 1));
    wire_get_key(&in, key, true);
    cr_expect(!in.bad);
    wire_out_clear(&out);
    free(key);
}

Test(wire, bits_are_packed)
{
    uint64_t values[100], got[100];
    for (unsigned bits = 1; bits <= 64; bits++) {
        struct wire_out out = { 0 };
        for (int i = 0; i < 100; i++)
            values[i] = draw(UINT64_MAX);
        wire_put_bits(&out, values, 100, bits);
        cr_assert_eq(out.size, (100 * bits + 7) / 8);
        struct wire_in in = wire_in_of(kv_bytes(out.data, out.size));
        cr_assert(wire_get_bits(&in, got, 100, bits));
        uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        for (int i = 0; i < 100; i++)
            cr_expect_eq(got[i], values[i] & mask, "%u bits, value %d", bits, i);
        wire_out_clear(&out);
    }
}

static struct wire_hello sample_hello(void)
{
    struct wire_hello hello = { .version_min = 1,
                                .version_max = 1,
                                .format = WIRE_FORMAT,
                                .chain = kv_text("chain-7"),
                                .traversal = WIRE_LEVEL_STRICT,
                                .version = 12345678901,
                                .wanted_known = true };
    memset(hello.nonce, 0xaa, sizeof(hello.nonce));
    memset(hello.wanted.bytes, 0xbb, sizeof(hello.wanted.bytes));
    memset(hello.own.bytes, 0xcc, sizeof(hello.own.bytes));
    return hello;
}

/* The body of the only frame in `out`. */
static kv_slice body_of(const struct wire_out *out)
{
    return kv_bytes(out->data + WIRE_FRAME_HEADER_SIZE, out->size - WIRE_FRAME_HEADER_SIZE);
}

Test(wire, hello_comes_back_and_nothing_shorter_or_longer)
{
    struct wire_hello hello = sample_hello(), got;
    struct wire_out out = { 0 };
    wire_put_hello(&out, &hello);
    kv_slice body = body_of(&out);
    cr_assert_eq(wire_get_hello(body, &got, NULL), KV_OK);
    cr_expect_eq(got.version, hello.version);
    cr_expect_eq(got.traversal, hello.traversal);
    cr_expect_eq(kv_compare(got.chain, hello.chain), 0);
    cr_expect_arr_eq(got.wanted.bytes, hello.wanted.bytes, 32);
    cr_expect_arr_eq(got.own.bytes, hello.own.bytes, 32);
    for (size_t size = 0; size < body.size; size++)
        cr_expect_eq(wire_get_hello(kv_bytes(body.data, size), &got, NULL), KV_UNPROVEN);
    wire_put_byte(&out, 0);
    cr_expect_eq(wire_get_hello(body_of(&out), &got, NULL), KV_UNPROVEN);
    wire_out_clear(&out);
}

Test(wire, ahead_comes_back_and_nothing_shorter)
{
    struct wire_ahead ahead = { 70000, kv_text("bank"), 2, 16 }, got;
    struct wire_out out = { 0 };
    wire_put_ahead(&out, &ahead);
    struct wire_in in = wire_in_of(kv_bytes(out.data, out.size));
    cr_assert(wire_get_ahead(&in, &got));
    cr_expect(in.at == in.end);
    cr_expect_eq(got.id, ahead.id);
    cr_expect_eq(kv_compare(got.map, ahead.map), 0);
    cr_expect_eq(got.tier, ahead.tier);
    cr_expect_eq(got.have_bits, ahead.have_bits);
    for (size_t size = 0; size < out.size; size++) {
        in = wire_in_of(kv_bytes(out.data, size));
        cr_expect_not(wire_get_ahead(&in, &got));
    }
    out.data[out.size - 2] = 0; /* a list of leaves has no tier to ask ahead for */
    in = wire_in_of(kv_bytes(out.data, out.size));
    cr_expect_not(wire_get_ahead(&in, &got));
    wire_out_clear(&out);
}

Test(wire, offer_comes_back_and_nothing_shorter_or_longer)
{
    struct wire_map maps[2] = { { kv_text("acc"), 3, 5, { { { 1 } }, 4000, 14 } },
                                { kv_text("bank"), 0, 5, { { { 2 } }, 1, 0 } } };
    struct wire_offer offer = { .version_used = 1,
                                .oldest = 5,
                                .newest = 9,
                                .version = 7,
                                .map_count = 2,
                                .maps = maps },
                      got;
    struct wire_out out = { 0 };
    wire_put_offer(&out, &offer);
    kv_slice body = body_of(&out);
    cr_assert_eq(wire_get_offer(body, &got, NULL), KV_OK);
    cr_expect_eq(got.map_count, 2);
    cr_expect_eq(got.maps[0].node.size, 4000);
    cr_expect_eq(got.maps[0].level, 3);
    cr_expect_eq(kv_compare(got.maps[1].name, kv_text("bank")), 0);
    free(got.maps);
    for (size_t size = 0; size < body.size; size++)
        cr_expect_eq(wire_get_offer(kv_bytes(body.data, size), &got, NULL), KV_UNPROVEN);
    wire_put_byte(&out, 0);
    cr_expect_eq(wire_get_offer(body_of(&out), &got, NULL), KV_UNPROVEN);

    out.size = 0;
    maps[1].name = kv_text("acc");
    wire_put_offer(&out, &offer);
    cr_expect_eq(wire_get_offer(body_of(&out), &got, NULL), KV_UNPROVEN, "a name twice");
    wire_out_clear(&out);
}

Test(wire, peers_come_back_and_nothing_shorter_or_longer)
{
    kv_slice addresses[] = { kv_text("127.0.0.1:26659"), kv_text("[2001:db8::1]:1") };
    kv_slice got[WIRE_PEERS_MAX];
    size_t count;
    struct wire_out out = { 0 };
    wire_put_peers(&out, addresses, 2);
    kv_slice body = body_of(&out);
    cr_assert_eq(wire_get_peers(body, got, &count, NULL), KV_OK);
    cr_assert_eq(count, 2);
    cr_expect_eq(kv_compare(got[0], addresses[0]), 0);
    cr_expect_eq(kv_compare(got[1], addresses[1]), 0);
    for (size_t size = 0; size < body.size; size++)
        cr_expect_eq(wire_get_peers(kv_bytes(body.data, size), got, &count, NULL), KV_UNPROVEN);
    wire_put_byte(&out, 0);
    cr_expect_eq(wire_get_peers(body_of(&out), got, &count, NULL), KV_UNPROVEN);

    kv_slice many[WIRE_PEERS_MAX + 1];
    for (size_t i = 0; i <= WIRE_PEERS_MAX; i++)
        many[i] = addresses[0];
    out.size = 0;
    wire_put_peers(&out, many, WIRE_PEERS_MAX + 1);
    cr_expect_eq(wire_get_peers(body_of(&out), got, &count, NULL), KV_UNPROVEN);
    wire_out_clear(&out);
}

Test(wire, what_is_no_address_is_refused)
{
    const char *const bad[] = { "",
                                ":1",
                                "1.2.3.4",
                                "1.2.3.4:",
                                "1.2.3.4:0",
                                "1.2.3.4:65536",
                                "1.2.3.4:1x",
                                "1.2.3.4: 1",
                                "1.2.3.4:+1",
                                "1.2.3:1",
                                "host.example:26659",
                                "[::1:1",
                                "::1:1",
                                "[]:1",
                                "[1.2.3.4]:1",
                                "[::1]1:1",
                                "tcp://1.2.3.4:1" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect(!wire_address_holds(kv_text(bad[i])), "%s", bad[i]);
    cr_expect(!wire_address_holds(kv_bytes("1.2.3.4:1\0x", 11)));
    cr_expect(wire_address_holds(kv_text("255.255.255.255:65535")));
    cr_expect(wire_address_holds(kv_text("[::ffff:1.2.3.4]:9")));
}

Test(wire, error_is_made_printable)
{
    struct wire_out out = { 0 };
    kv_status status = KV_STATUS_INIT;
    wire_put_error(&out, KV_TOO_OLD, "gone\n\x1b[31m");
    cr_expect_eq(wire_get_error(body_of(&out), "peer", &status), KV_TOO_OLD);
    cr_expect_str_eq(status.message, "peer hung up: gone??[31m");
    wire_out_clear(&out);
}

Test(wire, mac_needs_secret_speaker_and_both_nonces)
{
    uint8_t a[16] = { 1 }, b[16] = { 2 }, right[32], other[32];
    wire_mac(kv_text("s"), "learner", a, b, right);
    wire_mac(kv_text("s"), "learner", a, b, other);
    cr_expect(wire_mac_equal(right, other));
    wire_mac(kv_text("t"), "learner", a, b, other);
    cr_expect(!wire_mac_equal(right, other));
    wire_mac(kv_text("s"), "teacher", a, b, other);
    cr_expect(!wire_mac_equal(right, other));
    wire_mac(kv_text("s"), "learner", b, a, other);
    cr_expect(!wire_mac_equal(right, other));
}

/* ---- Frames ------------------------------------------------------------- */

Test(frames, any_cut_of_the_stream_gives_the_same_frames)
{
    struct wire_hello hello = sample_hello();
    struct wire_out out = { 0 };
    wire_put_hello(&out, &hello);
    wire_frame_end(&out, wire_frame_begin(&out, WIRE_END));
    wire_put_hello(&out, &hello);
    for (size_t cut = 1; cut <= out.size; cut++) {
        struct wire_frames frames;
        unsigned types[4], count = 0;
        wire_frames_init(&frames, 1000);
        for (size_t at = 0; at < out.size; at += cut) {
            size_t size = out.size - at < cut ? out.size - at : cut;
            cr_assert_eq(wire_frames_add(&frames, kv_bytes(out.data + at, size)), KV_OK);
            kv_slice body;
            while (wire_frames_next(&frames, &types[count], &body, NULL) == KV_OK)
                count++;
        }
        cr_expect_eq(count, 3, "cut %zu", cut);
        cr_expect(types[0] == WIRE_HELLO && types[1] == WIRE_END && types[2] == WIRE_HELLO);
        wire_frames_clear(&frames);
    }
    wire_out_clear(&out);
}

Test(frames, sizes_and_types_are_checked_before_anything_is_kept)
{
    const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, WIRE_GOT }, none[] = { 0, 0, 0, 0, 3 },
                  http[] = { 'G', 'E', 'T', ' ', '/' }, over[] = { 0, 0, 4, 1, WIRE_GOT };
    const struct {
        const uint8_t *bytes;
        kv_code code;
    } rows[] = {
        { huge, KV_TOO_BIG }, { none, KV_UNPROVEN }, { http, KV_UNPROVEN }, { over, KV_TOO_BIG }
    };
    for (size_t i = 0; i < 4; i++) {
        struct wire_frames frames;
        unsigned type;
        kv_slice body;
        wire_frames_init(&frames, 1024);
        cr_assert_eq(wire_frames_add(&frames, kv_bytes(rows[i].bytes, 5)), KV_OK);
        cr_expect_eq(wire_frames_next(&frames, &type, &body, NULL), rows[i].code, "row %zu", i);
        cr_expect_lt(frames.bytes.capacity, 1024, "nothing is set aside for what is announced");
        wire_frames_clear(&frames);
    }
}

/* ---- Alignment ---------------------------------------------------------- */

/* Follow the steps over `theirs`; false if the outcome is not `ours`. */
static bool leads_to(const struct align *align, const uint64_t *theirs, size_t their_count,
                     const uint64_t *ours, size_t our_count, size_t *fresh)
{
    size_t their = 0, our = 0;
    *fresh = 0;
    for (size_t i = 0; i < align->count; i++) {
        const struct align_run *run = &align->runs[i];
        for (uint32_t k = 0; k < run->count; k++) {
            if (run->step == WIRE_STEP_SKIP) {
                their++;
                continue;
            }
            if (our == our_count || (run->step == WIRE_STEP_COPY &&
                                     (their == their_count || theirs[their++] != ours[our])))
                return false;
            *fresh += run->step == WIRE_STEP_NEW;
            our++;
        }
    }
    return their == their_count && our == our_count;
}

Test(align, random_edits_cost_what_they_change)
{
    struct align align = { 0 };
    for (int round = 0; round < 2000; round++) {
        uint64_t theirs[600], ours[700];
        size_t their_count = draw(200), our_count = 0, edits = 0;
        for (size_t i = 0; i < their_count; i++) {
            theirs[i] = draw(UINT64_MAX);
            uint64_t kind = draw(20);
            if (kind == 0)
                ours[our_count++] = draw(UINT64_MAX); /* changed */
            else if (kind == 1)
                continue; /* removed */
            else
                ours[our_count++] = theirs[i];
            if (kind == 2)
                ours[our_count++] = draw(UINT64_MAX); /* added */
            edits += kind <= 2;
        }
        size_t fresh;
        cr_assert_eq(align_lists(theirs, their_count, ours, our_count, 64, &align), KV_OK);
        cr_assert(leads_to(&align, theirs, their_count, ours, our_count, &fresh));
        cr_expect_leq(fresh, edits + 1, "%zu edits, %zu new", edits, fresh);
    }
    align_clear(&align);
}

Test(align, long_gaps_are_bridged)
{
    enum { COUNT = 5000, GAP = 1000 };
    uint64_t *theirs = calloc(COUNT, sizeof(*theirs)), *ours = calloc(2 * COUNT, sizeof(*ours));
    struct align align = { 0 };
    size_t fresh, our_count = 0;
    for (size_t i = 0; i < COUNT; i++) {
        theirs[i] = draw(UINT64_MAX);
        if (i < 2000 || i >= 2000 + GAP)
            ours[our_count++] = theirs[i];
        if (i == 4000)
            for (int k = 0; k < GAP; k++)
                ours[our_count++] = draw(UINT64_MAX);
    }
    cr_assert_eq(align_lists(theirs, COUNT, ours, our_count, 16, &align), KV_OK);
    for (size_t i = 0; i < align.count; i++)
        cr_log_info("%d %u", (int)align.runs[i].step, align.runs[i].count);
    uint64_t cut_theirs[COUNT], cut_ours[2 * COUNT];
    for (size_t i = 0; i < COUNT; i++)
        cut_theirs[i] = theirs[i] & 0xffff;
    for (size_t i = 0; i < our_count; i++)
        cut_ours[i] = ours[i] & 0xffff;
    cr_assert(leads_to(&align, cut_theirs, COUNT, cut_ours, our_count, &fresh));
    cr_expect_lt(fresh, GAP + 10);
    align_clear(&align);
    free(theirs);
    free(ours);
}

Test(align, short_marks_mislead_rarely)
{
    /* One changed leaf in a page of 64, told by six bits: 1 in 64 are mistaken. */
    struct align align = { 0 };
    int missed = 0;
    enum { ROUNDS = 20000 };
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t theirs[64], ours[64];
        for (int i = 0; i < 64; i++)
            theirs[i] = ours[i] = draw(UINT64_MAX);
        ours[draw(64)] = draw(UINT64_MAX);
        size_t fresh;
        cr_assert_eq(align_lists(theirs, 64, ours, 64, 6, &align), KV_OK);
        missed += !leads_to(&align, theirs, 64, ours, 64, &fresh);
    }
    cr_expect_lt(missed, ROUNDS / 40, "%d of %d", missed, ROUNDS);
    cr_expect_gt(missed, ROUNDS / 100, "%d of %d: the marks are longer than they say", missed,
                 ROUNDS);
    align_clear(&align);
}
