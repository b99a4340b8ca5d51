// SPDX-License-Identifier: MIT
//
// What sandbox_module.h (ABI 1.1) is in Rust: the tables as they lie in memory, and a few safe-looking functions over them. Functions that
// aren't used here are kept as plain addresses, in their places.
#![allow(dead_code)]
use std::ffi::{c_char, c_int, c_void, CStr};

type Address = *const c_void;
type Text = *const c_char;
pub type Raw = *mut Sbx;
pub type Callback = extern "C" fn(Raw, *mut c_void) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Val {
    p: Address,
    kind: Address,
}

#[repr(C)]
pub struct Host {
    size: u32,
    major: u16,
    minor: u16,
    memory: [Address; 4], // alloc resize release grow
    root: extern "C" fn(Raw, c_int) -> Val,
    kind_and_length: [Address; 2],
    get: extern "C" fn(Val, Text) -> Val,
    next: extern "C" fn(Val, *mut Val, *mut Val) -> Val,
    as_i64: extern "C" fn(Raw, Val, Text) -> i64,
    as_more: [Address; 3], // u64 f64 bool
    as_text: extern "C" fn(Raw, Val, Text, *mut u64) -> Text,
    as_blob: Address,
    put_i64: extern "C" fn(Raw, Text, i64) -> c_int,
    put_more: [Address; 7], // u64 f64 bool null text blob val
    begin: extern "C" fn(Raw, Text, c_int) -> c_int,
    end: extern "C" fn(Raw) -> c_int,
    fail_with: extern "C" fn(Raw, Text, *const u8, u64) -> c_int,
}

#[repr(C)]
pub struct Sbx {
    host: *const Host,
}

#[repr(C)]
pub struct Item {
    tag: u32,
    number: u32,
    name: Text,
    text: Text,
    f: Option<Callback>,
    schema: Address,
}

#[repr(C)]
pub struct Module {
    magic: u32,
    major: u16,
    minor: u16,
    size: u32,
    item_size: u32,
    n_items: u32,
    state_version: u32,
    name: Text,
    items: *const Item,
    info: Text,
}
unsafe impl Sync for Module {}
unsafe impl Sync for Item {}

const DICT: c_int = 8;
const ARGS: c_int = 0;
const SAVED: c_int = 4;

const fn item(tag: u32, number: u32, name: &'static CStr, text: &'static CStr, f: Option<Callback>) -> Item {
    Item { tag, number, name: name.as_ptr(), text: text.as_ptr(), f, schema: std::ptr::null() }
}
pub const fn own_state<T>(name: &'static CStr) -> Item {
    item(2, std::mem::size_of::<T>() as u32, name, c"", None)
}
pub const fn function(name: &'static CStr, signature: &'static CStr, f: Callback) -> Item {
    item(3, 0, name, signature, Some(f))
}
pub const fn on_save(f: Callback) -> Item {
    item(8, 0, c"", c"", Some(f))
}
pub const fn on_restore(f: Callback) -> Item {
    item(9, 0, c"", c"", Some(f))
}
pub const fn on_make(f: Callback) -> Item {
    item(14, 0, c"", c"", Some(f))
}
pub const fn on_unmake(f: Callback) -> Item {
    item(15, 0, c"", c"", Some(f))
}

// info: the text in section .sbx.info, readable without loading the object; see the end of tally.rs.
pub const fn module(name: &'static CStr, state_version: u32, items: &'static [Item], info: &'static [u8]) -> Module {
    Module {
        magic: 0x53425831,
        major: 1,
        minor: 1, // own state is of 1.1
        size: std::mem::size_of::<Module>() as u32,
        item_size: std::mem::size_of::<Item>() as u32,
        n_items: items.len() as u32,
        state_version,
        name: name.as_ptr(),
        items: items.as_ptr(),
        info: info.as_ptr() as Text,
    }
}

pub struct X(Raw);

impl X {
    fn host(&self) -> &Host {
        unsafe { &*(*self.0).host }
    }
    pub fn arg(&self, key: &CStr) -> Val {
        (self.host().get)((self.host().root)(self.0, ARGS), key.as_ptr())
    }
    pub fn saved(&self, key: &CStr) -> Val {
        (self.host().get)((self.host().root)(self.0, SAVED), key.as_ptr())
    }
    pub fn i64(&self, v: Val) -> i64 {
        (self.host().as_i64)(self.0, v, std::ptr::null())
    }
    pub fn text(&self, v: Val) -> String {
        let text = (self.host().as_text)(self.0, v, std::ptr::null(), std::ptr::null_mut());
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
    pub fn pairs(&self, dict: Val) -> Vec<(String, i64)> {
        let none = Val { p: std::ptr::null(), kind: std::ptr::null() };
        let (mut key, mut at, mut all) = (none, none, vec![]);
        loop {
            let v = (self.host().next)(dict, &mut key, &mut at);
            if v.p.is_null() {
                return all;
            }
            all.push((self.text(key), self.i64(v)));
        }
    }
    pub fn put(&self, key: &CStr, v: i64) -> c_int {
        (self.host().put_i64)(self.0, key.as_ptr(), v)
    }
    pub fn dict(&self, key: &CStr, f: impl FnOnce()) -> c_int {
        (self.host().begin)(self.0, key.as_ptr(), DICT);
        f();
        (self.host().end)(self.0)
    }
    pub fn fail(&self, code: &CStr, text: &str) -> c_int {
        (self.host().fail_with)(self.0, code.as_ptr(), text.as_ptr(), text.len() as u64)
    }
}

// A panic becomes an error: it must not cross into C.
pub fn guard<T>(x: Raw, this: *mut c_void, f: impl FnOnce(&X, &mut T) -> c_int) -> c_int {
    let x = X(x);
    let this = unsafe { &mut *(this as *mut T) };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&x, this))) {
        Ok(result) => result,
        Err(_) => x.fail(c"panic", "the module panicked"),
    }
}
