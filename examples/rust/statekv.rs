//! A small wrapper of kv.h: what a Rust program needs to keep the state of a chain.
//! A space, batch or walk borrows its database, so that none outlives it.

use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::ptr;

/// The declarations of kv.h that are used here, by their names there.
#[allow(non_camel_case_types)]
mod c {
    use super::*;

    macro_rules! handles { ($($name:ident)*) => { $(
        #[repr(C)]
        pub struct $name { _private: [u8; 0] }
    )* } }
    handles!(kv_db kv_space kv_batch kv_iter kv_options);

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct kv_slice {
        pub data: *const c_void,
        pub size: usize,
    }

    #[repr(C)]
    pub struct kv_range {
        pub first: kv_slice,
        pub limit: kv_slice,
    }

    #[repr(C)]
    pub struct kv_value {
        pub bytes: kv_slice,
        pub release: *const c_void,
        pub owner: *const c_void,
    }

    pub const MESSAGE_SIZE: usize = 252;

    #[repr(C)]
    pub struct kv_status {
        pub code: c_int,
        pub message: [c_char; MESSAGE_SIZE],
    }

    pub const OK: c_int = 0;
    pub const NOT_FOUND: c_int = 1;
    pub const CREATE: c_uint = 1;
    pub const SYNC: c_uint = 1;

    extern "C" {
        pub fn kv_code_text(code: c_int) -> *const c_char;
        pub fn kv_options_new(backend: *const c_char, dir: *const c_char, tables: *const c_void,
                              out: *mut *mut kv_options, status: *mut kv_status) -> c_int;
        pub fn kv_options_free(options: *mut kv_options);
        pub fn kv_open(options: *const kv_options, flags: c_uint, out: *mut *mut kv_db,
                       status: *mut kv_status) -> c_int;
        pub fn kv_close(db: *mut kv_db, status: *mut kv_status) -> c_int;
        pub fn kv_space_open(db: *mut kv_db, name: *const c_char, flags: c_uint,
                             out: *mut *mut kv_space, status: *mut kv_status) -> c_int;
        pub fn kv_get(space: *mut kv_space, read: *const c_void, key: kv_slice,
                      out: *mut kv_value, status: *mut kv_status) -> c_int;
        pub fn kv_value_release(value: *mut kv_value);
        pub fn kv_range_of_prefix(prefix: kv_slice, limit: *mut c_void) -> kv_range;
        pub fn kv_iter_open(space: *mut kv_space, read: *const c_void, range: *const kv_range,
                            out: *mut *mut kv_iter, status: *mut kv_status) -> c_int;
        pub fn kv_iter_first(iter: *mut kv_iter) -> bool;
        pub fn kv_iter_next(iter: *mut kv_iter) -> bool;
        pub fn kv_iter_key(iter: *const kv_iter) -> kv_slice;
        pub fn kv_iter_value(iter: *const kv_iter) -> kv_slice;
        pub fn kv_iter_status(iter: *mut kv_iter, status: *mut kv_status) -> c_int;
        pub fn kv_iter_close(iter: *mut kv_iter);
        pub fn kv_batch_new(db: *mut kv_db, out: *mut *mut kv_batch,
                            status: *mut kv_status) -> c_int;
        pub fn kv_batch_put(batch: *mut kv_batch, space: *mut kv_space, key: kv_slice,
                            value: kv_slice);
        pub fn kv_batch_delete(batch: *mut kv_batch, space: *mut kv_space, key: kv_slice);
        pub fn kv_batch_commit(batch: *mut kv_batch, flags: c_uint,
                               status: *mut kv_status) -> c_int;
        pub fn kv_batch_free(batch: *mut kv_batch);
    }
}

/// A failed call: its code and what was wrong.
#[derive(Debug)]
pub struct Error {
    pub code: i32,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let text = unsafe { CStr::from_ptr(c::kv_code_text(self.code)) };
        write!(out, "{}: {}", text.to_string_lossy(), self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// Run one call that takes a status, and turn its code into a result.
fn call(run: impl FnOnce(*mut c::kv_status) -> c_int) -> Result<()> {
    let mut status = c::kv_status { code: c::OK, message: [0; c::MESSAGE_SIZE] };
    let code = run(&mut status);
    if code == c::OK {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(status.message.as_ptr()) };
    Err(Error { code, message: message.to_string_lossy().into_owned() })
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error { code: 2, message: format!("{:?} holds a NUL", text) })
}

fn slice(bytes: &[u8]) -> c::kv_slice {
    c::kv_slice { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// The bytes of a slice. Whoever names the lifetime vouches for it.
unsafe fn bytes<'a>(slice: c::kv_slice) -> &'a [u8] {
    if slice.size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(slice.data.cast(), slice.size)
}

/// An open database; closed when it goes out of scope.
pub struct Db(*mut c::kv_db);

// kv.h: a kv_db and its spaces may be used by many threads at once.
unsafe impl Send for Db {}
unsafe impl Sync for Db {}

impl Db {
    /// Open or make the database of a driver in a folder.
    pub fn open(driver: &str, dir: &str) -> Result<Db> {
        let (driver, dir) = (text(driver)?, text(dir)?);
        let mut options = ptr::null_mut();
        let mut db = ptr::null_mut();
        call(|status| unsafe {
            c::kv_options_new(driver.as_ptr(), dir.as_ptr(), ptr::null(), &mut options, status)
        })?;
        let opened =
            call(|status| unsafe { c::kv_open(options, c::CREATE, &mut db, status) });
        unsafe { c::kv_options_free(options) };
        opened.map(|()| Db(db))
    }

    /// Find or make the space of a name.
    pub fn space(&self, name: &str) -> Result<Space<'_>> {
        let name = text(name)?;
        let mut space = ptr::null_mut();
        call(|status| unsafe {
            c::kv_space_open(self.0, name.as_ptr(), c::CREATE, &mut space, status)
        })?;
        Ok(Space(space, PhantomData))
    }

    /// An empty batch: changes that are made all or none.
    pub fn batch(&self) -> Result<Batch<'_>> {
        let mut batch = ptr::null_mut();
        call(|status| unsafe { c::kv_batch_new(self.0, &mut batch, status) })?;
        Ok(Batch(batch, PhantomData))
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Nothing that borrows it is left, so it cannot be busy.
        unsafe { c::kv_close(self.0, ptr::null_mut()) };
    }
}

/// A named map of a database.
#[derive(Clone, Copy)]
pub struct Space<'db>(*mut c::kv_space, PhantomData<&'db Db>);

unsafe impl Send for Space<'_> {}
unsafe impl Sync for Space<'_> {}

impl<'db> Space<'db> {
    /// The value of a key, empty or not, or None.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = c::kv_value {
            bytes: c::kv_slice { data: ptr::null(), size: 0 },
            release: ptr::null(),
            owner: ptr::null(),
        };
        let got = call(|status| unsafe {
            c::kv_get(self.0, ptr::null(), slice(key), &mut value, status)
        });
        match got {
            Err(error) if error.code == c::NOT_FOUND => Ok(None),
            Err(error) => Err(error),
            Ok(()) => {
                let copy = unsafe { bytes(value.bytes) }.to_vec();
                unsafe { c::kv_value_release(&mut value) };
                Ok(Some(copy))
            }
        }
    }

    /// Visit the keys that begin with `prefix`, in order, at one moment.
    pub fn walk(&self, prefix: &[u8], mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut limit = vec![0u8; prefix.len()];
        let mut iter = ptr::null_mut();
        call(|status| unsafe {
            let range = c::kv_range_of_prefix(slice(prefix), limit.as_mut_ptr().cast());
            c::kv_iter_open(self.0, ptr::null(), &range, &mut iter, status)
        })?;
        let walk = Walk(iter);
        let mut on = unsafe { c::kv_iter_first(walk.0) };
        while on {
            unsafe { visit(bytes(c::kv_iter_key(walk.0)), bytes(c::kv_iter_value(walk.0))) };
            on = unsafe { c::kv_iter_next(walk.0) };
        }
        call(|status| unsafe { c::kv_iter_status(walk.0, status) })
    }
}

/// Closes the iterator also where `visit` panics.
struct Walk(*mut c::kv_iter);

impl Drop for Walk {
    fn drop(&mut self) {
        unsafe { c::kv_iter_close(self.0) };
    }
}

/// Changes that are made all or none; used by one thread at a time.
pub struct Batch<'db>(*mut c::kv_batch, PhantomData<&'db Db>);

unsafe impl Send for Batch<'_> {}

impl<'db> Batch<'db> {
    /// Copies key and value; what is wrong with them is told by commit.
    pub fn put(&mut self, space: Space<'db>, key: &[u8], value: &[u8]) {
        unsafe { c::kv_batch_put(self.0, space.0, slice(key), slice(value)) };
    }

    pub fn delete(&mut self, space: Space<'db>, key: &[u8]) {
        unsafe { c::kv_batch_delete(self.0, space.0, slice(key)) };
    }

    /// Make the changes; with `sync` they are durable on return.
    pub fn commit(&mut self, sync: bool) -> Result<()> {
        let flags = if sync { c::SYNC } else { 0 };
        call(|status| unsafe { c::kv_batch_commit(self.0, flags, status) })
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        unsafe { c::kv_batch_free(self.0) };
    }
}
