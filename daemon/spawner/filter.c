/* SPDX-License-Identifier: MIT
 *
 * Table -> verdict of each row -> ranges of call numbers with one answer -> a binary tree of comparisons. A call whose answer hangs on
 * its arguments is a range of its own, with its rows as straight code. */
#include "daemon/spawner/filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <stddef.h>
#include <string.h>

#include "daemon/spawner/calls.h"
#include "proto/fd.h"
#include "proto/protection.h"

#define NUMBERS    1024 /* call numbers that the table may have; larger ones are unlisted */
#define RANGES_MAX (NUMBERS + 2)
#define JUMP_MAX   255  /* of a conditional jump */

#define OFFSET(member)   ((uint32_t)offsetof(struct seccomp_data, member))
#define OFFSET_LOW(n)    (OFFSET(args) + 8u * (uint32_t)(n) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4))
#define OFFSET_HIGH(n)   (OFFSET(args) + 8u * (uint32_t)(n) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 4 : 0))

/* ---- verdicts ---- */

static uint64_t operations_of(const struct policy *p, uint64_t weaken)
{
	uint64_t operations = p->operations;

	if (weaken & PROTECTION_BIT(PROTECTION_NETWORK))
		operations |= OPERATION(NETWORK_CLIENT) | OPERATION(NETWORK_SERVER) | OPERATION(NETWORK_OTHER) | OPERATION(CRYPTO);
	if (weaken & PROTECTION_BIT(PROTECTION_NEW_CODE))
		operations |= OPERATION(DYNAMIC_CODE) | OPERATION(MEMORY_FILES);
	return operations;
}

static uint32_t ret_errno(int error)
{
	return SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA);
}

static void row_decide(
	const struct policy *p, uint64_t weaken, bool listener, const struct call_row *row, struct filter_verdict *ret)
{
	bool forbidden;

	*ret = (struct filter_verdict){ .ret = SECCOMP_RET_ALLOW, .operation = OPERATION__N, .call = row->name };
	if (row->operations & operations_of(p, weaken))
		return;
	ret->operation = (enum operation)__builtin_ctzll(row->operations);
	ret->error = operation_refusal(ret->operation);
	forbidden = ret->error == 0;
	if (forbidden) {
		ret->error = EPERM;
		ret->kill = p->forbidden == POLICY_KILL;
	}
	/* Programs ask for what isn't implemented and go on without: that is no news. */
	if (listener && p->audit >= (forbidden ? POLICY_AUDIT_BASIC : POLICY_AUDIT_FULL) && ret->error != ENOSYS)
		ret->ret = SECCOMP_RET_USER_NOTIF;
	else
		ret->ret = ret->kill ? SECCOMP_RET_KILL_PROCESS : ret_errno(ret->error);
}

static uint32_t ret_unlisted(const struct policy *p)
{
	return p->unlisted == POLICY_ALLOW ? SECCOMP_RET_ALLOW : ret_errno(ENOSYS);
}

void filter_decide(const struct policy *p, uint64_t weaken, bool listener, const struct seccomp_data *call, struct filter_verdict *ret)
{
	const struct call_row *row;

	*ret = (struct filter_verdict){ .ret = SECCOMP_RET_KILL_PROCESS, .operation = OPERATION__N, .call = "" };
	if (call->arch != CALL_ARCH || (uint32_t)call->nr >= CALL_NUMBER_X32)
		return;
	row = call_find(call);
	if (row)
		row_decide(p, weaken, listener, row, ret);
	else
		ret->ret = ret_unlisted(p);
	if (!row && p->unlisted == POLICY_ENOSYS)
		ret->error = ENOSYS;
}

/* ---- the program ---- */

struct range {
	uint32_t first;              /* number; it ends before the next one's */
	uint32_t ret;                /* the answer, if no row's condition holds */
	const struct call_row *rows; /* one call's rows with conditions */
	size_t n_rows;               /* 0: none, and the range may be of many calls */
};

struct maker {
	const struct policy *policy;
	uint64_t weaken;
	bool listener;
	struct range ranges[RANGES_MAX];
	size_t n_ranges;
	struct sock_filter code[BPF_MAXINSNS];
	size_t n; /* beyond BPF_MAXINSNS: it doesn't fit */
};

static void emit(struct maker *m, uint16_t code, uint32_t k, size_t jt, size_t jf)
{
	assert(jt <= JUMP_MAX && jf <= JUMP_MAX);
	if (m->n < BPF_MAXINSNS)
		m->code[m->n] = (struct sock_filter){ code, (uint8_t)jt, (uint8_t)jf, k };
	m->n++;
}

static void emit_load(struct maker *m, uint32_t offset)
{
	emit(m, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void emit_ret(struct maker *m, uint32_t ret)
{
	emit(m, BPF_RET | BPF_K, ret, 0, 0);
}

static uint32_t row_ret(const struct maker *m, const struct call_row *row)
{
	struct filter_verdict v;

	row_decide(m->policy, m->weaken, m->listener, row, &v);
	return v.ret;
}

/* ---- one call's rows ---- */

static bool is_equal32(const struct call_row *row, unsigned argument)
{
	const struct call_condition *c = row->conditions;

	return row->n_conditions == 1 && c->argument == argument && c->mask == UINT32_MAX && !c->differs;
}

/* One word of one condition: goes on behind itself if it holds, else `skip` instructions further. */
static void emit_word(struct maker *m, uint32_t offset, uint32_t mask, uint32_t value, bool differs, size_t skip)
{
	emit_load(m, offset);
	if (differs && value == 0) {
		emit(m, BPF_JMP | BPF_JSET | BPF_K, mask, 0, skip);
		return;
	}
	if (mask != UINT32_MAX)
		emit(m, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	emit(m, BPF_JMP | BPF_JEQ | BPF_K, value, differs ? skip : 0, differs ? 0 : skip);
}

static size_t word_size(uint32_t mask, uint32_t value, bool differs)
{
	return mask == UINT32_MAX || (differs && value == 0) ? 2 : 3;
}

static size_t condition_size(const struct call_condition *c)
{
	size_t size = word_size((uint32_t)c->mask, (uint32_t)c->value, c->differs);

	return c->mask >> 32 ? size + word_size((uint32_t)(c->mask >> 32), (uint32_t)(c->value >> 32), c->differs) : size;
}

static void emit_condition(struct maker *m, const struct call_condition *c, size_t skip)
{
	uint32_t high = (uint32_t)(c->mask >> 32), high_value = (uint32_t)(c->value >> 32);
	size_t high_size = high ? word_size(high, high_value, c->differs) : 0;

	assert(!c->differs || high == 0); /* "one of the words differs" would be another shape */
	emit_word(m, OFFSET_LOW(c->argument), (uint32_t)c->mask, (uint32_t)c->value, c->differs, skip + high_size);
	if (high)
		emit_word(m, OFFSET_HIGH(c->argument), high, high_value, c->differs, skip);
}

static void emit_row(struct maker *m, const struct call_row *row)
{
	size_t behind = 1; /* the answer */

	for (size_t i = row->n_conditions; i-- > 0;)
		behind += condition_size(&row->conditions[i]);
	for (size_t i = 0; i < row->n_conditions; i++) {
		behind -= condition_size(&row->conditions[i]);
		emit_condition(m, &row->conditions[i], behind);
	}
	emit_ret(m, row_ret(m, row));
}

/* Rows that compare one argument with one value each and have one answer: one load, one answer. Returns how many there are. */
static size_t emit_values(struct maker *m, const struct call_row *rows, size_t n_rows)
{
	unsigned argument = rows->conditions[0].argument;
	uint32_t ret = row_ret(m, rows);
	size_t n = 0;

	while (n < n_rows && n < JUMP_MAX && is_equal32(&rows[n], argument) && row_ret(m, &rows[n]) == ret)
		n++;
	if (n < 2)
		return 0;
	emit_load(m, OFFSET_LOW(argument));
	for (size_t i = 0; i < n; i++)
		emit(m, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rows[i].conditions[0].value, n - 1 - i, i + 1 == n ? 1 : 0);
	emit_ret(m, ret);
	return n;
}

static void emit_range(struct maker *m, const struct range *r)
{
	for (size_t i = 0; i < r->n_rows;) {
		size_t n = emit_values(m, r->rows + i, r->n_rows - i);

		if (n == 0)
			emit_row(m, &r->rows[i]);
		i += n ? n : 1;
	}
	emit_ret(m, r->ret);
}

/* ---- the tree ---- */

static void range_add(struct maker *m, uint32_t first, uint32_t ret, const struct call_row *rows, size_t n_rows)
{
	struct range *last = m->n_ranges ? &m->ranges[m->n_ranges - 1] : NULL;

	/* Rows just before the last that give the same answer as it decide nothing. */
	while (n_rows > 0 && row_ret(m, &rows[n_rows - 1]) == ret)
		n_rows--;
	if (last && last->n_rows == 0 && n_rows == 0 && last->ret == ret)
		return;
	assert(m->n_ranges < RANGES_MAX);
	m->ranges[m->n_ranges++] = (struct range){ first, ret, rows, n_rows };
}

static void ranges_make(struct maker *m)
{
	for (uint32_t number = 0; number < NUMBERS; number++) {
		size_t first = 0, n = 0;

		while (first < call_rows_n && call_rows[first].number != (int)number)
			first++;
		while (first + n < call_rows_n && call_rows[first + n].number == (int)number)
			n++;
		assert(n == 0 || call_rows[first + n - 1].n_conditions == 0);
		if (n > 0)
			range_add(m, number, row_ret(m, &call_rows[first + n - 1]), call_rows + first, n - 1);
		else
			range_add(m, number, ret_unlisted(m->policy), NULL, 0);
	}
	range_add(m, NUMBERS, ret_unlisted(m->policy), NULL, 0);
	range_add(m, CALL_NUMBER_X32, SECCOMP_RET_KILL_PROCESS, NULL, 0);
}

/* Ranges first to last. The left half stands right behind the comparison; a right half that is too far for a conditional jump is
 * reached by a long one, for which the left half is moved. */
static void emit_tree(struct maker *m, size_t first, size_t last)
{
	size_t middle = first + (last - first + 1) / 2, at = m->n, size;

	if (first == last) {
		emit_range(m, &m->ranges[first]);
		return;
	}
	emit(m, BPF_JMP | BPF_JGE | BPF_K, m->ranges[middle].first, 0, 0);
	emit_tree(m, first, middle - 1);
	size = m->n - at - 1;
	if (m->n >= BPF_MAXINSNS)
		return;
	if (size <= JUMP_MAX) {
		m->code[at].jt = (uint8_t)size;
	} else {
		memmove(m->code + at + 2, m->code + at + 1, size * sizeof *m->code);
		m->n++;
		m->code[at].jf = 1;
		m->code[at + 1] = (struct sock_filter){ BPF_JMP | BPF_JA, 0, 0, (uint32_t)size };
	}
	emit_tree(m, middle, last);
}

static void emit_all(struct maker *m)
{
	emit_load(m, OFFSET(arch));
	emit(m, BPF_JMP | BPF_JEQ | BPF_K, CALL_ARCH, 1, 0);
	emit_ret(m, SECCOMP_RET_KILL_PROCESS);
	emit_load(m, OFFSET(nr));
	emit_tree(m, 0, m->n_ranges - 1);
}

int filter_build(const struct policy *p, uint64_t weaken, bool listener, struct filter *ret, struct err *e)
{
	struct maker m = { .policy = p, .weaken = weaken, .listener = listener };

	*ret = (struct filter){ .fd = -1 };
	ranges_make(&m);
	emit_all(&m);
	if (m.n > BPF_MAXINSNS)
		return err_set(e, ERR_INTERNAL, "the filter of profile %s has %zu instructions, more than the kernel takes (%d)",
			p->name, m.n, BPF_MAXINSNS);
	ret->fd = fd_memfd("filter", m.code, m.n * sizeof *m.code, true);
	if (ret->fd < 0)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a memfd for the filter of profile %s", p->name);
	ret->n_instructions = (uint32_t)m.n;
	return 0;
}
