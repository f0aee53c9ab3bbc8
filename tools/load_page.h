/* load_page.h - the live page of a load: requests per second and latencies, drawn as
 * they come. A thread of its own serves it; the load hands it figures. */
#ifndef TOOLS_LOAD_PAGE_H
#define TOOLS_LOAD_PAGE_H

#include "bench/load.h"

struct load_page;

/* Serve at ADDRESS: ":18888", "HOST:PORT" or "tcp://HOST:PORT". */
KV_MUST_CHECK kv_code load_page_open(const char *address, struct load_page **out,
                                     kv_status *status);
void load_page_close(struct load_page *page);
/* Where it is served, as http://HOST:PORT. */
const char *load_page_url(const struct load_page *page);
/* Hand over the figures so far; `ended` once, at the end. */
void load_page_update(struct load_page *page, const struct load_config *config,
                      const struct load_result *result, bool ended);

#endif /* TOOLS_LOAD_PAGE_H */
