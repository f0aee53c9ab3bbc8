/* rocksdb_order.cpp - writes in key order, each from where the one before it went. */
#include "drivers/rocksdb_order.h"

#include <memory>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/version.h>

static_assert(ROCKSDB_MAJOR >= 6, "look how db/c.cc of this RocksDB defines handles");

/* As db/c.cc of every RocksDB defines it. */
struct rocksdb_options_t {
    rocksdb::Options rep;
};

namespace
{

thread_local bool in_order;

/* RocksDB keeps one place for each answer of Transform, where it answers true to InDomain. */
class order_hint : public rocksdb::SliceTransform
{
  public:
    const char *Name() const override
    {
        return "statekv.order";
    }
    rocksdb::Slice Transform(const rocksdb::Slice &) const override
    {
        return rocksdb::Slice();
    }
    bool InDomain(const rocksdb::Slice &) const override
    {
        return in_order;
    }
};

} // namespace

void rocks_order_prepare(rocksdb_options_t *options)
{
    options->rep.memtable_insert_with_hint_prefix_extractor = std::make_shared<order_hint>();
}

void rocks_order_set(bool on)
{
    in_order = on;
}
