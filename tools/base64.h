/* base64.h - nettle's base64 on texts. */
#ifndef TOOLS_BASE64_H
#define TOOLS_BASE64_H

#include "tools/text.h"

void base64_encode(struct text *text, kv_slice bytes);

/* False where `source` is no padded base64. */
KV_MUST_CHECK bool base64_decode(struct text *text, kv_slice source);

#endif /* TOOLS_BASE64_H */
