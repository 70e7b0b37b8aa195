// ioredis, or iovalkey, which came of it, with the gateway: ioredis_client.js PORT MODULE.
const assert = require('assert');

async function use(Redis) {
  const client = new Redis(Number(process.argv[2]));
  await client.del('c:bin', 'c:large', 'c:h', 'c:n', 'c:t', 'c:absent');
  const binary = Buffer.from([...Array(256).keys()]);
  const large = Buffer.alloc(1 << 20, 'x');
  await client.set('c:bin', binary);
  assert((await client.getBuffer('c:bin')).equals(binary));
  await client.set('c:large', large);
  assert((await client.getBuffer('c:large')).equals(large));
  await client.set('c:bin', '1', 'EX', 100);
  assert((await client.ttl('c:bin')) > 90);
  assert.strictEqual(await client.set('c:bin', '2', 'NX'), null);
  const pipe = client.pipeline();
  for (let i = 0; i < 1000; ++i) pipe.incr('c:n');
  assert.deepStrictEqual((await pipe.exec()).map(([, n]) => n), [...Array(1000).keys()].map((i) => i + 1));
  assert.deepStrictEqual(await client.multi().set('c:t', 1).incr('c:t').exec(), [[null, 'OK'], [null, 2]]);
  await client.watch('c:t');
  const other = client.duplicate();
  await other.set('c:t', 7);
  assert.strictEqual(await client.multi().incr('c:t').exec(), null);
  await client.hset('c:h', {a: '1', b: 'x'});
  assert.deepStrictEqual({...(await client.hgetall('c:h'))}, {a: '1', b: 'x'});
  assert.strictEqual(await client.hincrby('c:h', 'a', 2), 3);
  await assert.rejects(client.incr('c:h'), /WRONGTYPE/);
  assert.strictEqual(await client.get('c:absent'), null);
  const found = new Set();
  for await (const keys of client.scanStream({match: 'c:*'})) keys.forEach((key) => found.add(key));
  assert(found.has('c:bin') && found.has('c:h'));
  other.disconnect();
  await client.quit();
}

const library = require(process.argv[3]);
use(library.default || library).catch((error) => {
  console.error(error);
  process.exit(1);
});
