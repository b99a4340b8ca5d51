/* SPDX-License-Identifier: MIT
 *
 * A cache of three: own save and restore, since no table describes a linked list, and its order is state. */
#define SBX_WANT_MINOR 1
#include <sandbox_module.h>

struct node { struct node *next; char *key; int64_t value; };
struct lru { struct node *head; int64_t n, cap, hits; };

/* To the end of the list, in the order in which `restore` meets them. */
static struct node **lru_append(struct sbx *x, struct lru *l, struct node **end, const char *key, int64_t value)
{
	struct node *n = (struct node *)sbx_alloc(x, sizeof *n);

	sbx_set_str(x, &n->key, key);
	n->value = value;
	*end = n;
	l->n++;
	return &n->next;
}

static int put(struct sbx *x, void *self)
{
	struct lru *l = (struct lru *)self;
	struct node *rest = l->head, **p;

	for (p = &l->head; *p != NULL && strcmp((*p)->key, sbx_arg_str(x, "key")) != 0; p = &(*p)->next)
		;
	if (*p != NULL) { /* it moves to the front */
		struct node *n = *p;

		*p = n->next;
		n->next = l->head;
		l->head = n;
		n->value = sbx_arg_i64(x, "value");
		return 0;
	}
	*lru_append(x, l, &l->head, sbx_arg_str(x, "key"), sbx_arg_i64(x, "value")) = rest;
	if (l->n <= l->cap)
		return 0;
	for (p = &l->head; (*p)->next != NULL; p = &(*p)->next)
		;
	sbx_free(x, (*p)->key);
	sbx_free(x, *p);
	*p = NULL;
	l->n--;
	return 0;
}

static int get(struct sbx *x, void *self)
{
	struct lru *l = (struct lru *)self;
	struct node **p = &l->head, *n;

	while (*p != NULL && strcmp((*p)->key, sbx_arg_str(x, "key")) != 0)
		p = &(*p)->next;
	n = *p;
	if (n == NULL)
		return sbx_fail(x, "not_found", "%s isn't cached", sbx_arg_str(x, "key"));
	*p = n->next;
	n->next = l->head;
	l->head = n;
	l->hits++;
	return sbx_put_i64(x, "value", n->value);
}

static int keys(struct sbx *x, void *self)
{
	struct lru *l = (struct lru *)self;

	sbx_open_list(x, "keys");
	for (struct node *n = l->head; n != NULL; n = n->next)
		sbx_put_str(x, NULL, n->key);
	return sbx_close(x);
}

static int init(struct sbx *x, void *self)
{
	(void)x;
	((struct lru *)self)->cap = 3;
	return 0;
}

static int save(struct sbx *x, void *self)
{
	struct lru *l = (struct lru *)self;

	sbx_put_i64(x, "cap", l->cap);
	sbx_open_list(x, "entries");
	for (struct node *n = l->head; n != NULL; n = n->next) {
		sbx_open_dict(x, NULL);
		sbx_put_str(x, "k", n->key);
		sbx_put_i64(x, "v", n->value);
		sbx_close(x);
	}
	return sbx_close(x);
}

static int restore(struct sbx *x, void *self)
{
	struct lru *l = (struct lru *)self;
	struct sbx_val at = { 0 }, e;
	struct node **end = &l->head;

	if (sbx_old_version(x) != 1) /* a form that isn't ours would read as an empty cache */
		return sbx_fail(x, "version", "can't read version %u", (unsigned)sbx_old_version(x));
	l->cap = sbx_i64(x, sbx_saved(x, "cap"));
	while (sbx_has(e = sbx_next(x, sbx_saved(x, "entries"), NULL, &at)))
		end = lru_append(x, l, end, sbx_text(x, sbx_get(x, e, "k")), sbx_i64(x, sbx_get(x, e, "v")));
	return 0;
}

SBX_MODULE(lru, 1, SBX_SELF(struct lru), SBX_ON_INIT(init), SBX_ON_SAVE(save), SBX_ON_RESTORE(restore),
	SBX_FN(put, "key: str, value: i64"), SBX_FN(get, "key: str"), SBX_FN(keys, ""));
