// node-redis with the gateway: node_redis_client.js PORT.
const assert = require('assert');
const redis = require('redis');

async function use(options) {
  const client = redis.createClient({socket: {host: '127.0.0.1', port: Number(process.argv[2])}, ...options});
  client.on('error', () => {});
  await client.connect();
  await client.del(['c:large', 'c:h', 'c:n', 'c:t', 'c:absent', 'c:bin']);
  const large = 'x'.repeat(1 << 20);
  const binary = Buffer.from([...Array(256).keys()]);
  await client.set('c:bin', binary);
  assert.strictEqual(await client.strLen('c:bin'), 256);
  const buffers = client.withTypeMapping ? client.withTypeMapping({[redis.RESP_TYPES.BLOB_STRING]: Buffer}) : null;
  if (buffers) assert((await buffers.get('c:bin')).equals(binary));
  await client.set('c:large', large);
  assert.strictEqual(await client.get('c:large'), large);
  await client.set('c:bin', '1', {EX: 100});
  assert((await client.ttl('c:bin')) > 90);
  assert.strictEqual(await client.set('c:bin', '2', {NX: true}), null);
  const numbers = await Promise.all([...Array(1000).keys()].map(() => client.incr('c:n')));
  assert.deepStrictEqual(numbers, [...Array(1000).keys()].map((i) => i + 1));
  assert.deepStrictEqual(await client.multi().set('c:t', '1').incr('c:t').exec(), ['OK', 2]);
  await client.hSet('c:h', {a: '1', b: 'x'});
  assert.deepStrictEqual({...(await client.hGetAll('c:h'))}, {a: '1', b: 'x'});
  assert.strictEqual(await client.hIncrBy('c:h', 'a', 2), 3);
  await assert.rejects(client.incr('c:h'), /WRONGTYPE/);
  assert.strictEqual(await client.get('c:absent'), null);
  const found = [];
  for await (const keys of client.scanIterator({MATCH: 'c:*'})) found.push(...[].concat(keys));
  assert(found.includes('c:bin') && found.includes('c:h'));
  await (client.close || client.quit).call(client);
}

use({}).then(() => use({RESP: 3})).catch((error) => {
  console.error(error);
  process.exit(1);
});
