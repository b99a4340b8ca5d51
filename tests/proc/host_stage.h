/* SPDX-License-Identifier: MIT
 *
 * Tests of a candidate's process, which is staged and then started from a state; and of the one that it replaces; and a mirror. Part of test_host.c. */
/* ---- a candidate's process ---- */

static void send_stage(uint64_t serial, const char *module)
{
	char body[256];

	snprintf(body, sizeof body, "{\"path\":\"%s\"}", object(module));
	send_json(HOST_STAGE, serial, body);
}

START_TEST(staged_then_started_from_a_state)
{
	char body[512];
	int fd;

	start("tally");
	call(1, "increment", "{\"by\":41}");
	expect_reply(1, 0, "");
	fd = quiesce_and_save(2);
	stop();
	begin();
	send_stage(3, "tally_v2");
	expect_body(HOST_STAGED, 0, "\"module\":{\"name\":\"tally\"");
	call(1, "get", "{}"); /* it serves nothing yet */
	expect_reply(1, 1, "\"code\":\"wrong_state\"");
	snprintf(body, sizeof body, "{\"path\":\"%s\",\"config\":null,\"backwards\":false,\"patch\":{\"count\":42}}", object("tally_v2"));
	send_bytes(HOST_START, 3, body, strlen(body), fd, 0);
	expect_body(HOST_READY, 0, "\"restore_us\":");
	ck_assert_uint_eq(r.in.head.number, 3);
	call(2, "get", "{}");
	expect_reply(2, 0, "\"count\":42");
	close(fd);
	stop();
}
END_TEST

START_TEST(a_stage_that_fails_says_the_step)
{
	begin();
	send_stage(3, "no_descriptor");
	expect_body(HOST_FAILED, 1, "\"step\":\"open\"");
	ck_assert_int_eq(ended(), 1 << 8);
	clean();
}
END_TEST

static const char *const bad_stages[] = { "twice", "other serial", "no serial", "config", "backwards", "serving", "before begin" };

START_TEST(a_stage_out_of_turn_ends_the_host)
{
	const char *how = bad_stages[_i];

	if (strcmp(how, "before begin") == 0)
		spawn(false);
	else if (strcmp(how, "serving") == 0)
		start("tally");
	else
		begin();
	if (strcmp(how, "config") == 0)
		send_json(HOST_STAGE, 3, "{\"path\":\"/x.so\",\"config\":{}}");
	else if (strcmp(how, "backwards") == 0)
		send_json(HOST_STAGE, 3, "{\"path\":\"/x.so\",\"backwards\":true}");
	else
		send_stage(strcmp(how, "no serial") == 0 ? 0 : 3, "tally");
	if (strcmp(how, "twice") == 0 || strcmp(how, "other serial") == 0)
		expect(HOST_STAGED);
	if (strcmp(how, "twice") == 0)
		send_stage(4, "tally_v2");
	else if (strcmp(how, "other serial") == 0)
		send_start("tally", "null", -1);
	ck_assert_str_ne(expect_death().text, "");
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	clean();
}
END_TEST

/* Another process goes on with its state: nothing is over for the module, so `stop` isn't called. */
START_TEST(who_is_replaced_ends_without_its_stop_hook)
{
	for (int replaced = 0; replaced < 2; replaced++) {
		start("farewell");
		call(1, "prepare", "{\"lines\":2}");
		expect_reply(1, 0, "");
		send_bytes(HOST_STOP, 0, NULL, 0, -1, replaced);
		if (replaced)
			expect(HOST_STOPPED);
		ck_assert_int_eq(ended(), 0);
		ck_assert_int_eq(printed(0, "farewell 2"), !replaced);
		clean();
	}
}
END_TEST

START_TEST(mirror_that_comes_late_ends_the_host)
{
	int fd = fd_memfd("mirror", "x", 1, false);

	start("tally");
	send_bytes(HOST_MIRROR, 0, NULL, 0, fd, 0);
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	close(fd);
	clean();
}
END_TEST
