/* verify_proof.c - statekv verify-proof: check a proof against an app hash. */
#include "tools/base64.h"
#include "tools/commands.h"
#include "tools/input.h"
#include "tools/json_walk.h"
#include "tools/output.h"
#include "tools/text.h"
#include "vmap/vmap.h"

#include <string.h>

struct verify_proof {
    const char *words[4]; /* APPHASH MAP KEY VALUE */
    bool hex;
};

static const struct argp_option options[] = {
    { "hex", 'x', NULL, 0, "KEY and VALUE are hex instead of text", 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct verify_proof *own = parser->input;
    switch (key) {
    case 'x':
        own->hex = true;
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 3)
            return ARGP_ERR_UNKNOWN;
        own->words[parser->arg_num] = argument;
        return 0;
    case ARGP_KEY_END:
        if (parser->arg_num < 3)
            command_usage(parser, "give APPHASH, MAP and KEY");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "APPHASH MAP KEY [VALUE]",
    "Read a proof from standard input, as statekv prove or abci_query gives it, and check that "
    "it proves VALUE under KEY in MAP against APPHASH (hex); without VALUE, that KEY is not "
    "there. Nothing in the input but the ops is believed. Exit status 1 where it does not "
    "prove that.\v"
    "Example: curl -s 'localhost:26657/abci_query?path=\"/store/bank/key\"&data=\"alice\"&"
    "prove=true' | statekv verify-proof APPHASH bank alice VALUE",
    NULL,
    NULL,
    NULL
};

/* The ops found so far: elements of an array called ops. */
struct reader {
    struct text types[VMAP_PROOF_OPS_MAX], keys[VMAP_PROOF_OPS_MAX], data[VMAP_PROOF_OPS_MAX];
    size_t count;
    unsigned depth, ops_depth; /* depth of the ops array, 0 outside */
    bool ops_named;            /* the value to come is called ops */
    struct text *field;        /* where the value to come goes */
    bool base64;
};

static kv_code start_op(struct reader *reader, kv_status *status)
{
    if (reader->count == VMAP_PROOF_OPS_MAX)
        return kv_fail(status, KV_INVALID, "more than %u ops", VMAP_PROOF_OPS_MAX);
    reader->count++;
    return KV_OK;
}

static void take_name(struct reader *reader, kv_slice name)
{
    reader->ops_named = reader->count == 0 && kv_compare(name, kv_text("ops")) == 0;
    reader->field = NULL;
    if (reader->ops_depth == 0 || reader->depth != reader->ops_depth + 1)
        return;
    size_t op = reader->count - 1;
    reader->base64 = true;
    if (kv_compare(name, kv_text("type")) == 0) {
        reader->field = &reader->types[op];
        reader->base64 = false;
    } else if (kv_compare(name, kv_text("key")) == 0) {
        reader->field = &reader->keys[op];
    } else if (kv_compare(name, kv_text("data")) == 0) {
        reader->field = &reader->data[op];
    }
}

static kv_code take_text(struct reader *reader, kv_slice text, kv_status *status)
{
    if (reader->field == NULL)
        return KV_OK;
    reader->field->size = 0;
    if (!reader->base64)
        text_append(reader->field, text.data, text.size);
    else if (!base64_decode(reader->field, text))
        return kv_fail(status, KV_INVALID, "op %zu: no base64", reader->count);
    reader->field = NULL;
    return KV_OK;
}

static kv_code take(void *context, enum json_event event, kv_slice text, kv_status *status)
{
    struct reader *reader = context;
    kv_code code = KV_OK;
    switch (event) {
    case JSON_WALK_NAME:
        take_name(reader, text);
        return KV_OK;
    case JSON_WALK_TEXT:
        code = take_text(reader, text, status);
        break;
    case JSON_WALK_ARRAY:
    case JSON_WALK_OBJECT:
        reader->depth++;
        if (event == JSON_WALK_ARRAY && reader->ops_named)
            reader->ops_depth = reader->depth;
        else if (reader->ops_depth != 0 && reader->depth == reader->ops_depth + 1)
            code = start_op(reader, status);
        break;
    case JSON_WALK_END:
        if (reader->depth == reader->ops_depth)
            reader->ops_depth = 0;
        reader->depth--;
        break;
    default:
        break;
    }
    reader->ops_named = false;
    reader->field = NULL;
    return code;
}

static kv_code read_proof(struct reader *reader, kv_status *status)
{
    struct input input;
    kv_code code = input_open(&input, "-", status);
    if (code != KV_OK)
        return code;
    kv_status why = KV_STATUS_INIT;
    size_t at = 0;
    code = json_walk(input.bytes, take, reader, &at, &why);
    if (code != KV_OK)
        kv_fail(status, code, "%s:%zu: %s", input.name, input_line(&input, at), why.message);
    else if (reader->count == 0)
        code =
            kv_fail(status, KV_INVALID, "%s: holds no proof: no array called ops", input.name);
    input_close(&input);
    return code;
}

static kv_code check(const struct verify_proof *own, const struct reader *reader,
                     kv_status *status)
{
    struct text app_hash = TEXT_INIT;
    struct text key = TEXT_INIT;
    struct text value = TEXT_INIT;
    vmap_digest digest;
    const char *value_word = own->words[3];
    kv_code code = text_decode(&app_hash, kv_text(own->words[0]), true, "APPHASH", status);
    if (code == KV_OK && app_hash.size != sizeof(digest.bytes))
        code = kv_fail(status, KV_INVALID, "APPHASH: %zu bytes, not %zu", app_hash.size,
                       sizeof(digest.bytes));
    if (code == KV_OK)
        code = text_decode(&key, kv_text(own->words[2]), own->hex, "KEY", status);
    if (code == KV_OK && value_word != NULL)
        code = text_decode(&value, kv_text(value_word), own->hex, "VALUE", status);
    if (code == KV_OK) {
        vmap_proof proof = { .count = reader->count };
        for (size_t i = 0; i < reader->count; i++)
            proof.ops[i] =
                (vmap_proof_op){ reader->types[i].data != NULL ? reader->types[i].data : "",
                                 text_bytes(&reader->keys[i]), text_bytes(&reader->data[i]) };
        memcpy(digest.bytes, app_hash.data, sizeof(digest.bytes));
        kv_slice wanted = text_bytes(&value);
        code = vmap_proof_verify(&proof, &digest, own->words[1], text_bytes(&key),
                                 value_word != NULL ? &wanted : NULL, status);
    }
    text_clear(&app_hash);
    text_clear(&key);
    text_clear(&value);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct verify_proof own = { { NULL }, false };
    command_parse(&argp, &own, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct reader reader = { .count = 0 };
    kv_code code = read_proof(&reader, &status);
    if (code == KV_OK)
        code = check(&own, &reader, &status);
    for (size_t i = 0; i < VMAP_PROOF_OPS_MAX; i++) {
        text_clear(&reader.types[i]);
        text_clear(&reader.keys[i]);
        text_clear(&reader.data[i]);
    }
    if (code != KV_OK)
        return command_fail(&status);
    const char *proven = own.words[3] != NULL ? "present" : "absent";
    if (globals->json) {
        struct json out;
        json_start(&out, stdout);
        json_text(&out, "proven", proven);
        json_end(&out);
    } else {
        printf("proven %s\n", proven);
    }
    return EXIT_DONE;
}

const struct command command_verify_proof = { "verify-proof",
                                              "check a proof against an app hash", run };
