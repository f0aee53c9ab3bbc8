/* json_walk.cc - simdjson's On-Demand parser with a C face; no exception leaves this file. */
#include "tools/json_walk.h"

#include <simdjson.h>
#include <string_view>

using namespace simdjson;

namespace
{

struct stopped {
}; /* the visitor has had enough */

struct walker {
    json_walk_visit *visit;
    void *context;
    kv_status *status;
    kv_code code;

    /* Throws to leave the recursion, caught in json_walk. */
    void tell(json_event event, std::string_view text)
    {
        code = visit(context, event, kv_bytes(text.data(), text.size()), status);
        if (code != KV_OK)
            throw stopped();
    }
    void value(ondemand::value value, int depth);
    void object(ondemand::object object, int depth);
    void array(ondemand::array array, int depth);
};

bool digits(std::string_view &text)
{
    size_t size = 0;
    while (size < text.size() && text[size] >= '0' && text[size] <= '9')
        size++;
    text.remove_prefix(size);
    return size > 0;
}

bool take(std::string_view &text, std::string_view any)
{
    bool there = !text.empty() && any.find(text[0]) != any.npos;
    text.remove_prefix(there ? 1 : 0);
    return there;
}

/* JSON's grammar of numbers, of any length: they are kept as written. */
bool is_number(std::string_view text)
{
    take(text, "-");
    if (!take(text, "0") && !digits(text))
        return false;
    if (take(text, ".") && !digits(text))
        return false;
    if (take(text, "eE")) {
        take(text, "+-");
        if (!digits(text))
            return false;
    }
    return text.empty();
}

void walker::value(ondemand::value value, int depth)
{
    switch (value.type()) {
    case ondemand::json_type::object:
        object(value.get_object(), depth + 1);
        break;
    case ondemand::json_type::array:
        array(value.get_array(), depth + 1);
        break;
    case ondemand::json_type::string:
        tell(JSON_WALK_TEXT, value.get_string());
        break;
    default: {
        std::string_view text = value.raw_json_token();
        text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
        if (text != "true" && text != "false" && text != "null" && !is_number(text))
            throw simdjson_error(NUMBER_ERROR);
        tell(JSON_WALK_PLAIN, text);
    }
    }
}

void walker::object(ondemand::object object, int depth)
{
    if (depth > JSON_WALK_DEPTH_MAX)
        throw simdjson_error(DEPTH_ERROR);
    tell(JSON_WALK_OBJECT, {});
    for (auto field : object) {
        tell(JSON_WALK_NAME, field.unescaped_key());
        value(field.value(), depth);
    }
    tell(JSON_WALK_END, {});
}

void walker::array(ondemand::array array, int depth)
{
    if (depth > JSON_WALK_DEPTH_MAX)
        throw simdjson_error(DEPTH_ERROR);
    tell(JSON_WALK_ARRAY, {});
    for (auto element : array)
        value(element.value(), depth);
    tell(JSON_WALK_END, {});
}

} // namespace

kv_code json_walk(kv_slice text, json_walk_visit *visit, void *context, size_t *at,
                  kv_status *status)
{
    walker walker = { visit, context, status, KV_OK };
    const char *start = static_cast<const char *>(text.data);
    ondemand::document document;
    *at = 0;
    if (text.size > JSON_WALK_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG, "over %u bytes of JSON", JSON_WALK_SIZE_MAX);
    try {
        ondemand::parser parser;
        document = parser.iterate(start, text.size, text.size + JSON_WALK_PADDING);
        auto where = [&] {
            const char *place = nullptr;
            bool more = document.current_location().get(place) == SUCCESS;
            *at = more && place != nullptr ? static_cast<size_t>(place - start) : text.size;
            return more;
        };
        try {
            walker.object(document.get_object(), 1);
        } catch (...) {
            where();
            throw;
        }
        return where() ? kv_fail(status, KV_INVALID, "more text after the object's end")
                       : KV_OK;
    } catch (const stopped &) {
        return walker.code;
    } catch (const simdjson_error &fault) {
        if (fault.error() == INCOMPLETE_ARRAY_OR_OBJECT) {
            *at = text.size > 0 ? text.size - 1 : 0;
            return kv_fail(status, KV_INVALID,
                           "no JSON: an object or array is not closed, or more text follows");
        }
        if (fault.error() == MEMALLOC)
            return kv_fail(status, KV_NO_MEMORY, "out of memory for the JSON text");
        return kv_fail(status, KV_INVALID, "no JSON: %s", fault.what());
    } catch (...) {
        return kv_fail(status, KV_NO_MEMORY, "out of memory for the JSON text");
    }
}
