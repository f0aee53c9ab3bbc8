/* leveldb_table.cpp - LevelDB's own reader of one table, which has no C interface. */
#include "drivers/engine_damage.h"

#include <cstdint>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <memory>

static leveldb::Status read_blocks(leveldb::Table *table)
{
    leveldb::ReadOptions read;
    read.verify_checksums = true;
    read.fill_cache = false;
    std::unique_ptr<leveldb::Iterator> iter(table->NewIterator(read));
    for (iter->SeekToFirst(); iter->Valid() && iter->status().ok(); iter->Next()) {
    }
    return iter->status();
}

bool level_table_is_damaged(const char *path)
{
    leveldb::Env *env = leveldb::Env::Default();
    leveldb::Options options;
    options.paranoid_checks = true; /* the index, too */
    uint64_t size = 0;
    leveldb::RandomAccessFile *opened_file = nullptr;
    leveldb::Table *opened_table = nullptr;
    leveldb::Status status = env->GetFileSize(path, &size);
    if (status.ok())
        status = env->NewRandomAccessFile(path, &opened_file);
    std::unique_ptr<leveldb::RandomAccessFile> file(opened_file);
    if (status.ok())
        status = leveldb::Table::Open(options, file.get(), size, &opened_table);
    std::unique_ptr<leveldb::Table> table(opened_table);
    if (status.ok())
        status = read_blocks(table.get());
    return status.IsCorruption();
}
