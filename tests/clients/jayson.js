// SPDX-License-Identifier: MIT
// A JSON-RPC client that isn't ours, over the daemon's Unix socket: node jayson.js SOCKET. Prints a line `ok what` for each thing that is as it should be.
"use strict";
const assert = require("assert");
const jayson = require("jayson/promise");

const client = jayson.Client.tcp({ path: process.argv[2] });

async function main() {
	const ok = what => console.log("ok " + what);
	const ping = await client.request("daemon.ping", {});
	assert.strictEqual(ping.result.pong, true);
	ok("a request (ids are UUIDs)");

	const info = await client.request("daemon.info", {});
	assert.strictEqual(info.result.protocol, 1);
	ok("daemon.info");

	const wrong = await client.request("sandbox.info", { id: "nobody" });
	assert.strictEqual(wrong.error.data.code, "not_found");
	ok("an error has its code in data");

	const positional = await client.request("daemon.ping", [1]);
	assert.strictEqual(positional.error.code, -32602);
	ok("parameters by position are refused");

	const batch = await client.request([
		client.request("daemon.ping", {}, undefined, false),
		client.request("sandbox.list", {}, undefined, false),
		client.request("no.method", {}, undefined, false),
	]);
	assert.deepStrictEqual(batch.map(r => !!r.result), [true, true, false]);
	ok("a batch");

	await client.request("daemon.ping", {}, null);
	ok("a notification");

	const many = await Promise.all(Array.from({ length: 50 }, (_, i) =>
		client.request("sandbox.call", { id: "web", function: "increment", args: { by: 1 }, request_key: "jayson-" + (i % 10) })));
	const counts = new Set(many.map(r => r.result.result.count));
	assert.strictEqual(counts.size, 10);
	ok("fifty requests at once with ten keys: each key once");

	const outcome = await client.request("request.outcome", { request_key: "jayson-3" });
	assert.deepStrictEqual(outcome.result.result, many[3].result);
	ok("request.outcome");

	const big = await client.request("sandbox.call", { id: "web", function: "increment", args: { by: "9007199254740993" } });
	assert.strictEqual(typeof big.result.result.count, "string");
	ok("64-bit integers cross as decimal strings");

	const text = await client.request("sandbox.call", { id: "web", function: "gr\u00fc\u00df\ud83d\ude00" });
	assert.strictEqual(text.error.data.code, "bad_param");
	ok("text beyond ASCII");
	ok("done");
}

main().catch(e => {
	console.log("FAIL " + e.stack);
	process.exit(1);
});
