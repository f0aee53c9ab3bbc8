/* stats.c - figures of a state. */
#include "vmap/state_private.h"

#include <stdio.h>

struct figures {
    void (*visit)(void *context, const kv_stat *stat);
    void *context;
};

static void figure(const struct figures *figures, const char *name, uint64_t number)
{
    kv_stat stat = { name, NULL, number };
    figures->visit(figures->context, &stat);
}

static void map_figures(const struct figures *figures, const struct meta_map *map)
{
    char name[STATE_MAP_NAME_SIZE_MAX + 32];
    snprintf(name, sizeof(name), "%s.keys", map->name);
    figure(figures, name, map->top.node.size);
    for (unsigned level = 0; map->top.node.size > 0 && level <= map->top.level; level++) {
        snprintf(name, sizeof(name), "%s.pages.%u", map->name, level);
        figure(figures, name, map->top.page_counts[level]);
    }
    snprintf(name, sizeof(name), "%s.page_longest", map->name);
    figure(figures, name, map->top.longest);
}

kv_code state_stats(struct state *self, void (*visit)(void *context, const kv_stat *stat),
                    void *context, kv_status *status)
{
    struct figures figures = { visit, context };
    state_view *view;
    kv_code code = state_view_open(self, 0, &view, status);
    if (code != KV_OK)
        return code;
    pthread_mutex_lock(&self->lock);
    struct meta_head head = self->head;
    uint64_t removed = self->removed;
    uint64_t faults = self->upkeep_faults, dropped = self->dropped_count;
    pthread_mutex_unlock(&self->lock);
    struct vtree_cache_figures cache = vtree_cache_look(self->store.cache);
    uint64_t keys = 0, size;
    for (size_t i = 0; i < view->info->count; i++)
        keys += view->info->maps[i].top.node.size;
    figure(&figures, "version", head.newest);
    figure(&figures, "version_oldest", head.oldest);
    figure(&figures, "versions", head.versions);
    figure(&figures, "maps", view->info->count);
    figure(&figures, "keys", keys);
    figure(&figures, "history_records", head.history_records - removed);
    figure(&figures, "history_garbage", head.history_garbage - removed);
    figure(&figures, "dropped_maps", dropped);
    figure(&figures, "upkeep_faults", faults);
    figure(&figures, "cache_hits", cache.hits);
    figure(&figures, "cache_misses", cache.misses);
    figure(&figures, "cache_pages", cache.pages);
    figure(&figures, "cache_size_bytes", cache.size);
    figure(&figures, "digests_leaf", atomic_load(&self->store.leaf_digests));
    figure(&figures, "digests_inner", atomic_load(&self->store.inner_digests));
    figure(&figures, "digests_rank", atomic_load(&self->store.rank_digests));
    kv_space *const spaces[] = { self->store.values, self->store.pages, self->store.history,
                                 self->store.meta };
    static const char *const names[] = { "size_values_bytes", "size_pages_bytes",
                                         "size_history_bytes", "size_versions_bytes" };
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        if (kv_approximate_size(spaces[i], NULL, &size, NULL) == KV_OK)
            figure(&figures, names[i], size);
    }
    for (size_t i = 0; i < view->info->count; i++)
        map_figures(&figures, &view->info->maps[i]);
    state_view_close(view);
    return KV_OK;
}
