/* SPDX-License-Identifier: MIT
 *
 * sandbox_module.h - what a sandboxd module is compiled against. ABI 1.1.
 *
 * C11 or newer, C++17 or newer; nothing to link with. A module exports one symbol, `sandbox_module` (SBX_MODULE makes
 * it); everything it needs comes through the table of functions in `struct sbx`. The smallest useful module:
 *
 *	#include <sandbox_module.h>
 *
 *	struct counter { int64_t count; };
 *	SBX_STATE(counter, struct counter, SBX_FIELD(count));
 *
 *	static int increment(struct sbx *x, void *self)
 *	{
 *		struct counter *c = self;
 *
 *		c->count += sbx_arg_i64(x, "by");
 *		return sbx_put_i64(x, "count", c->count);
 *	}
 *
 *	SBX_MODULE(counter, 1, SBX_USES(counter), SBX_FN(increment, "by: i64 = 1"));
 *
 * Rules for authors
 * - One thread: call nothing of this header from another one.
 * - A `struct sbx *`, every sbx_val and every text or bytes got from one live until the callback returns.
 * - What declared state points to is memory from the host: sbx_set_str, sbx_set_bytes, SBX_ADD, sbx_alloc. It is freed with
 *   the instance, so `unmake` frees only what came from elsewhere. Never put the address of a string literal, of a global
 *   or of a function into declared state: it dangles once this object is unloaded. The host refuses to save it.
 * - A reload loads a new object: its globals start afresh. Only declared state, what `save` wrote, and timers are carried over.
 * - Don't let a C++ exception or a longjmp leave a callback. (SBX_METHOD does it for classes.) */
#ifndef SANDBOX_MODULE_H
#define SANDBOX_MODULE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Versions. The major changes when an old object could no longer run; hosts load N and N-1. A minor only appends: functions at
 * the end of struct sbx_host, tags, kinds, members at the end of the tables below (each table carries its stride).
 * An object states the minor that it *asks for*, not the one its header knew: rebuilding with a newer header doesn't shut
 * out older hosts. To use what minor 2 added, say so before the include: #define SBX_WANT_MINOR 2. A host that is too old
 * refuses the object and names both numbers.
 *   1.0  everything in this file that isn't named here
 *   1.1  maps (SBX_MAP, SBX_MAP_OF, SBX_FIND, SBX_PUT, SBX_NEXT, sbx_map_remove, sbx_map_count), own save and restore (SBX_SELF,
 *        SBX_ON_SAVE, SBX_ON_RESTORE, sbx_saved), timers (SBX_TIMER, sbx_after, sbx_every, sbx_cancel_timer), C++ classes
 *        (SBX_CLASS, SBX_METHOD, SBX_SAVES, SBX_RESTORES), SBX_DEFAULT_U, SBX_DEFAULT_B, sbx_extension */
#ifndef SBX_WANT_MINOR
#define SBX_WANT_MINOR 0
#endif
enum { SBX_MAGIC = 0x53425831, SBX_ABI_MAJOR = 1, SBX_ABI_MINOR = 1 };
#if SBX_WANT_MINOR > 1
#error "sandboxd: this sandbox_module.h is of ABI 1.1; SBX_WANT_MINOR asks for more"
#endif

#if defined __GNUC__ || defined __TINYC__
#define SBX_EXPORT_        __attribute__((visibility("default")))
#define SBX_UNUSED_        __attribute__((unused))
#define SBX_PRINTF_(a, b)  __attribute__((format(printf, a, b)))
#define SBX_SECTION_(name) __attribute__((section(name)))
#else
#define SBX_EXPORT_
#define SBX_UNUSED_
#define SBX_PRINTF_(a, b)
#define SBX_SECTION_(name)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== values: arguments, configuration, old state; one way of reading for all of them ==== */

struct sbx;                               /* the context of one callback */
struct sbx_map;                           /* a map from texts to values, kept by the host */
struct sbx_bytes { void *data; uint64_t size; }; /* a state member of any bytes; set with sbx_set_bytes */
struct sbx_val { const void *p, *type; }; /* opaque; p == NULL: absent. { 0 } is the absent value */

enum sbx_type {
	SBX_ABSENT, SBX_NULL, SBX_INT, SBX_FLOAT, SBX_TRUTH, SBX_TEXT, SBX_BLOB, SBX_LIST, SBX_DICT
};
enum sbx_root {
	SBX_ARGS,       /* in a function: its arguments, checked against the signature, defaults filled in */
	SBX_OLD,        /* in restore and migrate: the declared state as the old code saved it, also what was dropped */
	                /* 2: reserved */
	SBX_CONFIG = 3, /* in init: the sandbox's configuration */
	SBX_SAVED = 4   /* in restore and migrate: what the old code's `save` wrote; absent if it has no `save` */
};
enum sbx_level { SBX_DEBUG, SBX_INFO, SBX_WARNING, SBX_ERROR };

/* The one type of every callback: functions, timers and hooks. Returns 0, or what sbx_fail returned. self: the state, zeroed and
 * filled with its defaults before `make`; NULL in a module without state. */
typedef int sbx_fn(struct sbx *x, void *self);

/* ==== the host's functions. Authors call the sbx_ functions at the end instead ==== */

struct sbx_host {
	uint32_t size;  /* of this table, in bytes: what lies beyond isn't there */
	uint16_t major, minor;
	void *(*alloc)(struct sbx *, uint64_t n);
	void *(*resize)(struct sbx *, void *, uint64_t n);
	void (*release)(struct sbx *, void *);
	void *(*grow)(struct sbx *, void *items, uint64_t n, uint32_t item_size, uint32_t counter_kind);
	struct sbx_val (*root)(struct sbx *, enum sbx_root);
	enum sbx_type (*type)(struct sbx_val);
	uint64_t (*length)(struct sbx_val);
	struct sbx_val (*get)(struct sbx_val, const char *key);
	struct sbx_val (*next)(struct sbx_val container, struct sbx_val *key, struct sbx_val *at);
	int64_t (*as_i64)(struct sbx *, struct sbx_val, const char *what);
	uint64_t (*as_u64)(struct sbx *, struct sbx_val, const char *what);
	double (*as_f64)(struct sbx *, struct sbx_val, const char *what);
	bool (*as_bool)(struct sbx *, struct sbx_val, const char *what);
	const char *(*as_text)(struct sbx *, struct sbx_val, const char *what, uint64_t *n);
	const void *(*as_blob)(struct sbx *, struct sbx_val, const char *what, uint64_t *n);
	int (*put_i64)(struct sbx *, const char *key, int64_t);
	int (*put_u64)(struct sbx *, const char *key, uint64_t);
	int (*put_f64)(struct sbx *, const char *key, double);
	int (*put_bool)(struct sbx *, const char *key, bool);
	int (*put_null)(struct sbx *, const char *key);
	int (*put_text)(struct sbx *, const char *key, const char *, uint64_t n);
	int (*put_blob)(struct sbx *, const char *key, const void *, uint64_t n);
	int (*put_val)(struct sbx *, const char *key, struct sbx_val);
	int (*begin)(struct sbx *, const char *key, enum sbx_type list_or_dict);
	int (*end)(struct sbx *);
	int (*fail_with)(struct sbx *, const char *code, const char *message, uint64_t n);
	int (*failed)(const struct sbx *);
	void (*log)(struct sbx *, enum sbx_level, const char *, uint64_t n);
	int64_t (*now_ms)(struct sbx *);
	uint32_t (*version)(struct sbx *, int which); /* 0: of this code's state; 1: of the state that restore and migrate are given */
	/* 1.1 */
	void *(*map_find)(struct sbx *, struct sbx_map *, const char *key, uint64_t n);
	void *(*map_put)(struct sbx *, struct sbx_map *, const char *key, uint64_t n, uint64_t value_size);
	int (*map_remove)(struct sbx *, struct sbx_map *, const char *key, uint64_t n);
	uint64_t (*map_count)(struct sbx *, const struct sbx_map *);
	void *(*map_next)(struct sbx *, struct sbx_map *, uint64_t *at, const char **key, uint64_t *n);
	int (*timer)(struct sbx *, const char *name, int64_t after_ms, int64_t every_ms); /* after_ms < 0: cancel */
	const void *(*extension)(struct sbx *, const char *name); /* NULL: this host has none of that name */
};

struct sbx {                                 /* the public head; what follows is the host's */
	const struct sbx_host *host;
	const volatile uint32_t *attention;  /* not 0: end soon */
	volatile uint64_t *beat;             /* counting it up says: alive */
};

/* ==== the tables of a module. Authors use the macros further down ==== */

struct sbx_schema;
typedef const struct sbx_schema *sbx_schema_fn(void);

/* Numbers are for good. A host refuses a kind or tag that it doesn't know, unless SBX_MAY_IGNORE is added to it. */
enum sbx_kind {
	SBX_K_END = 0,
	SBX_K_BOOL = 1,
	SBX_K_I8 = 2, SBX_K_I16 = 3, SBX_K_I32 = 4, SBX_K_I64 = 5,
	SBX_K_U8 = 6, SBX_K_U16 = 7, SBX_K_U32 = 8, SBX_K_U64 = 9,
	SBX_K_F32 = 10, SBX_K_F64 = 11,
	SBX_K_CHARS = 12,   /* char[n], NUL-terminated inside */
	SBX_K_STR = 13,     /* char *, the host's memory, NULL allowed */
	SBX_K_BYTES = 14,   /* struct sbx_bytes, the host's memory */
	SBX_K_STRUCT = 15,
	SBX_K_FIXED = 16,   /* T[n] */
	SBX_K_ARRAY = 17,   /* T * and a counter, the host's memory */
	SBX_K_MAP = 18,     /* struct sbx_map *, made by the host */
	SBX_K_MODIFIER = 64, /* from here on: says more about the field before it */
	SBX_M_DEFAULT_I = 64, SBX_M_DEFAULT_F = 65, SBX_M_DEFAULT_S = 66,
	SBX_M_RANGE = 67, SBX_M_WAS = 68, SBX_M_PRESENT = 69, SBX_M_SKIP = 70,
	SBX_M_DEFAULT_U = 71, SBX_M_DEFAULT_B = 72,
	SBX_MAY_IGNORE = 128
};

struct sbx_field {
	uint16_t kind, elem;                 /* elem: of FIXED, ARRAY and MAP */
	uint32_t offset, size, elem_size;
	uint32_t count_offset, count_kind;   /* an ARRAY's counter */
	const char *name;
	sbx_schema_fn *type;                 /* of STRUCT, and of FIXED, ARRAY and MAP of structs */
	int64_t lo, hi;
	double f;
	const char *s;
};

struct sbx_schema {
	uint32_t schema_size, field_size, n_fields, size;
	const char *name;
	const struct sbx_field *fields;
};

enum sbx_tag {
	SBX_T_END = 0,
	SBX_T_STATE = 1,
	SBX_T_SELF = 2,
	SBX_T_FN = 3,
	SBX_T_TIMER = 4,
	                    /* 5, 6: reserved */
	SBX_T_INIT = 7,
	SBX_T_SAVE = 8,
	SBX_T_RESTORE = 9,
	SBX_T_MIGRATE = 10,
	SBX_T_CHECK = 11,
	                    /* 12: reserved */
	SBX_T_STOP = 13,
	SBX_T_MAKE = 14,
	SBX_T_UNMAKE = 15
	                    /* 16: reserved */
};

struct sbx_item {
	uint32_t tag, number;
	const char *name, *text;
	sbx_fn *fn;
	sbx_schema_fn *schema;
};

struct sbx_module {
	uint32_t magic;
	uint16_t abi_major, abi_minor;       /* minor: what the module asks for */
	uint32_t size, item_size, n_items;
	uint32_t state_version;
	const char *name;
	const struct sbx_item *items;
	const char *info;                    /* the text in section .sbx.info, readable without loading the object */
};

extern SBX_EXPORT_ const struct sbx_module sandbox_module;

#ifdef __cplusplus
}
#endif

/* ==== finding a member's kind. A wrong member stops the compiler with a sentence ==== */

#define SBX_SAYS_MEMBER_                                                                                              \
	"sandboxd: this member cannot be declared state (use an integer, float, bool, char[n], char *, struct sbx_bytes, " \
	"or SBX_STRUCT, SBX_FIXED, SBX_ARRAY, SBX_MAP)"
#define SBX_SAYS_COUNTER_ "sandboxd: the counter of an array must be an integer"
#define SBX_SAYS_TYPE_    "sandboxd: the member is not of the declared type"
#define SBX_SAYS_PLAIN_   "sandboxd: declared state must be a plain struct (standard layout, trivially copyable); for others see SBX_CLASS"

#ifdef __cplusplus
#include <type_traits>
namespace sbx_detail {
template <class T> constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;
template <class T, class = void> struct kind {
	static_assert(sizeof(T) == 0, SBX_SAYS_MEMBER_);
	static constexpr uint16_t value = 0;
};
template <class T> struct kind<T, std::enable_if_t<is_number<T>>> {
	static constexpr uint16_t value = (std::is_signed_v<T> ? SBX_K_I8 : SBX_K_U8) +
					  (sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3);
};
template <class T> struct kind<T, std::enable_if_t<std::is_enum_v<T>>> : kind<std::underlying_type_t<T>> {};
template <> struct kind<bool> { static constexpr uint16_t value = SBX_K_BOOL; };
template <> struct kind<float> { static constexpr uint16_t value = SBX_K_F32; };
template <> struct kind<double> { static constexpr uint16_t value = SBX_K_F64; };
template <size_t N> struct kind<char[N]> { static constexpr uint16_t value = SBX_K_CHARS; };
template <> struct kind<char *> { static constexpr uint16_t value = SBX_K_STR; };
template <> struct kind<sbx_bytes> { static constexpr uint16_t value = SBX_K_BYTES; };
template <class T> constexpr uint32_t counter()
{
	static_assert(is_number<T>, SBX_SAYS_COUNTER_);
	return kind<T>::value;
}
template <class A, class B> constexpr uint32_t same()
{
	static_assert(std::is_same_v<A, B>, SBX_SAYS_TYPE_);
	return sizeof(A);
}
}
#define SBX_ELEM_TYPE_(f)   std::remove_reference_t<decltype((static_cast<sbx_self_ *>(nullptr)->f)[0])>
#define SBX_KIND_(f)        sbx_detail::kind<decltype(sbx_self_::f)>::value
#define SBX_KIND_OF_(T)     sbx_detail::kind<T>::value
#define SBX_ELEM_KIND_(f)   sbx_detail::kind<SBX_ELEM_TYPE_(f)>::value
#define SBX_COUNT_(f)       sbx_detail::counter<decltype(sbx_self_::f)>()
#define SBX_COUNTER_(n)     sbx_detail::counter<std::remove_reference_t<decltype((n))>>()
#define SBX_IS_(f, T)       sbx_detail::same<decltype(sbx_self_::f), T>()
#define SBX_ELEM_IS_(f, T)  sbx_detail::same<SBX_ELEM_TYPE_(f), T>()
#define SBX_LAYOUT_(T)      static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>, SBX_SAYS_PLAIN_)
#define SBX_CAST_(T, ...)   static_cast<T>(__VA_ARGS__)
#define SBX_SIZE_(f)        sizeof(static_cast<sbx_self_ *>(nullptr)->f)
#else
#define SBX_KIND_AT_(p, n) _Generic((p),                                                                              \
	bool *: SBX_K_BOOL, signed char *: SBX_K_I8, unsigned char *: SBX_K_U8, short *: SBX_K_I16,                   \
	unsigned short *: SBX_K_U16, int *: SBX_K_I32, unsigned *: SBX_K_U32,                                         \
	long *: sizeof(long) == 8 ? SBX_K_I64 : SBX_K_I32, unsigned long *: sizeof(long) == 8 ? SBX_K_U64 : SBX_K_U32, \
	long long *: SBX_K_I64, unsigned long long *: SBX_K_U64, float *: SBX_K_F32, double *: SBX_K_F64,             \
	char (*)[n]: SBX_K_CHARS, char **: SBX_K_STR, struct sbx_bytes *: SBX_K_BYTES, default: 0)
/* Yields `value`, or stops the compiler. (tcc 0.9.27 has no _Static_assert: it stops without the sentence.) */
#ifdef __TINYC__
#define SBX_MUST_(ok, value, sentence) ((value) + 0 * sizeof(char[(ok) ? 1 : -1]))
#else
#define SBX_MUST_(ok, value, sentence) ((value) + 0 * sizeof(struct { _Static_assert(ok, sentence); int sbx_dummy; }))
#endif
#define SBX_AT_(f)              (&((sbx_self_ *)0)->f)
#define SBX_KIND_MUST_(p, n)    SBX_MUST_(SBX_KIND_AT_(p, n) != 0, SBX_KIND_AT_(p, n), SBX_SAYS_MEMBER_)
#define SBX_COUNTER_MUST_(p)                                                                                          \
	SBX_MUST_(SBX_KIND_AT_(p, 1) >= SBX_K_I8 && SBX_KIND_AT_(p, 1) <= SBX_K_U64, SBX_KIND_AT_(p, 1), SBX_SAYS_COUNTER_)
#define SBX_KIND_(f)            SBX_KIND_MUST_(SBX_AT_(f), SBX_SIZE_(f))
#define SBX_KIND_OF_(T)         SBX_KIND_MUST_((T *)0, sizeof(T))
#define SBX_ELEM_KIND_(f)       SBX_KIND_MUST_(SBX_AT_(f[0]), SBX_SIZE_(f[0]))
#define SBX_COUNT_(f)           SBX_COUNTER_MUST_(SBX_AT_(f))
#define SBX_COUNTER_(n)         SBX_COUNTER_MUST_(&(n))
#define SBX_IS_(f, T)           SBX_MUST_(_Generic(SBX_AT_(f), T *: 1, default: 0), sizeof(T), SBX_SAYS_TYPE_)
#define SBX_ELEM_IS_(f, T)      SBX_IS_(f[0], T)
#define SBX_LAYOUT_(T)          struct sbx   /* so that a semicolon may follow */
#define SBX_CAST_(T, ...)       ((T)(__VA_ARGS__))
#define SBX_SIZE_(f)            sizeof(((sbx_self_ *)0)->f)
#endif

#define SBX_U32_(...)   SBX_CAST_(uint32_t, __VA_ARGS__)
#define SBX_OFFSET_(f)  offsetof(sbx_self_, f)
#define SBX_ROW_(kind, elem, offset, size, elem_size, count_offset, count_kind, name, type, lo, hi, f, s)             \
	{ SBX_CAST_(uint16_t, kind), SBX_CAST_(uint16_t, elem), SBX_U32_(offset), SBX_U32_(size), SBX_U32_(elem_size), \
	  SBX_U32_(count_offset), SBX_U32_(count_kind), name, type, lo, hi, f, s }
#define SBX_MODIFIER_(kind, lo, hi, f, s) SBX_ROW_(kind, 0, 0, 0, 0, 0, 0, NULL, NULL, lo, hi, f, s)

/* ==== declaring state ====
 * SBX_STATE(tag, type, fields...); makes the table of one struct; `tag` is its name here and in messages. Each field's kind
 * comes from the member itself. Every member must be named, by a field or by SBX_SKIP: forgotten bytes refuse the load.
 * At a reload fields are found by name; their order, and the struct's layout, may change freely. */
#define SBX_STATE(tag, T, ...)                                                                                        \
	typedef T tag##_sbx_type;                                                                                     \
	static SBX_UNUSED_ const struct sbx_schema *tag##_schema(void)                                                \
	{                                                                                                             \
		typedef T sbx_self_;                                                                                  \
		static const struct sbx_field sbx_rows_[] = { __VA_ARGS__, SBX_MODIFIER_(SBX_K_END, 0, 0, 0, NULL) }; \
		static const struct sbx_schema sbx_schema_ = { sizeof(struct sbx_schema), sizeof(struct sbx_field),   \
			SBX_U32_(sizeof sbx_rows_ / sizeof sbx_rows_[0] - 1), sizeof(sbx_self_), #tag, sbx_rows_ };   \
		return &sbx_schema_;                                                                                  \
	}                                                                                                             \
	SBX_LAYOUT_(T)

/* An integer, enum, float, double, bool, char[n], char * or struct sbx_bytes. */
#define SBX_FIELD(f)          SBX_ROW_(SBX_KIND_(f), 0, SBX_OFFSET_(f), SBX_SIZE_(f), 0, 0, 0, #f, NULL, 0, 0, 0, NULL)
/* A struct inside the struct; `tag` from its own SBX_STATE. A struct can't contain itself. */
#define SBX_STRUCT(f, tag)                                                                                            \
	SBX_ROW_(SBX_K_STRUCT, 0, SBX_OFFSET_(f), SBX_IS_(f, tag##_sbx_type), 0, 0, 0, #f, tag##_schema, 0, 0, 0, NULL)
/* T f[n], of anything that SBX_FIELD takes; or of structs. */
#define SBX_FIXED(f)                                                                                                  \
	SBX_ROW_(SBX_K_FIXED, SBX_ELEM_KIND_(f), SBX_OFFSET_(f), SBX_SIZE_(f), SBX_SIZE_(f[0]), 0, 0, #f, NULL, 0, 0, 0, NULL)
#define SBX_FIXED_OF(f, tag)                                                                                          \
	SBX_ROW_(SBX_K_FIXED, SBX_K_STRUCT, SBX_OFFSET_(f), SBX_SIZE_(f), SBX_ELEM_IS_(f, tag##_sbx_type), 0, 0, #f,  \
		tag##_schema, 0, 0, 0, NULL)
/* T *f and its integer counter n, which needs no field of its own. Grow it with SBX_ADD; to shorten it lower n. */
#define SBX_ARRAY(f, n)                                                                                               \
	SBX_ROW_(SBX_K_ARRAY, SBX_ELEM_KIND_(f), SBX_OFFSET_(f), SBX_SIZE_(f), SBX_SIZE_(f[0]), SBX_OFFSET_(n),       \
		SBX_COUNT_(n), #f, NULL, 0, 0, 0, NULL)
#define SBX_ARRAY_OF(f, n, tag)                                                                                       \
	SBX_ROW_(SBX_K_ARRAY, SBX_K_STRUCT, SBX_OFFSET_(f), SBX_SIZE_(f), SBX_ELEM_IS_(f, tag##_sbx_type),            \
		SBX_OFFSET_(n), SBX_COUNT_(n), #f, tag##_schema, 0, 0, 0, NULL)
#if SBX_WANT_MINOR >= 1
/* struct sbx_map *f, from texts to T, which is anything that SBX_FIELD takes; or to structs. The host makes it before `make`; it
 * keeps the order in which keys came. A map may be in the state, in structs that it contains by value, and in the values of
 * other maps; not in the items of an SBX_ARRAY_OF. */
#define SBX_MAP(f, T)                                                                                                 \
	SBX_ROW_(SBX_K_MAP, SBX_KIND_OF_(T), SBX_OFFSET_(f), SBX_IS_(f, struct sbx_map *), sizeof(T), 0, 0, #f, NULL, \
		0, 0, 0, NULL)
#define SBX_MAP_OF(f, tag)                                                                                            \
	SBX_ROW_(SBX_K_MAP, SBX_K_STRUCT, SBX_OFFSET_(f), SBX_IS_(f, struct sbx_map *), sizeof(tag##_sbx_type), 0, 0, \
		#f, tag##_schema, 0, 0, 0, NULL)
#endif
/* Deliberately not state: a cache, a handle. Starts as zero after each reload; `make` may fill it. */
#define SBX_SKIP(f)           SBX_ROW_(SBX_M_SKIP, 0, SBX_OFFSET_(f), SBX_SIZE_(f), 0, 0, 0, #f, NULL, 0, 0, 0, NULL)

/* These say more about the field before them. Arrays and maps start empty, items of T f[n] as their type's default: what else
 * they should hold at first is `init`'s to put there. */
#define SBX_DEFAULT(v)        SBX_MODIFIER_(SBX_M_DEFAULT_I, v, 0, 0, NULL)   /* of an integer, bool or float */
#define SBX_DEFAULT_F(v)      SBX_MODIFIER_(SBX_M_DEFAULT_F, 0, 0, v, NULL)   /* of a float or double */
#define SBX_DEFAULT_S(v)      SBX_MODIFIER_(SBX_M_DEFAULT_S, 0, 0, 0, v)      /* of char[n] or char * (copied) */
#if SBX_WANT_MINOR >= 1
#define SBX_DEFAULT_U(v)      SBX_MODIFIER_(SBX_M_DEFAULT_U, SBX_CAST_(int64_t, SBX_CAST_(uint64_t, v)), 0, 0, NULL) /* of a uint64_t beyond INT64_MAX */
#define SBX_DEFAULT_B(v)      SBX_MODIFIER_(SBX_M_DEFAULT_B, sizeof(v) - 1, 0, 0, v) /* of struct sbx_bytes: a literal, "\x01\x00" */
#endif
#define SBX_RANGE(lo, hi)     SBX_MODIFIER_(SBX_M_RANGE, lo, hi, 0, NULL)     /* of one number: checked at each restore */
#define SBX_WAS(old)          SBX_MODIFIER_(SBX_M_WAS, 0, 0, 0, old)          /* its name before; works for the way back too */
/* Makes the field before it optional: `f` is a bool member that says whether it is there. */
#define SBX_PRESENT(f)        SBX_ROW_(SBX_M_PRESENT, 0, SBX_OFFSET_(f), SBX_IS_(f, bool), 0, 0, 0, NULL, NULL, 0, 0, 0, NULL)

/* ==== declaring the module ==== */

#define SBX_ITEM_(tag, number, name, text, fn, schema) { tag, number, name, text, fn, schema }
/* The state; at most one. Without it the module has none and self is NULL. */
#define SBX_USES(tag)         SBX_ITEM_(SBX_T_STATE, 0, #tag, NULL, NULL, tag##_schema)
/* A function that clients call. signature: "name: type" with commas; type is i64 u64 f64 bool str bytes list dict any;
 * `type?` may be left out by the caller, and so may `type = JSON literal`, which is then filled in. The host checks names
 * and types before the function runs. */
#define SBX_FN(f, signature)  SBX_ITEM_(SBX_T_FN, 0, #f, signature, f, NULL)
#define SBX_FN_AS(name, f, signature) SBX_ITEM_(SBX_T_FN, 0, name, signature, f, NULL)
#if SBX_WANT_MINOR >= 1
/* In place of SBX_USES: a state that no table describes. self is sizeof(T) zeroed bytes (aligned to 16); what of it lasts is what
 * `save` writes and `restore` reads. */
#define SBX_SELF(T)           SBX_ITEM_(SBX_T_SELF, sizeof(T), #T, NULL, NULL, NULL)
/* A function that sbx_after and sbx_every call by its name. */
#define SBX_TIMER(f)          SBX_ITEM_(SBX_T_TIMER, 0, #f, NULL, f, NULL)
/* Own save and restore, both or none; alone with SBX_SELF, or beside SBX_USES for what the table can't say (the members of
 * SBX_SKIP). `save` writes with sbx_put_...; it may run several times and changes nothing. `restore` reads with sbx_saved(x, key);
 * it runs at every start that isn't the first, after `make` and the declared fields, before `migrate`. */
#define SBX_ON_SAVE(f)        SBX_ITEM_(SBX_T_SAVE, 0, NULL, NULL, f, NULL)
#define SBX_ON_RESTORE(f)     SBX_ITEM_(SBX_T_RESTORE, 0, NULL, NULL, f, NULL)
#endif
/* Hooks; each at most once. A failing make, init, migrate or check refuses the start or the reload. */
#define SBX_ON_MAKE(f)        SBX_ITEM_(SBX_T_MAKE, 0, NULL, NULL, f, NULL)    /* always, before init or the restored fields */
#define SBX_ON_INIT(f)        SBX_ITEM_(SBX_T_INIT, 0, NULL, NULL, f, NULL)    /* first start only; reads sbx_config */
#define SBX_ON_MIGRATE(f)     SBX_ITEM_(SBX_T_MIGRATE, 0, NULL, NULL, f, NULL) /* after the fields, if the old state version is another */
#define SBX_ON_CHECK(f)       SBX_ITEM_(SBX_T_CHECK, 0, NULL, NULL, f, NULL)   /* is this state sane? changes nothing */
#define SBX_ON_STOP(f)        SBX_ITEM_(SBX_T_STOP, 0, NULL, NULL, f, NULL)    /* an orderly end: state was saved before it */
#define SBX_ON_UNMAKE(f)      SBX_ITEM_(SBX_T_UNMAKE, 0, NULL, NULL, f, NULL)  /* last: this instance goes */

/* name: a C identifier. version: of the state, 1 or more; raise it when fields change. */
#define SBX_MODULE(name, version, ...)                                                                                \
	static const struct sbx_item sbx_items_[] = { __VA_ARGS__, SBX_ITEM_(SBX_T_END, 0, NULL, NULL, NULL, NULL) }; \
	static SBX_SECTION_(".sbx.info") const char sbx_info_[] = "sbx=1;name=" #name ";state=" #version;             \
	const struct sbx_module sandbox_module = { SBX_MAGIC, SBX_ABI_MAJOR, SBX_WANT_MINOR, sizeof(struct sbx_module), \
		sizeof(struct sbx_item), SBX_U32_(sizeof sbx_items_ / sizeof sbx_items_[0] - 1), version, #name,      \
		sbx_items_, sbx_info_ }

/* ==== memory: the host's, counted, freed with the instance ==== */

/* Zeroed, 16-aligned, never NULL: when the sandbox's memory is exhausted, it ends. */
static inline void *sbx_alloc(struct sbx *x, uint64_t n) { return x->host->alloc(x, n); }
/* Keeps what fits, zeroes what is new. p: from here, or NULL. */
static inline void *sbx_resize(struct sbx *x, void *p, uint64_t n) { return x->host->resize(x, p, n); }
/* p: from here, or NULL. Anything else fails the callback with the code `not_owned` and is left alone. */
static inline void sbx_free(struct sbx *x, void *p) { x->host->release(x, p); }

/* Puts a copy of s (NULL: NULL) into a char * member and frees what was there. */
static inline void sbx_set_str(struct sbx *x, char **slot, const char *s)
{
	char *copy = NULL, *old = *slot;

	if (s != NULL) {
		uint64_t n = strlen(s) + 1;

		copy = SBX_CAST_(char *, sbx_alloc(x, n));
		memcpy(copy, s, n);
	}
	*slot = copy;
	sbx_free(x, old);
}

/* Puts a copy of n bytes into a struct sbx_bytes member and frees what was there. */
static inline void sbx_set_bytes(struct sbx *x, struct sbx_bytes *slot, const void *p, uint64_t n)
{
	void *copy = NULL, *old = slot->data;

	if (n != 0) {
		copy = sbx_alloc(x, n);
		memcpy(copy, p, n);
	}
	slot->data = copy;
	slot->size = n;
	sbx_free(x, old);
}

/* Appends a zeroed item and yields its address: struct item *it = SBX_ADD(x, s->items, s->n_items, struct item);
 * Earlier addresses of items are void after it. A counter that is full ends the sandbox. */
#define SBX_ADD(x, items, n, T)                                                                                       \
	((items) = SBX_CAST_(T *, (x)->host->grow((x), (items), SBX_CAST_(uint64_t, n), SBX_U32_(sizeof(*(items))),   \
		 SBX_COUNTER_(n))), &(items)[(n)++])

/* ==== maps ====
 * Keys are texts, any bytes but NUL. Addresses of values and keys are void after the next SBX_PUT into the same map. */
#if SBX_WANT_MINOR >= 1

/* The value's address, or NULL. */
#define SBX_FIND(x, map, T, key) SBX_CAST_(T *, (x)->host->map_find((x), (map), (key), strlen(key)))
/* The value's address; a key that isn't there yet gets a new value: zeroed, a struct with its defaults. */
#define SBX_PUT(x, map, T, key)  SBX_CAST_(T *, (x)->host->map_put((x), (map), (key), strlen(key), sizeof(T)))
/* Each pair, oldest key first: for (uint64_t at = 0; (v = SBX_NEXT(x, map, T, &at, &key)) != NULL;) ... Removing is fine on the way. */
#define SBX_NEXT(x, map, T, at, key) SBX_CAST_(T *, (x)->host->map_next((x), (map), (at), (key), NULL))
/* Was it there? What the value points to is freed with it. */
static inline bool sbx_map_remove(struct sbx *x, struct sbx_map *map, const char *key) { return x->host->map_remove(x, map, key, strlen(key)) != 0; }
static inline uint64_t sbx_map_count(struct sbx *x, const struct sbx_map *map) { return x->host->map_count(x, map); }

#endif

/* ==== reading ====
 * A value of another type, or none, makes the callback fail (`bad_value`) even if it returns 0, and yields 0 or "": so
 * nothing needs a check of its own. Look before with sbx_has and sbx_type_of where absence is fine. */

static inline struct sbx_val sbx_arg(struct sbx *x, const char *key) { return x->host->get(x->host->root(x, SBX_ARGS), key); }
static inline struct sbx_val sbx_old(struct sbx *x, const char *key) { return x->host->get(x->host->root(x, SBX_OLD), key); }
static inline struct sbx_val sbx_config(struct sbx *x, const char *key) { return x->host->get(x->host->root(x, SBX_CONFIG), key); }
#if SBX_WANT_MINOR >= 1
static inline struct sbx_val sbx_saved(struct sbx *x, const char *key) { return x->host->get(x->host->root(x, SBX_SAVED), key); }
#endif
static inline struct sbx_val sbx_root(struct sbx *x, enum sbx_root which) { return x->host->root(x, which); }
static inline struct sbx_val sbx_get(struct sbx *x, struct sbx_val dict, const char *key) { return x->host->get(dict, key); }
static inline bool sbx_has(struct sbx_val v) { return v.p != NULL; }
static inline enum sbx_type sbx_type_of(struct sbx *x, struct sbx_val v) { return x->host->type(v); }
/* Items of a list or dict, bytes of a text or blob, else 0. */
static inline uint64_t sbx_length(struct sbx *x, struct sbx_val v) { return x->host->length(v); }
/* The next item: struct sbx_val at = { 0 }, key, v; while (sbx_has(v = sbx_next(x, dict, &key, &at))) ... key: NULL ok. */
static inline struct sbx_val sbx_next(struct sbx *x, struct sbx_val c, struct sbx_val *key, struct sbx_val *at) { return x->host->next(c, key, at); }

static inline int64_t sbx_i64(struct sbx *x, struct sbx_val v) { return x->host->as_i64(x, v, NULL); }
static inline uint64_t sbx_u64(struct sbx *x, struct sbx_val v) { return x->host->as_u64(x, v, NULL); }
static inline double sbx_f64(struct sbx *x, struct sbx_val v) { return x->host->as_f64(x, v, NULL); }
static inline bool sbx_bool(struct sbx *x, struct sbx_val v) { return x->host->as_bool(x, v, NULL); }
static inline const char *sbx_text(struct sbx *x, struct sbx_val v) { return x->host->as_text(x, v, NULL, NULL); }
static inline const void *sbx_blob(struct sbx *x, struct sbx_val v, uint64_t *n) { return x->host->as_blob(x, v, NULL, n); }

static inline int64_t sbx_arg_i64(struct sbx *x, const char *key) { return x->host->as_i64(x, sbx_arg(x, key), key); }
static inline uint64_t sbx_arg_u64(struct sbx *x, const char *key) { return x->host->as_u64(x, sbx_arg(x, key), key); }
static inline double sbx_arg_f64(struct sbx *x, const char *key) { return x->host->as_f64(x, sbx_arg(x, key), key); }
static inline bool sbx_arg_bool(struct sbx *x, const char *key) { return x->host->as_bool(x, sbx_arg(x, key), key); }
static inline const char *sbx_arg_str(struct sbx *x, const char *key) { return x->host->as_text(x, sbx_arg(x, key), key, NULL); }
static inline const void *sbx_arg_bytes(struct sbx *x, const char *key, uint64_t *n) { return x->host->as_blob(x, sbx_arg(x, key), key, n); }

/* ==== replying, and saving ====
 * A reply is a dict, and so is what `save` writes: each put adds a member. Inside a list the key is NULL. All return 0, or -1 after which the call fails. */

static inline int sbx_put_i64(struct sbx *x, const char *key, int64_t v) { return x->host->put_i64(x, key, v); }
static inline int sbx_put_u64(struct sbx *x, const char *key, uint64_t v) { return x->host->put_u64(x, key, v); }
static inline int sbx_put_f64(struct sbx *x, const char *key, double v) { return x->host->put_f64(x, key, v); }
static inline int sbx_put_bool(struct sbx *x, const char *key, bool v) { return x->host->put_bool(x, key, v); }
static inline int sbx_put_null(struct sbx *x, const char *key) { return x->host->put_null(x, key); }
/* NULL: null. Text that isn't UTF-8 arrives as bytes. */
static inline int sbx_put_str(struct sbx *x, const char *key, const char *s) { return s != NULL ? x->host->put_text(x, key, s, strlen(s)) : x->host->put_null(x, key); }
static inline int sbx_put_bytes(struct sbx *x, const char *key, const void *p, uint64_t n) { return x->host->put_blob(x, key, p, n); }
static inline int sbx_put_val(struct sbx *x, const char *key, struct sbx_val v) { return x->host->put_val(x, key, v); }
static inline int sbx_open_list(struct sbx *x, const char *key) { return x->host->begin(x, key, SBX_LIST); }
static inline int sbx_open_dict(struct sbx *x, const char *key) { return x->host->begin(x, key, SBX_DICT); }
static inline int sbx_close(struct sbx *x) { return x->host->end(x); }

/* Ends a callback as failed: return sbx_fail(x, "not_found", "no key %s", key); code: a short word for programs. */
SBX_PRINTF_(3, 4) static inline int sbx_fail(struct sbx *x, const char *code, const char *format, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	return x->host->fail_with(x, code, text, n < 0 ? 0 : SBX_CAST_(size_t, n) < sizeof text ? SBX_CAST_(size_t, n) : sizeof text - 1);
}
/* Did this callback fail already (a bad value, a put in the wrong place, sbx_fail)? */
static inline bool sbx_failed(const struct sbx *x) { return x->host->failed(x) != 0; }

/* ==== services ==== */

/* One line of the sandbox's log, at most 1023 bytes. */
SBX_PRINTF_(3, 4) static inline void sbx_log(struct sbx *x, enum sbx_level level, const char *format, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	x->host->log(x, level, text, n < 0 ? 0 : SBX_CAST_(size_t, n) < sizeof text ? SBX_CAST_(size_t, n) : sizeof text - 1);
}
/* Milliseconds since 1970. */
static inline int64_t sbx_now_ms(struct sbx *x) { return x->host->now_ms(x); }
/* In a long loop: if (sbx_stop_asked(x)) return sbx_fail(x, "cancelled", "..."); It also says that the code is alive. */
/* Where a sandbox has heartbeat_ms, a function that runs longer must call one of these two more often than that, or it is killed. */
static inline void sbx_heartbeat(struct sbx *x) { *x->beat = *x->beat + 1; }
static inline bool sbx_stop_asked(struct sbx *x) { *x->beat = *x->beat + 1; return *x->attention != 0; }
/* In restore and migrate: the version of the state that came. */
static inline uint32_t sbx_old_version(struct sbx *x) { return x->host->version(x, 1); }

#if SBX_WANT_MINOR >= 1
/* Timers, by the name of an SBX_TIMER; one of each name. They run between calls, never during one. What is left of their time
 * crosses a reload, a restart and a stop; while no code runs it stands still. One that is late runs once. A failing timer is a line in the
 * log. Code that has no function for an armed timer can't take over. 0, or -1 after which the callback fails. */
static inline int sbx_after(struct sbx *x, const char *timer, int64_t ms) { return x->host->timer(x, timer, ms < 0 ? 0 : ms, 0); }
static inline int sbx_every(struct sbx *x, const char *timer, int64_t ms) { return x->host->timer(x, timer, ms < 1 ? 1 : ms, ms < 1 ? 1 : ms); }
static inline int sbx_cancel_timer(struct sbx *x, const char *timer) { return x->host->timer(x, timer, -1, 0); }
/* What later hosts offer by name; NULL: not this one. */
static inline const void *sbx_extension(struct sbx *x, const char *name) { return x->host->extension(x, name); }
#endif

#if defined __cplusplus && SBX_WANT_MINOR >= 1
/* ==== C++ classes ====
 * SBX_MODULE(table, 1, SBX_CLASS(Table), SBX_SAVES(Table, save), SBX_RESTORES(Table, restore), SBX_METHOD(Table, get, "key: str"));
 * self is a Table, made by its default constructor and destroyed at the end; a method is `int get(struct sbx *x)`. An exception that
 * leaves one becomes the call's error, with the code `exception`. */
#include <exception>
#include <new>
namespace sbx_detail {
template <class F> int guard(struct sbx *x, F f)
{
#ifdef __cpp_exceptions
	try {
		return f();
	} catch (const std::exception &e) {
		return sbx_fail(x, "exception", "%s", e.what());
	} catch (...) {
		return sbx_fail(x, "exception", "something that isn't a std::exception");
	}
#else
	(void)x;
	return f();
#endif
}
template <class T> int make(struct sbx *x, void *self)
{
	static_assert(alignof(T) <= 16, "sandboxd: self is aligned to 16 bytes");
	return guard(x, [&] { new (self) T(); return 0; });
}
template <class T> int destroy(struct sbx *, void *self)
{
	static_cast<T *>(self)->~T();
	return 0;
}
template <class T, auto M> int method(struct sbx *x, void *self) /* M may be inherited */
{
	return guard(x, [&] { return (static_cast<T *>(self)->*M)(x); });
}
}
#define SBX_CLASS(T)                SBX_SELF(T), SBX_ON_MAKE(sbx_detail::make<T>), SBX_ON_UNMAKE(sbx_detail::destroy<T>)
#define SBX_METHOD(T, m, signature) SBX_ITEM_(SBX_T_FN, 0, #m, signature, (sbx_detail::method<T, &T::m>), NULL)
#define SBX_TIMES(T, m)             SBX_ITEM_(SBX_T_TIMER, 0, #m, NULL, (sbx_detail::method<T, &T::m>), NULL)
#define SBX_SAVES(T, m)             SBX_ON_SAVE((sbx_detail::method<T, &T::m>))
#define SBX_RESTORES(T, m)          SBX_ON_RESTORE((sbx_detail::method<T, &T::m>))
#endif

#endif
