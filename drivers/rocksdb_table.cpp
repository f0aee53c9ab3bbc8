/* rocksdb_table.cpp - RocksDB's own reader of one table, which has no C interface. */
#include "drivers/engine_damage.h"

#include <rocksdb/sst_file_reader.h>

bool rocks_table_is_damaged(const char *path)
{
    rocksdb::SstFileReader reader{ rocksdb::Options() };
    rocksdb::Status status = reader.Open(path);
    if (status.ok())
        status = reader.VerifyChecksum();
    return status.IsCorruption();
}
