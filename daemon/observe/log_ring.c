/* SPDX-License-Identifier: MIT
 *
 * The ring's bytes: a header, the two unfinished lines, the records. The header is only written here, a mirror of
 * struct log_ring for the next control process, which reads it once in log_ring_adopt. */
#include "daemon/observe/log_ring.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/fd.h"

#define RING_MAGIC   0x676f4c54u /* also changes with the layout */
#define RECORD_MAGIC 0x724cull
#define SEALS        (F_SEAL_SHRINK | F_SEAL_GROW)

struct header {
	uint32_t magic, zero;
	uint64_t start, end, dropped, id;
	struct log_open open[LOG_PIPES];
};

/* How a record begins. One word holds all small fields: a flood of empty lines spends its time here. */
struct words {
	int64_t wall_ms;
	uint64_t fields;     /* from the lowest bit: size 16, stream 8, level 8, partial 8, flags 8, magic 16 */
};

_Static_assert(sizeof(struct header) <= LOG_RING_HEADER, "the header fits in front of the lines");
_Static_assert(sizeof(struct words) == LOG_RECORD_BYTES, "a record begins with its two words");
_Static_assert(LOG_RING_CAPACITY % 8 == 0, "a record's 8-byte parts never wrap");
_Static_assert(LIMIT_LOG_LINE_BYTES <= UINT16_MAX && LIMIT_LOG_LINE_BYTES % 8 == 0, "a line's size fits its field");
_Static_assert(LOG_STREAM_STDOUT < LOG_PIPES && LOG_STREAM_STDERR < LOG_PIPES, "pipes come first");

static struct header *header_of(const struct log_ring *r)
{
	return (struct header *)(void *)r->map;
}

static unsigned char *open_area(const struct log_ring *r, unsigned pipe)
{
	return r->map + LOG_RING_HEADER + (size_t)pipe * LIMIT_LOG_LINE_BYTES;
}

static unsigned char *record_area(const struct log_ring *r)
{
	return r->map + LOG_RING_HEADER + (size_t)LOG_PIPES * LIMIT_LOG_LINE_BYTES;
}

/* The order of stores matters only to a process that looks after this one has been killed, so the compiler's is enough. */
static void in_order(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void store64(uint64_t *to, uint64_t v)
{
	in_order();
	__atomic_store_n(to, v, __ATOMIC_RELAXED);
	in_order();
}

static void copy_in(const struct log_ring *r, uint64_t at, const void *from, size_t n)
{
	size_t offset = (size_t)(at % LOG_RING_CAPACITY);
	size_t first = n < LOG_RING_CAPACITY - offset ? n : LOG_RING_CAPACITY - offset;

	memcpy(record_area(r) + offset, from, first);
	if (n > first)
		memcpy(record_area(r), (const char *)from + first, n - first);
}

static void copy_out(const struct log_ring *r, uint64_t at, void *to, size_t n)
{
	size_t offset = (size_t)(at % LOG_RING_CAPACITY);
	size_t first = n < LOG_RING_CAPACITY - offset ? n : LOG_RING_CAPACITY - offset;

	memcpy(to, record_area(r) + offset, first);
	if (n > first)
		memcpy((char *)to + first, record_area(r), n - first);
}

uint64_t log_record_raw(const struct log_record *record)
{
	if (record->stream >= LOG_PIPES)
		return 0;
	return record->size + (record->flags & LOG_F_NEWLINE ? 1u : 0u) +
		(record->flags & LOG_F_PREFIX ? LOG_PREFIX_BYTES : 0u);
}

static struct words pack(const struct log_record *record)
{
	return (struct words){ record->wall_ms,
		record->size | (uint64_t)record->stream << 16 | (uint64_t)record->level << 24 |
			(uint64_t)record->partial << 32 | (uint64_t)record->flags << 40 | RECORD_MAGIC << 48 };
}

/* False at the end, and for what can't be a record: its size then isn't trusted either. */
static bool read_record(const struct log_ring *r, uint64_t at, struct log_record *ret)
{
	struct words w;

	if (at < r->start || at >= r->end || r->end - at < LOG_RECORD_BYTES)
		return false;
	copy_out(r, at, &w, sizeof(w));
	*ret = (struct log_record){ .wall_ms = w.wall_ms, .size = w.fields & 0xffff, .stream = w.fields >> 16 & 0xff,
		.level = w.fields >> 24 & 0xff, .partial = w.fields >> 32 & 0xff, .flags = w.fields >> 40 & 0xff };
	return w.fields >> 48 == RECORD_MAGIC && ret->size <= LIMIT_LOG_LINE_BYTES && ret->stream < LOG_STREAM__N &&
		ret->level <= 7 && ret->partial < LOG_PARTIAL__N && ret->flags <= (LOG_F_NEWLINE | LOG_F_PREFIX) &&
		log_record_room(ret->size) <= r->end - at;
}

/* ---- making and taking over ---- */

void log_ring_init(struct log_ring *r)
{
	*r = (struct log_ring){ .fd = -1 };
}

void log_ring_fini(struct log_ring *r)
{
	if (r->map)
		(void)munmap(r->map, LIMIT_LOG_RING_BYTES);
	fd_close(&r->fd);
	log_ring_init(r);
}

static int ring_map(int fd, unsigned char **ret, struct err *e)
{
	void *map = mmap(NULL, LIMIT_LOG_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return err_sys(e, ERR_INTERNAL, "cannot map a log ring");
	*ret = map;
	return 0;
}

int log_ring_make(struct log_ring *r, struct err *e)
{
	autoclose int fd = fd_memfd("sandbox-log", NULL, 0, false);

	assert(r->fd == -1);
	if (fd == -1 || ftruncate(fd, LIMIT_LOG_RING_BYTES) == -1 || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == -1)
		return err_sys(e, ERR_INTERNAL, "cannot make a log ring");
	if (ring_map(fd, &r->map, e) == -1)
		return -1;
	r->fd = fd_take(&fd);
	r->start = r->end = r->kept = 0;
	memset(r->open, 0, sizeof(r->open));
	r->id = (uint64_t)clock_wall_us(); /* two rings of one sandbox may follow each other within a millisecond */
	*header_of(r) = (struct header){ .magic = RING_MAGIC, .dropped = r->dropped, .id = r->id };
	return 0;
}

static bool is_sane_open(const struct log_open *o)
{
	return o->size <= LIMIT_LOG_LINE_BYTES && o->is_continued <= 1 && o->level <= 7;
}

/* The whole way from start to end, once. */
static int check_ring(struct log_ring *r, struct err *e)
{
	struct log_record record;
	uint64_t at = r->start;

	if (header_of(r)->magic != RING_MAGIC)
		return err_set(e, ERR_INTERNAL, "it isn't a log of this version");
	if (r->id == 0 || r->id > INT64_MAX || r->start > r->end || r->end - r->start > LOG_RING_CAPACITY || r->start % 8 || r->end % 8 ||
		r->end > UINT64_MAX / 2)
		return err_set(e, ERR_INTERNAL, "its bounds can't be right");
	for (unsigned i = 0; i < LOG_PIPES; i++)
		if (!is_sane_open(&r->open[i]))
			return err_set(e, ERR_INTERNAL, "its unfinished lines can't be right");
	while (at < r->end) {
		if (!read_record(r, at, &record))
			return err_set(e, ERR_INTERNAL, "what is %llu bytes before its end isn't a line",
				(unsigned long long)(r->end - at));
		at += log_record_room(record.size);
		r->kept += log_record_raw(&record);
	}
	return 0;
}

int log_ring_adopt(struct log_ring *r, int fd_take_arg, struct err *e)
{
	autoclose int fd = fd_take_arg;
	struct log_ring found;
	struct header h;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	assert(r->fd == -1);
	log_ring_init(&found);
	if (fstat(fd, &st) == -1 || st.st_size != LIMIT_LOG_RING_BYTES || seals == -1 || (seals & SEALS) != SEALS)
		return err_set(e, ERR_INTERNAL, "it isn't a sealed memfd of %u bytes", LIMIT_LOG_RING_BYTES);
	if (ring_map(fd, &found.map, e) == -1)
		return -1;
	found.fd = fd_take(&fd);
	h = *header_of(&found);
	found.start = h.start;
	found.end = h.end;
	found.dropped = h.dropped;
	found.id = h.id;
	memcpy(found.open, h.open, sizeof(found.open));
	if (check_ring(&found, e) == -1) {
		log_ring_fini(&found);
		return -1;
	}
	log_ring_drop(&found, r->dropped);
	*r = found;
	return 0;
}

/* ---- records ---- */

void log_ring_drop(struct log_ring *r, uint64_t bytes)
{
	r->dropped += bytes;
	if (r->map)
		store64(&header_of(r)->dropped, r->dropped);
}

static void store_start(struct log_ring *r)
{
	store64(&header_of(r)->dropped, r->dropped);
	store64(&header_of(r)->start, r->start);
}

void log_ring_empty(struct log_ring *r)
{
	assert(r->map);
	r->dropped += r->kept;
	r->kept = 0;
	r->start = r->end;
	store_start(r);
}

static void drop_oldest(struct log_ring *r)
{
	struct log_record old;
	uint64_t raw;

	if (!read_record(r, r->start, &old)) { /* someone wrote into our bytes: nothing behind can be found any more */
		log_ring_empty(r);
		return;
	}
	raw = log_record_raw(&old);
	raw = raw < r->kept ? raw : r->kept;
	r->start += log_record_room(old.size);
	r->dropped += raw;
	r->kept -= raw;
}

void log_ring_add(struct log_ring *r, const struct log_record *record, const char *text)
{
	struct words w = pack(record);
	uint64_t room = log_record_room(record->size);
	size_t offset = (size_t)(r->end % LOG_RING_CAPACITY);

	assert(r->map && record->size <= LIMIT_LOG_LINE_BYTES && record->stream < LOG_STREAM__N);
	if (r->end - r->start + room > LOG_RING_CAPACITY) {
		do
			drop_oldest(r);
		while (r->end - r->start + room > LOG_RING_CAPACITY);
		store_start(r);
	}
	if (room <= LOG_RING_CAPACITY - offset) {
		memcpy(record_area(r) + offset, &w, sizeof(w));
		memcpy(record_area(r) + offset + sizeof(w), text, record->size);
	} else {
		copy_in(r, r->end, &w, sizeof(w));
		copy_in(r, r->end + sizeof(w), text, record->size);
	}
	r->kept += log_record_raw(record);
	r->end += room;
	store64(&header_of(r)->end, r->end);
}

bool log_ring_next(const struct log_ring *r, uint64_t *at, struct log_line *ret)
{
	if (!r->map || !read_record(r, *at, &ret->record))
		return false;
	copy_out(r, *at + LOG_RECORD_BYTES, ret->text, ret->record.size);
	*at += log_record_room(ret->record.size);
	return true;
}

/* ---- unfinished lines ---- */

static void store_open(struct log_ring *r, unsigned pipe)
{
	in_order();
	header_of(r)->open[pipe] = r->open[pipe];
	in_order();
}

const char *log_ring_open_text(const struct log_ring *r, unsigned pipe)
{
	return (const char *)open_area(r, pipe);
}

void log_ring_open_append(struct log_ring *r, unsigned pipe, const char *data, size_t n, int64_t wall_ms)
{
	struct log_open *o = &r->open[pipe];

	assert(r->map && n <= LIMIT_LOG_LINE_BYTES - o->size);
	memcpy(open_area(r, pipe) + o->size, data, n);
	o->size += (uint32_t)n;
	o->wall_ms = wall_ms;
	store_open(r, pipe);
}

void log_ring_open_take(struct log_ring *r, unsigned pipe, size_t n, bool is_continued, uint8_t level)
{
	struct log_open *o = &r->open[pipe];

	assert(n <= o->size);
	if (n == 0 && is_continued == o->is_continued && level == o->level)
		return;
	if (n < o->size)
		memmove(open_area(r, pipe), open_area(r, pipe) + n, o->size - n);
	o->size -= (uint32_t)n;
	o->is_continued = is_continued;
	o->level = level;
	store_open(r, pipe);
}
