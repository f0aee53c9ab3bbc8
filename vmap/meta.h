/*
 * meta.h - what a state keeps about itself: the head, one record per kept
 * version, one per map that is being built, one per dropped map that is not cleaned up
 * yet. Private.
 *
 *     state    "head"                  -> struct meta_head
 *              "version/" be64 version -> struct meta_version
 *              "building/" be32 map    -> nothing, or META_BUILDING_SPILLED: it has
 *                                         records, and no version has it
 *              "dropped/" be32 map     -> varint: the last version that has it
 *              "removed"               -> varint: history records that upkeep has removed
 *
 * The head is written by the thread that commits, "removed" by the one that cleans up, each
 * in the batch that it counts. So the history that is there is the head's count less
 * "removed", exactly and after any crash.
 */
#ifndef VMAP_META_H
#define VMAP_META_H

#include "vmap/reader.h"
#include "vmap/state.h"

enum { META_FORMAT = 1, META_KEY_SIZE = 16 };

/* What a building/ record holds when the map is a working set's (spill.c); else nothing. */
enum { META_BUILDING_SPILLED = 1 };

/* A change of the whole state that is under way, and goes on at the next open. */
enum meta_pending {
    META_PENDING_NONE,
    META_PENDING_APPLY, /* staged changes become version `target` */
    META_PENDING_LOAD   /* history brings back version `target` */
};

struct meta_head {
    uint64_t newest, oldest;
    uint64_t versions; /* kept; commits may leave gaps */
    uint32_t map_next; /* ids are never used twice */
    enum meta_pending pending;
    uint64_t target;
    bool expects; /* APPLY must reach `expected`, or goes back */
    vmap_digest expected;
    uint64_t history_records; /* written, less those that a return took back */
    uint64_t history_garbage; /* of these, the ones that no kept version needs */
};

struct meta_map {
    char name[STATE_MAP_NAME_SIZE_MAX + 1];
    struct vtree_top top;
};

struct meta_version {
    uint64_t version;
    vmap_digest app_hash;
    uint64_t history_records; /* that its commit wrote, for the version before it */
    size_t count;
    struct meta_map *maps;  /* in byte order of their names */
    vmap_named_root *roots; /* the same, as vmap_app_hash takes them */
};

kv_slice meta_key_head(void);
kv_slice meta_key_removed(void);
kv_slice meta_key_version(uint8_t key[META_KEY_SIZE], uint64_t version);
kv_slice meta_key_building(uint8_t key[META_KEY_SIZE], uint32_t map);
kv_slice meta_key_dropped(uint8_t key[META_KEY_SIZE], uint32_t map);
/* The map that such a key names behind its prefix; false: it is none. */
bool meta_key_map(kv_slice key, size_t prefix_size, uint32_t *map);

bool meta_head_encode(const struct meta_head *head, struct vtree_buffer *out);
bool meta_head_decode(kv_slice record, struct meta_head *head);

/* Room for `count` maps, all zero. NULL: out of memory. */
struct meta_version *meta_version_new(size_t count);
void meta_version_free(struct meta_version *version);
/* Fill in roots and app hash from the maps. */
void meta_version_seal(struct meta_version *version);
bool meta_version_encode(const struct meta_version *version, struct vtree_buffer *out);
struct meta_version *meta_version_decode(kv_slice record, uint64_t number);
/* The map called `name`, or NULL. */
const struct meta_map *meta_version_find(const struct meta_version *version, const char *name);
/* The same by number. */
const struct meta_map *meta_version_find_id(const struct meta_version *version, uint32_t map);

#endif /* VMAP_META_H */
