// memcached for Node with the gateway: node_memcached_client.js PORT.
const assert = require('assert');
const util = require('util');
const Memcached = require('memcached');

const client = new Memcached(`127.0.0.1:${process.argv[2]}`, {timeout: 60000, retries: 0, maxValue: 2 << 20});
const call = (name, ...words) => util.promisify(client[name]).apply(client, words);

async function use() {
  for (const key of ['m:bin', 'm:large', 'm:n', 'm:cas', 'm:absent']) await call('del', key);
  const binary = Buffer.from([...Array(256).keys()]);
  const large = 'x'.repeat(1 << 20);
  await call('set', 'm:bin', binary, 100);
  assert((await call('get', 'm:bin')).equals(binary));
  await call('set', 'm:large', large, 0);
  assert.strictEqual(await call('get', 'm:large'), large);
  await call('touch', 'm:bin', 100);
  await assert.rejects(call('add', 'm:bin', 'x', 0));
  await call('set', 'm:cas', 'one', 0);
  const {cas} = await call('gets', 'm:cas');
  assert.strictEqual(await call('cas', 'm:cas', 'two', cas, 0), true);
  assert.strictEqual(await call('cas', 'm:cas', 'three', cas, 0), false);
  await call('set', 'm:n', 7, 0);
  assert.strictEqual(await call('incr', 'm:n', 5), 12);
  assert.strictEqual(await call('decr', 'm:n', 2), 10);
  assert.strictEqual(await call('incr', 'm:absent', 1), false);
  await Promise.all([...Array(100).keys()].map((i) => call('set', `m:many${i}`, i, 0)));
  const many = await call('getMulti', [...Array(200).keys()].map((i) => `m:many${i}`));
  assert.strictEqual(Object.keys(many).length, 100);
  assert.strictEqual(many['m:many99'], 99);
  for (let i = 0; i < 100; ++i) assert.strictEqual(await call('del', `m:many${i}`), true);
  await assert.rejects(call('incr', 'm:large', 1), /non-numeric/);
  client.end();
}

use().catch((error) => {
  console.error(error);
  process.exit(1);
});
