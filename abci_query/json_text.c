/*
 * json_text.c - JSON as text: where a member's source stands, and a refusal in
 * the words of Go's encoding/json. Both run only when something is unusual.
 */
#include "abci_query/json.h"

#include <stdio.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

const char *query_json_type_name(enum query_json_type type)
{
    switch (type) {
    case QUERY_JSON_NULL:
        return "null";
    case QUERY_JSON_BOOL:
        return "bool";
    case QUERY_JSON_INT:
    case QUERY_JSON_NATURAL:
    case QUERY_JSON_REAL:
        return "number";
    case QUERY_JSON_TEXT:
        return "string";
    case QUERY_JSON_ARRAY:
        return "array";
    case QUERY_JSON_OBJECT:
        break;
    }
    return "object";
}

/* ---- The source of a member --------------------------------------------- */

/* Past the string that begins at `at`. */
static size_t skip_string(const char *text, size_t size, size_t at)
{
    for (at++; at < size && text[at] != '"'; at++)
        if (text[at] == '\\')
            at++;
    return at < size ? at + 1 : size;
}

/* Past the value that begins at `at`. */
static size_t skip_value(const char *text, size_t size, size_t at)
{
    size_t depth = 0;
    while (at < size) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(text, size, at);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
            continue;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return at; /* the container's own end, after a bare word */
            depth--;
            at++;
        } else if (depth == 0 && (c == ',' || is_space(c))) {
            return at;
        } else {
            at++;
            if (depth > 0 || (at < size && strchr(",]} \t\r\n", text[at]) == NULL))
                continue;
        }
        if (depth == 0)
            return at;
    }
    return at;
}

static size_t skip_spaces(const char *text, size_t size, size_t at)
{
    while (at < size && (is_space(text[at]) || text[at] == ',' || text[at] == ':'))
        at++;
    return at;
}

kv_slice query_json_source_next(struct query_json_source_walk *walk)
{
    const char *text = walk->text.data;
    size_t size = walk->text.size;
    size_t open = skip_spaces(text, size, 0);
    size_t at = walk->at;
    if (at == 0) {
        if (open >= size || (text[open] != '{' && text[open] != '['))
            return kv_bytes(NULL, 0);
        at = open + 1;
    }
    at = skip_spaces(text, size, at);
    if (at >= size || text[at] == '}' || text[at] == ']')
        return kv_bytes(NULL, 0);

    if (text[open] == '{')
        at = skip_spaces(text, size, skip_string(text, size, at));
    walk->at = skip_value(text, size, at);
    return kv_bytes(text + at, walk->at - at);
}

kv_slice query_json_source(kv_slice text, size_t index)
{
    struct query_json_source_walk walk = { text, 0 };
    kv_slice source = query_json_source_next(&walk);
    for (size_t i = 0; i < index && source.size > 0; i++)
        source = query_json_source_next(&walk);
    return source;
}

/* ---- Go's refusals ------------------------------------------------------ */

enum { STACK_SIZE = 1024 }; /* at least the deepest nesting allowed */

struct scan {
    const char *text;
    size_t size, at;
    char *out;
    size_t out_size;
    size_t depth, depth_max;
    char stack[STACK_SIZE]; /* '{' or '[' */
};

/* A byte as Go quotes it: as the character with that number. */
static void quote_byte(uint8_t c, char out[12])
{
    if (c == '\'' || c == '\\')
        snprintf(out, 12, "'\\%c'", c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(out, 12, "'\\%c'", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c == '\a' || c == '\b' || c == '\f' || c == '\v')
        snprintf(out, 12, "'\\%c'", c == '\a' ? 'a' : c == '\b' ? 'b' : c == '\f' ? 'f' : 'v');
    else if (c < 0x20 || c == 0x7f)
        snprintf(out, 12, "'\\x%02x'", c);
    else if (c < 0x7f)
        snprintf(out, 12, "'%c'", c);
    else if (c <= 0xa0 || c == 0xad)
        snprintf(out, 12, "'\\u%04x'", c);
    else
        snprintf(out, 12, "'%c%c'", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
}

/* Always false: the text is refused at the current byte. */
static bool refuse(struct scan *scan, const char *where)
{
    if (scan->at >= scan->size) {
        snprintf(scan->out, scan->out_size, "unexpected end of JSON input");
        return false;
    }
    char quoted[12];
    quote_byte((uint8_t)scan->text[scan->at], quoted);
    snprintf(scan->out, scan->out_size, "invalid character %s %s", quoted, where);
    return false;
}

static char peek(const struct scan *scan)
{
    return (char)(scan->at < scan->size ? scan->text[scan->at] : '\0');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool scan_string(struct scan *scan)
{
    for (scan->at++; scan->at < scan->size && scan->text[scan->at] != '"'; scan->at++) {
        if ((uint8_t)scan->text[scan->at] < 0x20)
            return refuse(scan, "in string literal");
        if (scan->text[scan->at] != '\\')
            continue;
        scan->at++;
        char c = peek(scan);
        if (c == 'u') {
            for (int i = 0; i < 4; i++) {
                scan->at++;
                if (!is_hex(peek(scan)))
                    return refuse(scan, "in \\u hexadecimal character escape");
            }
        } else if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) {
            return refuse(scan, "in string escape code");
        }
    }
    if (scan->at >= scan->size)
        return refuse(scan, "");
    scan->at++;
    return true;
}

static bool scan_number(struct scan *scan)
{
    if (peek(scan) == '-')
        scan->at++;
    if (!is_digit(peek(scan)))
        return refuse(scan, "in numeric literal");
    if (peek(scan) == '0')
        scan->at++;
    else
        while (is_digit(peek(scan)))
            scan->at++;
    if (peek(scan) == '.') {
        scan->at++;
        if (!is_digit(peek(scan)))
            return refuse(scan, "after decimal point in numeric literal");
        while (is_digit(peek(scan)))
            scan->at++;
    }
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        scan->at++;
        if (peek(scan) == '+' || peek(scan) == '-')
            scan->at++;
        if (!is_digit(peek(scan)))
            return refuse(scan, "in exponent of numeric literal");
        while (is_digit(peek(scan)))
            scan->at++;
    }
    return true;
}

static bool scan_word(struct scan *scan, const char *word)
{
    for (size_t i = 0; word[i] != '\0'; i++, scan->at++) {
        char where[48];
        if (peek(scan) == word[i])
            continue;
        snprintf(where, sizeof(where), "in literal %s (expecting '%c')", word, word[i]);
        return refuse(scan, where);
    }
    return true;
}

static void scan_spaces(struct scan *scan)
{
    while (scan->at < scan->size && is_space(scan->text[scan->at]))
        scan->at++;
}

static bool scan_name(struct scan *scan)
{
    scan_spaces(scan);
    if (peek(scan) != '"')
        return refuse(scan, "looking for beginning of object key string");
    if (!scan_string(scan))
        return false;
    scan_spaces(scan);
    if (peek(scan) != ':')
        return refuse(scan, "after object key");
    scan->at++;
    return true;
}

/* One value, or the opening of one that holds others; `*opened` tells. */
static bool scan_value(struct scan *scan, bool *opened)
{
    *opened = false;
    scan_spaces(scan);
    char c = peek(scan);
    if (c == '"')
        return scan_string(scan);
    if (c == '-' || is_digit(c))
        return scan_number(scan);
    if (c == 't')
        return scan_word(scan, "true");
    if (c == 'f')
        return scan_word(scan, "false");
    if (c == 'n')
        return scan_word(scan, "null");
    if (c != '{' && c != '[')
        return refuse(scan, "looking for beginning of value");

    if (scan->depth >= scan->depth_max || scan->depth >= STACK_SIZE) {
        snprintf(scan->out, scan->out_size, "exceeded max depth");
        return false;
    }
    scan->stack[scan->depth++] = c;
    scan->at++;
    scan_spaces(scan);
    *opened = peek(scan) != (c == '{' ? '}' : ']');
    return c == '[' || !*opened || scan_name(scan);
}

/* After a value: close what ends here, or step to the next; false when refused.
 * `*more` tells whether another value follows. */
static bool scan_after(struct scan *scan, bool *more)
{
    *more = false;
    while (scan->depth > 0) {
        bool object = scan->stack[scan->depth - 1] == '{';
        scan_spaces(scan);
        char c = peek(scan);
        if (c == (object ? '}' : ']')) {
            scan->at++;
            scan->depth--;
            continue;
        }
        if (c != ',')
            return refuse(scan, object ? "after object key:value pair" : "after array element");
        scan->at++;
        *more = true;
        return !object || scan_name(scan);
    }
    scan_spaces(scan);
    return scan->at == scan->size || refuse(scan, "after top-level value");
}

bool query_json_complain(kv_slice text, size_t depth_max, char *out, size_t out_size)
{
    struct scan scan = { .text = text.data, .size = text.size, .out = out };
    scan.out_size = out_size;
    scan.depth_max = depth_max;
    for (bool more = true; more;) {
        bool opened;
        if (!scan_value(&scan, &opened) || (!opened && !scan_after(&scan, &more)))
            return false;
    }
    snprintf(out, out_size,
             query_json_utf8(text) ? "a number or character is out of range" : "invalid UTF-8");
    return true;
}
