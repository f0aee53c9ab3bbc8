/* json.cc - simdjson's DOM with a C face; no exception leaves this file. */
#include "abci_query/json.h"

#include <cstring>
#include <new>
#include <simdjson.h>

using namespace simdjson;

static_assert(SIMDJSON_PADDING <= 64, "buffer.h keeps less padding than simdjson reads");
static_assert(sizeof(dom::element) == 2 * sizeof(size_t), "an element is a tape reference");
static_assert(sizeof(dom::object::iterator) == 2 * sizeof(size_t),
              "so is a place in an object");
static_assert(sizeof(dom::array::iterator) == 2 * sizeof(size_t), "so is a place in an array");

struct query_json_parser {
    dom::parser parser;
    explicit query_json_parser(size_t size_max) : parser(size_max)
    {
    }
};

/* What simdjson calls tape_ref: the document and a place in it. */
struct place {
    const void *document;
    size_t index;
};

static place place_of(const void *handle)
{
    place out;
    memcpy(&out, handle, sizeof(out));
    return out;
}

static void describe(const dom::element &element, query_json *out)
{
    place where = place_of(&element);
    out->document = where.document;
    out->index = where.index;
    switch (element.type()) {
    case dom::element_type::BOOL:
        out->type = QUERY_JSON_BOOL;
        out->as.boolean = element.get_bool().value_unsafe();
        break;
    case dom::element_type::INT64:
        out->type = QUERY_JSON_INT;
        out->as.integer = element.get_int64().value_unsafe();
        break;
    case dom::element_type::UINT64:
        out->type = QUERY_JSON_NATURAL;
        out->as.natural = element.get_uint64().value_unsafe();
        break;
    case dom::element_type::DOUBLE:
        out->type = QUERY_JSON_REAL;
        out->as.real = element.get_double().value_unsafe();
        break;
    case dom::element_type::STRING: {
        std::string_view text = element.get_string().value_unsafe();
        out->type = QUERY_JSON_TEXT;
        out->as.text = kv_bytes(text.data(), text.size());
        break;
    }
    case dom::element_type::ARRAY:
        out->type = QUERY_JSON_ARRAY;
        break;
    case dom::element_type::OBJECT:
        out->type = QUERY_JSON_OBJECT;
        break;
    default:
        out->type = QUERY_JSON_NULL;
        break;
    }
}

template <class T> static T restore(const void *document, size_t index)
{
    T out;
    place where = { document, index };
    memcpy(static_cast<void *>(&out), &where, sizeof(where));
    return out;
}

kv_code query_json_parser_new(size_t size_max, size_t depth_max, query_json_parser **out)
{
    *out = nullptr;
    try {
        query_json_parser *parser = new query_json_parser(size_max);
        if (parser->parser.allocate(size_max, depth_max) != SUCCESS) {
            delete parser;
            return KV_NO_MEMORY;
        }
        *out = parser;
        return KV_OK;
    } catch (...) {
        return KV_NO_MEMORY;
    }
}

void query_json_parser_free(query_json_parser *parser)
{
    delete parser;
}

kv_code query_json_parse(query_json_parser *parser, kv_slice text, query_json *out)
{
    try {
        dom::element root;
        error_code fault =
            parser->parser.parse(static_cast<const char *>(text.data), text.size, false)
                .get(root);
        if (fault == MEMALLOC)
            return KV_NO_MEMORY;
        if (fault == DEPTH_ERROR || fault == CAPACITY)
            return KV_TOO_BIG;
        if (fault != SUCCESS)
            return KV_INVALID;
        describe(root, out);
        return KV_OK;
    } catch (...) {
        return KV_NO_MEMORY;
    }
}

void query_json_walk_start(query_json_walk *walk, const query_json *value)
{
    dom::element element = restore<dom::element>(value->document, value->index);
    walk->object = value->type == QUERY_JSON_OBJECT;
    place first, end;
    if (walk->object) {
        dom::object object = element.get_object().value_unsafe();
        dom::object::iterator a = object.begin(), b = object.end();
        first = place_of(&a);
        end = place_of(&b);
    } else {
        dom::array array = element.get_array().value_unsafe();
        dom::array::iterator a = array.begin(), b = array.end();
        first = place_of(&a);
        end = place_of(&b);
    }
    walk->document = first.document;
    walk->index = first.index;
    walk->end = end.index;
}

size_t query_json_walk_next(query_json_walk *walk, query_json_member *out, size_t limit)
{
    size_t count = 0;
    if (walk->object) {
        auto at = restore<dom::object::iterator>(walk->document, walk->index);
        for (; count < limit && place_of(&at).index < walk->end; ++at, count++) {
            std::string_view name = at.key();
            out[count].name = kv_bytes(name.data(), name.size());
            describe(at.value(), &out[count].value);
        }
        walk->index = place_of(&at).index;
    } else {
        auto at = restore<dom::array::iterator>(walk->document, walk->index);
        for (; count < limit && place_of(&at).index < walk->end; ++at, count++) {
            out[count].name = kv_bytes(nullptr, 0);
            describe(*at, &out[count].value);
        }
        walk->index = place_of(&at).index;
    }
    return count;
}

size_t query_json_count(const query_json *value)
{
    query_json_walk walk;
    query_json_member members[32];
    size_t count = 0;
    query_json_walk_start(&walk, value);
    for (size_t n; (n = query_json_walk_next(&walk, members, 32)) > 0;)
        count += n;
    return count;
}

bool query_json_utf8(kv_slice text)
{
    return text.size == 0 || validate_utf8(static_cast<const char *>(text.data), text.size);
}
