<?php
// phpredis with the gateway: phpredis_client.php PORT.
function check($holds, $what) {
    if ($holds) return;
    fwrite(STDERR, "wrong: $what\n");
    exit(1);
}

$client = new Redis();
check($client->connect('127.0.0.1', (int)$argv[1], 60.0), 'connect');
$client->del('c:bin', 'c:large', 'c:h', 'c:n', 'c:t', 'c:absent');
$binary = "\0\r\n\xff";
$large = str_repeat('x', 1 << 20);
check($client->set('c:bin', $binary) && $client->get('c:bin') === $binary, 'binary');
check($client->set('c:large', $large) && $client->get('c:large') === $large, 'large');
check($client->setex('c:bin', 100, '1') && $client->ttl('c:bin') > 90, 'expiry');
check($client->set('c:bin', '2', ['nx']) === false, 'nx');
$pipe = $client->multi(Redis::PIPELINE);
for ($i = 0; $i < 1000; ++$i) $pipe->incr('c:n');
check($pipe->exec() === range(1, 1000), 'pipeline');
check($client->multi()->set('c:t', 1)->incr('c:t')->exec() === [true, 2], 'multi');
$client->watch('c:t');
$other = new Redis();
$other->connect('127.0.0.1', (int)$argv[1], 60.0);
$other->set('c:t', '7');
check($client->multi()->incr('c:t')->exec() === false, 'watch');
check($client->hMSet('c:h', ['a' => '1', 'b' => $binary]), 'hmset');
check($client->hGetAll('c:h') === ['a' => '1', 'b' => $binary] && $client->hIncrBy('c:h', 'a', 2) === 3, 'hash');
check($client->incr('c:h') === false && str_starts_with($client->getLastError(), 'WRONGTYPE'), 'error');
check($client->get('c:absent') === false, 'absent');
$client->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$cursor = null;
$found = [];
while ($keys = $client->scan($cursor, 'c:*')) $found = array_merge($found, $keys);
check(count(array_unique($found)) >= 5, 'scan');
