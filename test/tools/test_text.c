/* test_text.c - bytes as text and back, base64, and the pairs of JSON and tsv. */
#include "tools/base64.h"
#include "tools/pairs.h"
#include "tools/text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(text, .timeout = 30);
TestSuite(pairs, .timeout = 30);

Test(text, every_byte_goes_both_ways)
{
    unsigned char all[512];
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (unsigned char)(i * 7);
    for (int hex = 0; hex < 2; hex++) {
        struct text form = TEXT_INIT;
        struct text back = TEXT_INIT;
        text_encode(&form, kv_bytes(all, sizeof(all)), hex == 1);
        for (size_t i = 0; i < form.size; i++)
            cr_expect(form.data[i] >= 0x20 && form.data[i] < 0x7f);
        cr_assert_eq(text_decode(&back, text_bytes(&form), hex == 1, "key", NULL), KV_OK);
        cr_assert_eq(kv_compare(text_bytes(&back), kv_bytes(all, sizeof(all))), 0);
        text_clear(&form);
        text_clear(&back);
    }
}

Test(text, faults_are_named)
{
    static const struct {
        const char *source;
        bool hex;
        const char *message;
    } rows[] = {
        { "\\", false, "KEY: the backslash at character 1 is not of \\\\ or \\xNN" },
        { "a\\x4", false, "KEY: the backslash at character 2 is not of \\\\ or \\xNN" },
        { "ab\\n", false, "KEY: the backslash at character 3 is not of \\\\ or \\xNN" },
        { "a", true, "KEY: odd number of hex digits, 1" },
        { "0x00", true, "KEY: character 2 is not a hex digit" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct text out = TEXT_INIT;
        kv_status status = KV_STATUS_INIT;
        cr_expect_eq(text_decode(&out, kv_text(rows[i].source), rows[i].hex, "KEY", &status),
                     KV_INVALID);
        cr_expect_str_eq(status.message, rows[i].message);
        text_clear(&out);
    }
}

Test(text, base64_both_ways)
{
    static const char *const rows[][2] = {
        { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" }
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct text form = TEXT_INIT;
        struct text back = TEXT_INIT;
        base64_encode(&form, kv_text(rows[i][0]));
        cr_expect_str_eq(form.data, rows[i][1]);
        cr_expect(base64_decode(&back, text_bytes(&form)));
        cr_expect_str_eq(back.data, rows[i][0]);
        text_clear(&form);
        text_clear(&back);
    }
    static const char *const bad[] = { "Zg", "Zg=", "Z", "Zm9v!", "====" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct text back = TEXT_INIT;
        cr_expect_not(base64_decode(&back, kv_text(bad[i])), "%s", bad[i]);
        text_clear(&back);
    }
}

/* Pairs as lines `map key=value`, a deletion without the sign. */
static kv_code collect(void *context, const char *map, kv_slice key, const kv_slice *value,
                       kv_status *status)
{
    (void)status;
    struct text *lines = context;
    text_append(lines, map, strlen(map));
    text_append_byte(lines, ' ');
    text_append(lines, key.data, key.size);
    if (value != NULL) {
        text_append_byte(lines, '=');
        text_append(lines, value->data, value->size);
    }
    text_append_byte(lines, '\n');
    return KV_OK;
}

typedef kv_code reader(const struct input *input, const char *map, pairs_visit *visit,
                       void *context, kv_status *status);

static struct text read_all(reader *read, const char *source, const char *map, kv_code wanted,
                            kv_status *status)
{
    char path[] = "/tmp/statekv-pairs-XXXXXX";
    struct input input;
    struct text lines = TEXT_INIT;
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, source, strlen(source)), (ssize_t)strlen(source));
    close(fd);
    cr_assert_eq(input_open(&input, path, status), KV_OK);
    text_append(&lines, NULL, 0);
    cr_expect_eq(read(&input, map, collect, &lines, status), wanted, "%s: %s", source,
                 status->message);
    input_close(&input);
    unlink(path);
    return lines;
}

Test(pairs, of_json)
{
    static const struct {
        const char *source, *map, *lines;
    } rows[] = {
        { "{}", NULL, "" },
        { "{\"app_state\":{}}", NULL, "" },
        { "{\"a\":1,\"b\":[],\"c\":{},\"d\":{\"e\":2}}", NULL, "d e=2\n" },
        { "{\"m\":{\"a\":{\"b\":[1,{\"c\":2},[]]},\"d\":{}}}", NULL,
          "m a/b/0=1\nm a/b/1/c=2\nm a/b/2=[]\nm d={}\n" },
        { "{\"x\":{\"y\":1},\"app_state\":{\"m\":[true,false,null]},\"z\":[1]}", NULL,
          "m 0=true\nm 1=false\nm 2=null\n" },
        { "{\"app_state\":[1],\"m\":{\"a\":1}}", NULL, "app_state 0=1\nm a=1\n" },
        { "{\"m\":{\"app_state\":{\"a\":1}}}", NULL, "m app_state/a=1\n" },
        { "{\"m\":{\"a/b\":1,\"~\":2,\"\":{\"\":3}}}", NULL, "m a~1b=1\nm ~0=2\nm /=3\n" },
        { "{\"m\":[ -0.10e+05 , 123456789012345678901234567890 ,1E400]}", NULL,
          "m 0=-0.10e+05\nm 1=123456789012345678901234567890\nm 2=1E400\n" },
        { "{\"m\":[\"\\u00e4\\/\\n\\u0001\\\"\\\\\\ud83d\\ude00\"]}", NULL,
          "m 0=\"\xc3\xa4/\\n\\u0001\\\"\\\\\xf0\x9f\x98\x80\"\n" },
        { "{\"m\":{\"a\":1},\"n\":{\"a\":2}}", "n", "n a=2\n" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kv_status status = KV_STATUS_INIT;
        struct text lines =
            read_all(pairs_of_json, rows[i].source, rows[i].map, KV_OK, &status);
        cr_expect_str_eq(lines.data, rows[i].lines, "%s", rows[i].source);
        text_clear(&lines);
    }
}

Test(pairs, of_json_refused)
{
    static const char *const rows[] = {
        "",
        "{",
        "[]",
        "1",
        "{\"a\":{\"b\":1}",
        "{}{}",
        "{\"a\":[1 2]}",
        "{\"a\":[1,]}",
        "{\"a\":[+1]}",
        "{\"a\":[.5]}",
        "{\"a\":[1e]}",
        "{\"a\":[truex]}",
        "{\"a\":[\"\\ud800\"]}",
        "{\"a\":[\"\t\"]}",
        "{\"a\":[1}}",
        "{a:1}",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kv_status status = KV_STATUS_INIT;
        struct text lines = read_all(pairs_of_json, rows[i], NULL, KV_INVALID, &status);
        cr_expect(strstr(status.message, ":1: ") != NULL, "%s", status.message);
        text_clear(&lines);
    }
}

Test(pairs, of_tsv)
{
    kv_status status = KV_STATUS_INIT;
    struct text lines = read_all(pairs_of_tsv, "6b\t76\n6B32\n6b33\t", "m", KV_OK, &status);
    cr_expect_str_eq(lines.data, "m k=v\nm k2\nm k3=\n");
    text_clear(&lines);
    lines = read_all(pairs_of_tsv, "6b\t76\n6b\t7\n", "m", KV_INVALID, &status);
    cr_expect(strstr(status.message, ":2: value: odd number of hex digits, 1") != NULL);
    text_clear(&lines);
}
