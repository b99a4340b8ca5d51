// SPDX-License-Identifier: MIT
//
// A module in Rust: counts votes in a BTreeMap, which it saves and restores itself. With --cfg v2 it has one function more.
//   rustc --edition 2021 --crate-type cdylib -C opt-level=1 -o tally.so tally.rs
mod sbx;
use sbx::*;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void, CString};

#[derive(Default)]
struct Tally {
    votes: BTreeMap<String, i64>,
}

extern "C" fn make(_: Raw, this: *mut c_void) -> c_int {
    unsafe { (this as *mut Tally).write(Tally::default()) };
    0
}
extern "C" fn unmake(_: Raw, this: *mut c_void) -> c_int {
    unsafe { std::ptr::drop_in_place(this as *mut Tally) };
    0
}
extern "C" fn vote(x: Raw, this: *mut c_void) -> c_int {
    guard(x, this, |x, t: &mut Tally| {
        let n = t.votes.entry(x.text(x.arg(c"who"))).or_insert(0);
        *n += 1;
        x.put(c"votes", *n)
    })
}
extern "C" fn boom(x: Raw, this: *mut c_void) -> c_int {
    guard(x, this, |_, t: &mut Tally| t.votes["nobody"] as c_int)
}
#[cfg(v2)]
extern "C" fn total(x: Raw, this: *mut c_void) -> c_int {
    guard(x, this, |x, t: &mut Tally| x.put(c"total", t.votes.values().sum()))
}
extern "C" fn save(x: Raw, this: *mut c_void) -> c_int {
    guard(x, this, |x, t: &mut Tally| {
        x.dict(c"votes", || {
            for (who, n) in &t.votes {
                x.put(&CString::new(who.as_str()).unwrap_or_default(), *n);
            }
        })
    })
}
extern "C" fn restore(x: Raw, this: *mut c_void) -> c_int {
    guard(x, this, |x, t: &mut Tally| {
        t.votes.extend(x.pairs(x.saved(c"votes")));
        0
    })
}

static ITEMS: &[Item] = &[
    own_state::<Tally>(c"Tally"),
    on_make(make),
    on_unmake(unmake),
    on_save(save),
    on_restore(restore),
    function(c"vote", c"who: str", vote),
    function(c"boom", c"", boom),
    #[cfg(v2)]
    function(c"total", c"", total),
];

#[used]
#[link_section = ".sbx.info"]
static INFO: [u8; 25] = *b"sbx=1;name=tally;state=1\0";

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static sandbox_module: Module = module(c"tally", 1, ITEMS, &INFO);
