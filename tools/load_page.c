/* load_page.c - the page, its data, and the thread that serves both. */
#include "tools/load_page.h"

#include "abci_query/transport.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS_MAX = 3600 };

/* Drawn by the browser from /data; no library, no other host. */
static const char page_text[] =
    "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>statekv load</title>"
    "<style>body{font:15px system-ui,sans-serif;margin:2em auto;max-width:60em;color:#222}"
    "h1{font-size:1.3em}h2{font-size:1em;margin:1.5em 0 .3em}svg{width:100%;height:14em;"
    "background:#f6f7f9;border-radius:6px}td{padding:.1em 1.2em .1em 0}"
    "path{fill:none;stroke-width:2}text{font-size:12px;fill:#666}"
    "@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}svg{background:#"
    "22252b}}"
    "</style></head><body><h1>statekv load <span id=\"state\"></span></h1>"
    "<table id=\"figures\"></table>"
    "<h2>Requests per second: <span id=\"rps\">-</span></h2><svg id=\"rate\"></svg>"
    "<h2>Latency in ms: <span style=\"color:#2a7\">P50 <span id=\"p50\">-</span></span>, "
    "<span style=\"color:#27c\">P90 <span id=\"p90\">-</span></span>, "
    "<span style=\"color:#c33\">P99 <span id=\"p99\">-</span></span></h2>"
    "<svg id=\"latency\"></svg><pre id=\"report\"></pre><script>\n"
    "const $=id=>document.getElementById(id);\n"
    "function draw(svg,series){const w=svg.clientWidth||900,h=svg.clientHeight||220,left=60;"
    "const top=Math.max(1e-9,...series.flatMap(s=>s.values))*1.1;"
    "const n=Math.max(2,...series.map(s=>s.values.length));"
    "const x=i=>left+i*(w-left-10)/(n-1),y=v=>h-18-v*(h-30)/top;"
    "let out='';for(let i=0;i<=4;i++){const v=top*i/4;out+=`<line x1=\"${left}\" "
    "x2=\"${w-10}\" "
    "y1=\"${y(v)}\" y2=\"${y(v)}\" stroke=\"#8884\"/><text x=\"4\" y=\"${y(v)+4}\">"
    "${v>=100?Math.round(v):v.toFixed(2)}</text>`}"
    "for(const s of series)out+=`<path class=\"series\" stroke=\"${s.color}\" "
    "data-points=\"${s.values.length}\" "
    "d=\"${s.values.map((v,i)=>(i?'L':'M')+x(i).toFixed(1)+' '+y(v).toFixed(1)).join('')}\"/>`;"
    "svg.innerHTML=out}\n"
    "async function tick(){let d;try{d=await(await fetch('/data')).json()}catch(e){"
    "$('state').textContent='(ended)';return}"
    "const last=a=>a.length?a[a.length-1]:0;"
    "$('rps').textContent=last(d.rps).toFixed(0);$('p50').textContent=last(d.p50).toFixed(3);"
    "$('p90').textContent=last(d.p90).toFixed(3);$('p99').textContent=last(d.p99).toFixed(3);"
    "draw($('rate'),[{color:'#27c',values:d.rps}]);"
    "draw($('latency'),[{color:'#2a7',values:d.p50},{color:'#27c',values:d.p90},"
    "{color:'#c33',values:d.p99}]);"
    "$('figures').innerHTML=Object.entries({Elapsed:d.elapsed.toFixed(1)+' s',Count:d.count,"
    "Good:d.good,Errors:d.errors,Connections:d.connections}).map(([k,v])=>`<td>${k}</td>"
    "<td id=\"${k.toLowerCase()}\"><b>${v}</b></td>`).join('');"
    "$('report').textContent=d.report;$('state').textContent=d.ended?'(ended)':'(running)';"
    "if(!d.ended)setTimeout(tick,500)}\ntick();\n</script></body></html>\n";

struct point {
    double rps, p50_ms, p90_ms, p99_ms;
};

struct load_page {
    struct query_transport transport;
    struct query_http http;
    struct query_worker *worker;
    pthread_t thread;
    bool running;
    char url[300];
    pthread_mutex_t lock; /* over all below */
    size_t count;
    struct point points[POINTS_MAX];
    struct query_buffer report;
    double elapsed_s;
    uint64_t requests, good, connections;
    uint64_t good_before, elapsed_before;
    struct bench_histogram before, now; /* of the last second */
    bool ended;
};

static void write_series(struct query_buffer *out, const struct load_page *page,
                         const char *name, size_t offset)
{
    query_buffer_format(out, ",\"%s\":[", name);
    for (size_t i = 0; i < page->count; i++) {
        double value;
        memcpy(&value, (const char *)&page->points[i] + offset, sizeof(value));
        query_buffer_format(out, i == 0 ? "%.4f" : ",%.4f", value);
    }
    query_buffer_literal(out, "]");
}

static void answer(void *context, const struct query_http_request *request,
                   struct query_http_answer *out)
{
    struct load_page *page = context;
    kv_slice path = request->path;
    if (path.size == 1) {
        out->content_type = "text/html; charset=utf-8";
        query_buffer_add(out->body, page_text, sizeof(page_text) - 1);
    } else if (path.size == 5 && memcmp(path.data, "/data", 5) == 0) {
        out->content_type = "application/json";
        pthread_mutex_lock(&page->lock);
        query_buffer_format(
            out->body,
            "{\"elapsed\":%.3f,\"count\":%llu,\"good\":%llu,\"errors\":%llu,"
            "\"connections\":%llu,\"ended\":%s",
            page->elapsed_s, (unsigned long long)page->requests, (unsigned long long)page->good,
            (unsigned long long)(page->requests - page->good),
            (unsigned long long)page->connections, page->ended ? "true" : "false");
        write_series(out->body, page, "rps", offsetof(struct point, rps));
        write_series(out->body, page, "p50", offsetof(struct point, p50_ms));
        write_series(out->body, page, "p90", offsetof(struct point, p90_ms));
        write_series(out->body, page, "p99", offsetof(struct point, p99_ms));
        query_buffer_literal(out->body, ",\"report\":");
        query_buffer_json(out->body, kv_bytes(page->report.data, page->report.size));
        query_buffer_literal(out->body, "}");
        pthread_mutex_unlock(&page->lock);
    } else {
        out->status = 404;
        out->content_type = "text/plain";
        query_buffer_literal(out->body, "404 page not found\n");
    }
}

static void *serve(void *context)
{
    query_worker_run(((struct load_page *)context)->worker);
    return NULL;
}

static kv_code start(struct load_page *page, const char *address, kv_status *status)
{
    struct query_worker_hooks hooks = { 0 };
    struct query_listener listener = { .fd = -1 };
    char full[300];
    snprintf(full, sizeof(full), "%s%s%s", strncmp(address, "tcp://", 6) == 0 ? "" : "tcp://",
             address[0] == ':' ? "127.0.0.1" : "", address);
    page->transport.timeouts = (struct query_timeouts){ 10000, 10000, 10000, 60000, 100 };
    page->transport.connections_max = 64;
    page->http.limits = (struct query_http_limits){ 16384, 128, 1024, 1024 };
    page->http.handler.context = page;
    page->http.handler.answer = answer;
    kv_code code = query_http_init(&page->http, status);
    if (code == KV_OK)
        code = query_listener_bind(full, false, &listener, status);
    if (code == KV_OK) {
        snprintf(page->url, sizeof(page->url), "http://%s", listener.name + 6);
        code = query_worker_new(&page->transport, &listener, 1, &page->http, NULL, &hooks,
                                &page->worker, status);
        query_listener_close(&listener, false);
    }
    if (code == KV_OK) {
        page->running = pthread_create(&page->thread, NULL, serve, page) == 0;
        if (!page->running)
            code = kv_fail(status, KV_INTERNAL, "the page's thread did not start");
    }
    return code;
}

kv_code load_page_open(const char *address, struct load_page **out, kv_status *status)
{
    *out = NULL;
    struct load_page *page = calloc(1, sizeof(*page));
    if (page == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the page");
    pthread_mutex_init(&page->lock, NULL);
    kv_code code = start(page, address, status);
    if (code != KV_OK) {
        load_page_close(page);
        return code;
    }
    *out = page;
    return KV_OK;
}

void load_page_close(struct load_page *page)
{
    if (page == NULL)
        return;
    if (page->running) {
        query_worker_stop(page->worker);
        pthread_join(page->thread, NULL);
    }
    query_worker_free(page->worker);
    query_http_clear(&page->http);
    query_buffer_clear(&page->report);
    pthread_mutex_destroy(&page->lock);
    free(page);
}

const char *load_page_url(const struct load_page *page)
{
    return page->url;
}

/* A point from what came since the last one. */
static void add_point(struct load_page *page, const struct load_result *result)
{
    double seconds = (double)(result->elapsed_ns - page->elapsed_before) / 1e9;
    bench_histogram_clear(&page->now);
    for (size_t i = 0; i < BENCH_HISTOGRAM_BUCKETS; i++) {
        page->now.buckets[i] = result->latency.buckets[i] - page->before.buckets[i];
        page->now.count += page->now.buckets[i];
    }
    page->now.min = result->latency.min;
    page->now.max = result->latency.max;
    page->before = result->latency;
    struct point *point = &page->points[page->count++];
    point->rps = (double)(result->good - page->good_before) / seconds;
    point->p50_ms = (double)bench_histogram_percentile(&page->now, 50) / 1e6;
    point->p90_ms = (double)bench_histogram_percentile(&page->now, 90) / 1e6;
    point->p99_ms = (double)bench_histogram_percentile(&page->now, 99) / 1e6;
    page->good_before = result->good;
    page->elapsed_before = result->elapsed_ns;
}

void load_page_update(struct load_page *page, const struct load_config *config,
                      const struct load_result *result, bool ended)
{
    if (page == NULL)
        return;
    pthread_mutex_lock(&page->lock);
    page->elapsed_s = (double)result->elapsed_ns / 1e9;
    page->requests = result->count;
    page->good = result->good;
    page->connections = config->connections;
    page->ended = ended;
    uint64_t since = result->elapsed_ns - page->elapsed_before;
    if (page->count < POINTS_MAX && (since >= 1000000000 || (ended && since > 100000000)))
        add_point(page, result);
    page->report.size = 0;
    load_report_text(config, result, &page->report);
    pthread_mutex_unlock(&page->lock);
}
