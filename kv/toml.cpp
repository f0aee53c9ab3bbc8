/* toml.cpp - toml++ behind kv/toml.h; no C++ leaves this file. */
#include "kv/toml.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_UNRELEASED_FEATURES 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

#include <string>

namespace
{

struct walk {
    kv_code (*visit)(void *context, const kv_toml_item *item);
    void *context;
};

/* A list of texts joined by commas; false if it holds anything else. */
bool join(const toml::array &list, std::string &out)
{
    for (const toml::node &item : list) {
        const auto *text = item.as_string();
        if (text == nullptr)
            return false;
        if (&item != list.get(0))
            out += ',';
        out += text->get();
    }
    return true;
}

/* Fill in the kind of `node` and its value; `text` keeps the bytes. */
void describe(const toml::node &node, kv_toml_item &item, std::string &text)
{
    if (node.is_table()) {
        item.kind = KV_TOML_TABLE;
    } else if (const auto *flag = node.as_boolean()) {
        item.kind = KV_TOML_BOOL;
        item.number = flag->get() ? 1 : 0;
    } else if (const auto *number = node.as_integer()) {
        item.kind = KV_TOML_INT;
        item.number = number->get();
    } else if (const auto *string = node.as_string()) {
        item.kind = KV_TOML_TEXT;
        text = string->get();
    } else if (const auto *list = node.as_array(); list != nullptr && join(*list, text)) {
        item.kind = KV_TOML_TEXT;
    }
    item.text = text.c_str();
}

kv_code visit_table(const walk &walk, const std::string &prefix, const toml::table &table)
{
    for (auto &&[key, node] : table) {
        const std::string name = prefix + std::string(key.str());
        std::string text;
        kv_toml_item item = { name.c_str(), KV_TOML_OTHER, nullptr, 0,
                              static_cast<unsigned>(key.source().begin.line) };
        describe(node, item, text);
        kv_code code = walk.visit(walk.context, &item);
        if (code == KV_OK && node.is_table())
            code = visit_table(walk, name + ".", *node.as_table());
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

} /* namespace */

kv_code kv_toml_read(const char *document, size_t size, const char *name,
                     kv_code (*visit)(void *context, const kv_toml_item *item), void *context,
                     kv_status *status)
try {
    const toml::parse_result parsed = toml::parse(std::string_view(document, size));
    if (!parsed) {
        const toml::parse_error &error = parsed.error();
        const std::string text(error.description());
        return kv_fail(status, KV_INVALID, "%s:%u:%u: %s", name, error.source().begin.line,
                       error.source().begin.column, text.c_str());
    }
    return visit_table({ visit, context }, "", parsed.table());
} catch (...) {
    return kv_fail(status, KV_NO_MEMORY, "no memory to read %s", name);
}
