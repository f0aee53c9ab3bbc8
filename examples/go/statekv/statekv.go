// Package statekv is a small wrapper of kv.h: what a Go program needs to keep the
// state of a chain. Handles are freed by hand, as in C.
package statekv

// #include <kv/kv.h>
// #include <stdlib.h>
//
// // Slices are made on this side, so that no Go pointer is kept in C memory.
// static kv_code get(kv_space *space, void *key, size_t key_size, kv_value *out, kv_status *status)
// {
//     return kv_get(space, NULL, kv_bytes(key, key_size), out, status);
// }
// static void batch_put(kv_batch *batch, kv_space *space, void *key, size_t key_size,
//                       void *value, size_t value_size)
// {
//     kv_batch_put(batch, space, kv_bytes(key, key_size), kv_bytes(value, value_size));
// }
// static void batch_delete(kv_batch *batch, kv_space *space, void *key, size_t key_size)
// {
//     kv_batch_delete(batch, space, kv_bytes(key, key_size));
// }
// // The limit lives on this stack only: the iterator copies its bounds.
// static kv_code walk(kv_space *space, void *prefix, size_t size, kv_iter **out, kv_status *status)
// {
//     unsigned char limit[1024];
//     if (size > sizeof(limit))
//         return kv_fail(status, KV_TOO_BIG, "a prefix of %zu bytes", size);
//     kv_range range = kv_range_of_prefix(kv_bytes(prefix, size), limit);
//     return kv_iter_open(space, NULL, &range, out, status);
// }
import "C"

import (
	"fmt"
	"unsafe"
)

// Error is a failed call: the code's name and what was wrong.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func failed(code C.kv_code, status *C.kv_status) error {
	if code == C.KV_OK {
		return nil
	}
	return &Error{C.GoString(C.kv_code_name(code)), C.GoString(&status.message[0])}
}

// Memory for an empty slice is a nil pointer, which kv.h takes.
func pointer(bytes []byte) unsafe.Pointer {
	if len(bytes) == 0 {
		return nil
	}
	return unsafe.Pointer(&bytes[0])
}

func copied(slice C.kv_slice) []byte {
	if slice.size == 0 {
		return []byte{}
	}
	return C.GoBytes(slice.data, C.int(slice.size))
}

// DB is an open database.
type DB struct{ db *C.kv_db }

// Open opens or makes the database of a driver in a folder.
func Open(driver, dir string) (*DB, error) {
	var status C.kv_status
	var options *C.kv_options
	cDriver, cDir := C.CString(driver), C.CString(dir)
	defer C.free(unsafe.Pointer(cDriver))
	defer C.free(unsafe.Pointer(cDir))
	code := C.kv_options_new(cDriver, cDir, nil, &options, &status)
	if code != C.KV_OK {
		return nil, failed(code, &status)
	}
	defer C.kv_options_free(options)
	db := &DB{}
	code = C.kv_open(options, C.KV_CREATE, &db.db, &status)
	if code != C.KV_OK {
		return nil, failed(code, &status)
	}
	return db, nil
}

// Close fails, and leaves the database open, over a live batch or walk.
func (d *DB) Close() error {
	var status C.kv_status
	return failed(C.kv_close(d.db, &status), &status)
}

// Space is a named map of the database.
type Space struct{ space *C.kv_space }

// Space finds or makes the space of a name.
func (d *DB) Space(name string) (*Space, error) {
	var status C.kv_status
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	space := &Space{}
	code := C.kv_space_open(d.db, cName, C.KV_CREATE, &space.space, &status)
	return space, failed(code, &status)
}

// Get tells a missing key (false) from an empty value.
func (s *Space) Get(key []byte) ([]byte, bool, error) {
	var status C.kv_status
	var value C.kv_value
	code := C.get(s.space, pointer(key), C.size_t(len(key)), &value, &status)
	if code == C.KV_NOT_FOUND {
		return nil, false, nil
	}
	if code != C.KV_OK {
		return nil, false, failed(code, &status)
	}
	defer C.kv_value_release(&value)
	return copied(value.bytes), true, nil
}

// Walk visits the keys that begin with prefix, in order, at one moment.
func (s *Space) Walk(prefix []byte, visit func(key, value []byte)) error {
	var status C.kv_status
	var iter *C.kv_iter
	code := C.walk(s.space, pointer(prefix), C.size_t(len(prefix)), &iter, &status)
	if code != C.KV_OK {
		return failed(code, &status)
	}
	defer C.kv_iter_close(iter)
	for on := C.kv_iter_first(iter); on; on = C.kv_iter_next(iter) {
		visit(copied(C.kv_iter_key(iter)), copied(C.kv_iter_value(iter)))
	}
	return failed(C.kv_iter_status(iter, &status), &status)
}

// Batch gathers changes that are made all or none.
type Batch struct{ batch *C.kv_batch }

// NewBatch makes an empty batch; Free it.
func (d *DB) NewBatch() (*Batch, error) {
	var status C.kv_status
	batch := &Batch{}
	code := C.kv_batch_new(d.db, &batch.batch, &status)
	if code != C.KV_OK {
		return nil, failed(code, &status)
	}
	return batch, nil
}

// Put copies key and value into the batch.
func (b *Batch) Put(space *Space, key, value []byte) {
	C.batch_put(b.batch, space.space, pointer(key), C.size_t(len(key)), pointer(value),
		C.size_t(len(value)))
}

// Delete notes the deletion of a key.
func (b *Batch) Delete(space *Space, key []byte) {
	C.batch_delete(b.batch, space.space, pointer(key), C.size_t(len(key)))
}

// Commit makes the changes; with sync they are durable on return.
func (b *Batch) Commit(sync bool) error {
	var status C.kv_status
	var flags C.uint
	if sync {
		flags = C.KV_SYNC
	}
	if err := failed(C.kv_batch_commit(b.batch, flags, &status), &status); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Free gives the batch back, committed or not.
func (b *Batch) Free() { C.kv_batch_free(b.batch) }
