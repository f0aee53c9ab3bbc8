/* rocksdb_options.c - the table of options and what each one sets. */
#include "drivers/rocksdb_options.h"

#include "drivers/rocksdb_order.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

const kv_option_spec rocks_option_specs[] = {
    { "memory_budget", KV_OPTION_SIZE, "512MiB", 16 * MIB, UINT64_C(1) << 40,
      "What the engine may keep in memory: a quarter is for writes not yet on disk, the rest "
      "for blocks, indexes and filters read from it",
      NULL },
    { "write_buffers", KV_OPTION_SIZE, "0", 0, UINT64_C(1) << 40,
      "The part of memory_budget for writes not yet in tables; 0 is a quarter", NULL },
    { "block_size", KV_OPTION_SIZE, "4KiB", 1024, MIB,
      "Bytes in a block, the unit of reading and caching", NULL },
    { "bloom_bits", KV_OPTION_INT, "10", 0, 32,
      "Bits of bloom filter per key, which save reading for keys that are absent; 0 is none",
      NULL },
    { "compression", KV_OPTION_TEXT, "lz4", 0, 0,
      "How tables below the two youngest levels are compressed: none, snappy, lz4 or zstd",
      NULL },
    { "bottom_compression", KV_OPTION_TEXT, "same", 0, 0,
      "How the oldest level, most of the data, is compressed: none, snappy, lz4, zstd or same",
      NULL },
    { "max_open_files", KV_OPTION_INT, "1024", 16, 1000000,
      "Table files kept open; cut to three quarters of the process's limit", NULL },
    { "background_jobs", KV_OPTION_INT, "0", 0, 256,
      "Threads that write tables and merge them; 0 is one per core, and at least 2", NULL },
    { "wal_recovery", KV_OPTION_TEXT, "tolerate-tail", 0, 0,
      "What to accept in the log at opening: tolerate-tail (a last record cut short; anything "
      "else is damage), point-in-time (drop all from the first damage on) or absolute "
      "(nothing)",
      NULL },
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

struct choice {
    const char *text;
    int number;
};

static const struct choice compressions[] = {
    { "none", rocksdb_no_compression },
    { "snappy", rocksdb_snappy_compression },
    { "lz4", rocksdb_lz4_compression },
    { "zstd", rocksdb_zstd_compression },
    { "same", -1 },
    { NULL, 0 },
};
static const struct choice recoveries[] = {
    { "tolerate-tail", rocksdb_tolerate_corrupted_tail_records_recovery },
    { "point-in-time", rocksdb_point_in_time_recovery },
    { "absolute", rocksdb_absolute_consistency_recovery },
    { NULL, 0 },
};

static kv_code choose(const kv_options *options, const char *name, const struct choice *choices,
                      int *out, kv_status *status)
{
    const char *text = kv_options_text(options, name);
    for (; choices->text != NULL; choices++) {
        if (strcmp(choices->text, text) == 0) {
            *out = choices->number;
            return KV_OK;
        }
    }
    return kv_fail(status, KV_INVALID, "%s does not know \"%s\": see its help", name, text);
}

static void set_tables(const struct rocks_settings *settings, const kv_options *options)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    uint64_t bloom_bits = kv_options_number(options, "kv.rocksdb.bloom_bits");
    if (bloom_bits > 0) /* the table owns the policy */
        rocksdb_block_based_options_set_filter_policy(
            table, rocksdb_filterpolicy_create_bloom_full((double)bloom_bits));
    rocksdb_block_based_options_set_block_size(
        table, kv_options_number(options, "kv.rocksdb.block_size"));
    rocksdb_block_based_options_set_block_cache(table, settings->cache);
    /* Indexes and filters count against the cache: without this they grow with
     * the data, outside any budget. */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    rocksdb_block_based_options_set_format_version(table, 5);
    rocksdb_block_based_options_set_data_block_index_type(
        table, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
    rocksdb_options_set_block_based_table_factory(settings->options, table);
    rocksdb_block_based_options_destroy(table);
}

static kv_code set_compression(rocksdb_options_t *rocks, const kv_options *options,
                               kv_status *status)
{
    int middle = -1, bottom = -1;
    kv_code code = choose(options, "kv.rocksdb.compression", compressions, &middle, status);
    if (code == KV_OK)
        code = choose(options, "kv.rocksdb.bottom_compression", compressions, &bottom, status);
    if (code != KV_OK)
        return code;
    if (middle < 0)
        return kv_fail(status, KV_INVALID, "kv.rocksdb.compression cannot be \"same\"");

    int levels[7] = { rocksdb_no_compression, rocksdb_no_compression };
    for (size_t i = 2; i < sizeof(levels) / sizeof(levels[0]); i++)
        levels[i] = middle;
    rocksdb_options_set_compression_per_level(rocks, levels,
                                              sizeof(levels) / sizeof(levels[0]));
    rocksdb_options_set_bottommost_compression(rocks, bottom < 0 ? middle : bottom);
    return KV_OK;
}

/* Memtables: several families share the budget, one never takes it all. */
static void set_memory(const struct rocks_settings *settings, uint64_t write_buffers)
{
    rocksdb_options_t *rocks = settings->options;
    uint64_t one = write_buffers / 4 > MIB ? write_buffers / 4 : MIB;
    rocksdb_options_set_db_write_buffer_size(rocks, write_buffers);
    rocksdb_options_set_write_buffer_size(rocks, one);
    rocksdb_options_set_max_write_buffer_number(rocks, 3);
    rocksdb_options_set_target_file_size_base(rocks, one > 64 * MIB ? one : 64 * MIB);
    rocksdb_options_set_max_bytes_for_level_base(rocks,
                                                 4 * one > 256 * MIB ? 4 * one : 256 * MIB);
    rocksdb_options_set_max_total_wal_size(rocks, 2 * write_buffers);
}

static void set_resources(rocksdb_options_t *rocks, const kv_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int jobs = (int)kv_options_number(options, "kv.rocksdb.background_jobs");
    if (jobs == 0)
        jobs = cores < 2 ? 2 : (int)cores;
    rocksdb_options_increase_parallelism(rocks, jobs);
    rocksdb_options_set_max_background_jobs(rocks, jobs);

    uint64_t files = kv_options_number(options, "kv.rocksdb.max_open_files");
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        files > limit.rlim_cur / 4 * 3)
        files = limit.rlim_cur / 4 * 3;
    rocksdb_options_set_max_open_files(rocks, (int)files);
}

kv_code rocks_settings_init(struct rocks_settings *settings, const kv_options *options,
                            kv_status *status)
{
    uint64_t budget = kv_options_number(options, "kv.rocksdb.memory_budget");
    uint64_t write_buffers = kv_options_number(options, "kv.rocksdb.write_buffers");
    if (write_buffers == 0)
        write_buffers = budget / 4;
    if (write_buffers > budget / 2)
        return kv_fail(
            status, KV_INVALID,
            "kv.rocksdb.write_buffers is more than half of kv.rocksdb.memory_budget");

    int recovery = 0;
    kv_code code = choose(options, "kv.rocksdb.wal_recovery", recoveries, &recovery, status);
    if (code != KV_OK)
        return code;
    settings->options = rocksdb_options_create();
    settings->cache = rocksdb_cache_create_lru(budget - write_buffers);
    code = set_compression(settings->options, options, status);
    if (code != KV_OK) {
        rocks_settings_clear(settings);
        return code;
    }

    set_tables(settings, options);
    set_memory(settings, write_buffers);
    set_resources(settings->options, options);
    rocksdb_options_set_wal_recovery_mode(settings->options, recovery);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(settings->options, 1);
    rocksdb_options_set_bytes_per_sync(settings->options, MIB);
    rocksdb_options_set_keep_log_file_num(settings->options, 4);
    rocksdb_options_set_max_log_file_size(settings->options, 4 * MIB);
    rocksdb_options_set_stats_dump_period_sec(settings->options, 0);
    rocksdb_options_set_stats_persist_period_sec(settings->options, 0);
    rocks_order_prepare(settings->options);
    return KV_OK;
}

void rocks_settings_clear(struct rocks_settings *settings)
{
    if (settings->options != NULL)
        rocksdb_options_destroy(settings->options);
    if (settings->cache != NULL)
        rocksdb_cache_destroy(settings->cache);
    *settings = (struct rocks_settings){ NULL, NULL };
}
