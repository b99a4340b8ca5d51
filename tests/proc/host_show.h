/* SPDX-License-Identifier: MIT
 *
 * The part of test_host.c about HOST_SHOW and about a PREPARE that is given up; included there, behind what it uses. */
static void show_of_nothing(struct host_message *m) { m->type = HOST_SHOW; m->value[0] = SHOW__N; }

/* The present state and a sealed one, in words; refused where the state isn't at rest in one place; calls go on. */
START_TEST(a_state_is_shown)
{
	int64_t size;
	int fd;

	start("tally");
	call(1, "increment", "{\"by\":7}");
	expect_reply(1, 0, "{\"count\":7}");
	send_bytes(HOST_SHOW, 5, NULL, 0, -1, SHOW_STATE);
	expect_body(HOST_SHOWN, 0, "\"state\":{\"count\":7},\"timers\":null,\"own\":null");
	ck_assert_uint_eq(r.in.head.number, 5);
	send_bytes(HOST_SHOW, 6, NULL, 0, -1, SHOW_CHECK);
	expect_body(HOST_SHOWN, 0, "\"same\":true");
	fd = sized_memfd(65536);
	quiesce_save(2, fd, 65536);
	expect_body(HOST_SAVED, 0, "");
	size = r.in.head.value[0];
	send_bytes(HOST_SHOW, 7, NULL, 0, -1, SHOW_STATE);
	expect_body(HOST_SHOWN, 1, "\"wrong_state\"");
	send_json(HOST_ABORT, 2, NULL);
	expect(HOST_ABORTED);
	send_bytes(HOST_SHOW, 8, NULL, 0, fd, SHOW_SCHEMA); /* it can still be changed */
	expect_body(HOST_SHOWN, 1, "isn't a sealed memfd");
	ck_assert_int_eq(ftruncate(fd, size), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	call(2, "increment", "{\"by\":1}");
	expect_reply(2, 0, "{\"count\":8}");
	send_bytes(HOST_SHOW, 9, NULL, 0, fd, SHOW_STATE);
	expect_body(HOST_SHOWN, 0, "\"state\":{\"count\":7}");
	send_bytes(HOST_SHOW, 10, NULL, 0, fd, SHOW_SCHEMA);
	expect_body(HOST_SHOWN, 0, "\"name\":\"count\",\"kind\":\"i64\"");
	close(fd);
	fd = fd_memfd("state", "no state", 8, true);
	send_bytes(HOST_SHOW, 11, NULL, 0, fd, SHOW_STATE);
	expect_body(HOST_SHOWN, 1, "no saved state");
	close(fd);
	stop();
}
END_TEST

START_TEST(aborted_preparation_leaves_nothing)
{
	int fd = sized_memfd(64 << 20);

	start("tally");
	for (uint64_t serial = 2; serial < 40; serial++) {
		send_bytes(HOST_PREPARE, serial, NULL, 0, fd, 64 << 20);
		send_json(HOST_ABORT, serial, NULL);
		expect(HOST_ABORTED); /* the first piece at most had its turn */
	}
	expect_count("{\"count\":0}");
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0); /* nobody has it mapped */
	close(fd);
	stop();
}
END_TEST
