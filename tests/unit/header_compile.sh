#!/bin/sh
# SPDX-License-Identifier: MIT
# The public header in every compiler and language mode that is there: good modules without a warning, wrong members stopped with our sentence.
# Prints what it used; a failing compile fails. Compilers that aren't there are named (tcc isn't asked for by `make deps`).
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/header_compile.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0 runs=0 used='' absent=''
strict='-Wall -Wextra -Wpedantic -Wshadow -Werror'

cat >"$dir/all.c" <<'END'
#include <sandbox_module.h>
enum colour { RED, GREEN };
struct inner { double lat; signed char c; };
SBX_STATE(inner, struct inner, SBX_FIELD(lat), SBX_DEFAULT_F(1.5), SBX_FIELD(c));
struct all {
	bool b; int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64; float f32; double f64;
	long l; unsigned long ul; long long ll; unsigned long long ull; enum colour colour; size_t size; char name[16]; char *str; struct sbx_bytes bytes;
	struct inner in; struct inner *items; uint32_t n; int16_t week[7]; struct inner two[2]; bool has; char *texts[2]; char grid[3][4]; char **list; int64_t n_list;
	void *cache; uint8_t *raw; int n_raw;
};
SBX_STATE(all, struct all, SBX_FIELD(b), SBX_DEFAULT(1), SBX_FIELD(i8), SBX_FIELD(i16), SBX_FIELD(i32), SBX_RANGE(-1, 5), SBX_FIELD(i64), SBX_WAS("old"),
	SBX_FIELD(u8), SBX_FIELD(u16), SBX_FIELD(u32), SBX_FIELD(u64), SBX_FIELD(f32), SBX_DEFAULT(2), SBX_FIELD(f64), SBX_FIELD(l), SBX_FIELD(ul), SBX_FIELD(ll),
	SBX_FIELD(ull), SBX_FIELD(colour), SBX_RANGE(RED, GREEN), SBX_FIELD(size), SBX_FIELD(name), SBX_DEFAULT_S("x"), SBX_FIELD(str), SBX_FIELD(bytes),
	SBX_STRUCT(in, inner), SBX_ARRAY_OF(items, n, inner), SBX_FIXED(week), SBX_FIXED_OF(two, inner), SBX_PRESENT(has), SBX_FIXED(texts), SBX_FIXED(grid),
	SBX_ARRAY(list, n_list), SBX_SKIP(cache), SBX_ARRAY(raw, n_raw));
static int hook(struct sbx *x, void *self) { (void)self; return sbx_has(sbx_config(x, "a")) ? 0 : sbx_fail(x, "code", "%d", 1); }
static int f(struct sbx *x, void *self)
{
	struct all *a = (struct all *)self;
	struct sbx_val at = { 0, 0 }, key, v;
	uint64_t n;

	SBX_ADD(x, a->items, a->n, struct inner)->lat = sbx_arg_f64(x, "a");
	sbx_set_str(x, SBX_ADD(x, a->list, a->n_list, char *), sbx_arg_str(x, "b"));
	*SBX_ADD(x, a->raw, a->n_raw, uint8_t) = 1;
	sbx_set_bytes(x, &a->bytes, sbx_arg_bytes(x, "c", &n), 1);
	while (sbx_has(v = sbx_next(x, sbx_root(x, SBX_ARGS), &key, &at)))
		sbx_log(x, SBX_INFO, "%s %d", sbx_text(x, key), (int)sbx_type_of(x, v));
	sbx_free(x, sbx_resize(x, sbx_alloc(x, 1), 2));
	if (sbx_stop_asked(x) || sbx_failed(x) || sbx_bool(x, v) || sbx_arg_bool(x, "d") || sbx_arg_u64(x, "e") || sbx_u64(x, v) || sbx_i64(x, v))
		return -1;
	sbx_open_list(x, "l");
	sbx_put_null(x, NULL);
	sbx_put_val(x, NULL, v);
	sbx_put_bytes(x, NULL, sbx_blob(x, v, &n), n + sbx_length(x, v));
	sbx_put_bool(x, NULL, true);
	sbx_put_f64(x, NULL, sbx_f64(x, v));
	sbx_close(x);
	sbx_open_dict(x, "d");
	sbx_close(x);
	sbx_put_u64(x, "u", sbx_old_version(x));
	sbx_put_str(x, "s", sbx_text(x, sbx_get(x, sbx_old(x, "a"), "b")));
	return sbx_put_i64(x, "n", sbx_now_ms(x));
}
SBX_MODULE(all, 1, SBX_USES(all), SBX_FN(f, "a: f64"), SBX_FN_AS("g", f, ""), SBX_ON_MAKE(hook), SBX_ON_INIT(hook), SBX_ON_MIGRATE(hook),
	SBX_ON_CHECK(hook), SBX_ON_STOP(hook), SBX_ON_UNMAKE(hook));
END
cp "$dir/all.c" "$dir/all.cc"
# what minor 1 added
cat >"$dir/minor1.c" <<'END'
#define SBX_WANT_MINOR 1
#include <sandbox_module.h>
struct row { int32_t n; char *text; struct sbx_map *inner; };
SBX_STATE(row, struct row, SBX_FIELD(n), SBX_DEFAULT(3), SBX_FIELD(text), SBX_MAP(inner, bool));
typedef char code[8];
struct all {
	struct sbx_map *i, *s, *b, *f, *c, *rows;
	struct sbx_bytes salt; uint64_t large;
};
SBX_STATE(all, struct all, SBX_MAP(i, int64_t), SBX_MAP(s, char *), SBX_WAS("t"), SBX_MAP(b, struct sbx_bytes), SBX_MAP(f, float), SBX_MAP(c, code),
	SBX_MAP_OF(rows, row), SBX_FIELD(salt), SBX_DEFAULT_B("\x01\x00"), SBX_FIELD(large), SBX_DEFAULT_U(UINT64_MAX));
static int hook(struct sbx *x, void *self) { (void)self; return sbx_has(sbx_saved(x, "a")) && sbx_extension(x, "none") == NULL ? 0 : -1; }
static int turn(struct sbx *x, void *self)
{
	struct all *a = (struct all *)self;
	const char *key;
	int64_t *v;

	*SBX_PUT(x, a->i, int64_t, "k") += 1;
	SBX_PUT(x, a->rows, struct row, "k")->n++;
	sbx_set_str(x, SBX_PUT(x, a->s, char *, "k"), "v");
	for (uint64_t at = 0; (v = SBX_NEXT(x, a->i, int64_t, &at, &key)) != NULL;)
		if (*v > 5 && SBX_FIND(x, a->s, char *, key) != NULL)
			sbx_map_remove(x, a->i, key);
	if (sbx_map_count(x, a->i) > 9)
		sbx_cancel_timer(x, "turn");
	return sbx_after(x, "turn", 5) || sbx_every(x, "turn", 7);
}
#ifndef SELF
SBX_MODULE(all, 1, SBX_USES(all), SBX_TIMER(turn), SBX_ON_SAVE(hook), SBX_ON_RESTORE(hook));
#else
SBX_MODULE(all, 1, SBX_SELF(struct all), SBX_TIMER(turn), SBX_ON_SAVE(hook), SBX_ON_RESTORE(hook));
#endif
END
cp "$dir/minor1.c" "$dir/minor1.cc"
{ echo '#define SELF'; cat "$dir/minor1.c"; } >"$dir/self.c"
cp "$dir/self.c" "$dir/self.cc"
# it is there for those who ask, and this header has no more than it has
printf '#include <sandbox_module.h>\nint f(struct sbx *x); int f(struct sbx *x) { return sbx_cancel_timer(x, "t"); }\n' >"$dir/unasked.c"
printf '#define SBX_WANT_MINOR 2\n#include <sandbox_module.h>\n' >"$dir/future.c"

# name | members | rows | the sentence that must stop it (C++ says the same)
wrong() {
	cat <<'END'
char|char v;|SBX_FIELD(v)|this member cannot be declared state
pointer|int *v;|SBX_FIELD(v)|this member cannot be declared state
const_text|const char *v;|SBX_FIELD(v)|this member cannot be declared state
array_as_field|int v[3];|SBX_FIELD(v)|this member cannot be declared state
long_double|long double v;|SBX_FIELD(v)|this member cannot be declared state
pointers|void *v[3];|SBX_FIXED(v)|this member cannot be declared state
counter|int *v; double n;|SBX_ARRAY(v, n)|the counter of an array must be an integer
bool_counter|int *v; bool n;|SBX_ARRAY(v, n)|the counter of an array must be an integer
struct_type|int v;|SBX_STRUCT(v, inner)|the member is not of the declared type
struct_items|int *v; int n;|SBX_ARRAY_OF(v, n, inner)|the member is not of the declared type
present|int v; int has;|SBX_FIELD(v), SBX_PRESENT(has)|the member is not of the declared type
missing|int v;|SBX_FIELD(w)|w
map_type|int v;|SBX_MAP(v, int)|the member is not of the declared type
map_of|char *v;|SBX_MAP_OF(v, inner)|the member is not of the declared type
map_value|struct sbx_map *v;|SBX_MAP(v, void *)|this member cannot be declared state
END
}
write_wrong() { # members rows > file
	printf '#define SBX_WANT_MINOR 1\n#include <sandbox_module.h>\nstruct inner { double d; };\nSBX_STATE(inner, struct inner, SBX_FIELD(d));\n'
	printf 'struct s { %s };\nSBX_STATE(s, struct s, %s);\nSBX_MODULE(m, 1, SBX_USES(s));\n' "$1" "$2"
}

compile() { # compiler std file
	runs=$((runs + 1))
	# shellcheck disable=SC2086
	"$1" $2 $strict -Iproto -fPIC -c -o "$dir/out.o" "$3" >"$dir/log" 2>&1
}
good() {
	compile "$@" || { echo "header_compile: $1 $2 $3:"; head -n 20 "$dir/log"; bad=1; }
}
refused() { # compiler std suffix
	wrong >"$dir/rows"
	while IFS='|' read -r name members rows sentence; do
		write_wrong "$members" "$rows" >"$dir/wrong.$3"
		if compile "$1" "$2" "$dir/wrong.$3"; then
			echo "header_compile: $1 $2 takes the wrong member '$name'"
			bad=1
		elif [ "$1" != tcc ] && ! grep -qF "$sentence" "$dir/log"; then
			echo "header_compile: $1 $2 refuses '$name' without \"$sentence\":"
			head -n 5 "$dir/log"
			bad=1
		fi
	done <"$dir/rows"
}

for cc in gcc clang tcc; do
	command -v "$cc" >/dev/null 2>&1 || { absent="$absent $cc"; continue; }
	used="$used $cc"
	modes='-std=c11 -std=c17 -std=c2x'
	[ "$cc" = tcc ] && modes=-std=c11
	for mode in $modes; do
		for file in all minor1 self; do
			good "$cc" "$mode" "$dir/$file.c"
		done
	done
	for file in examples/*/*.c; do
		good "$cc" -std=gnu11 "$file"
	done
	if compile "$cc" -std=c11 "$dir/unasked.c"; then
		echo "header_compile: $cc lets a module use minor 1 without asking for it"
		bad=1
	fi
	if compile "$cc" -std=c11 "$dir/future.c" || ! grep -qF 'SBX_WANT_MINOR asks for more' "$dir/log"; then
		echo "header_compile: $cc lets a module ask for more than the header has"
		bad=1
	fi
	refused "$cc" -std=c11 c
done
for cc in g++ clang++; do
	command -v "$cc" >/dev/null 2>&1 || { absent="$absent $cc"; continue; }
	used="$used $cc"
	for mode in -std=c++17 -std=c++20; do
		for file in "$dir/all.cc" "$dir/minor1.cc" "$dir/self.cc" examples/words/*.cc; do
			good "$cc" "$mode" "$file"
		done
	done
	refused "$cc" -std=c++17 cc
	printf '#include <sandbox_module.h>\nstruct s { int v; virtual ~s() {} };\nSBX_STATE(s, struct s, SBX_FIELD(v));\n' >"$dir/wrong.cc"
	if compile "$cc" -std=c++17 "$dir/wrong.cc" || ! grep -qF 'declared state must be a plain struct' "$dir/log"; then
		echo "header_compile: $cc takes a struct that isn't plain"
		bad=1
	fi
done
# The header of the first release is what objects out there were built with: it is never edited.
first=tests/modules/abi-1.0/sandbox_module.h
[ "$(sha256sum <$first | cut -d' ' -f1)" = a262c7f71107eb4f42d09a01d5f4d04c1c432ae1aeb86c8dc03018c10ea606d9 ] || { echo "header_compile: $first has changed"; bad=1; }
[ -n "$used" ] || { echo 'header_compile: no compiler at all'; bad=1; }
echo "header_compile: $runs compilations with:$used; not there:${absent:- none}"
exit $bad
