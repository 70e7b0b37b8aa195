# redis-rb with the gateway: redis_rb_client.rb PORT.
require 'redis'

def check(holds, what)
  abort "wrong: #{what}" unless holds
end

client = Redis.new(port: ARGV[0].to_i, timeout: 60)
client.del('c:bin', 'c:large', 'c:h', 'c:n', 'c:t', 'c:absent')
binary = (0..255).map(&:chr).join.b
large = 'x' * (1 << 20)
check(client.set('c:bin', binary) == 'OK' && client.get('c:bin').b == binary, 'binary')
check(client.set('c:large', large) == 'OK' && client.get('c:large') == large, 'large')
check(client.setex('c:bin', 100, '1') == 'OK' && client.ttl('c:bin') > 90, 'expiry')
check(client.set('c:bin', '2', nx: true) == false, 'nx')
check(client.pipelined { |pipe| 1000.times { pipe.incr('c:n') } } == (1..1000).to_a, 'pipeline')
check(client.multi { |t| t.set('c:t', 1); t.incr('c:t') } == ['OK', 2], 'multi')
watched = client.watch('c:t') do
  Redis.new(port: ARGV[0].to_i).set('c:t', 7)
  client.multi { |t| t.incr('c:t') }
end
check(watched.nil?, 'watch')
check(client.hset('c:h', 'a', 1, 'b', binary) == 2 && client.hget('c:h', 'b').b == binary, 'hset')
check(client.hincrby('c:h', 'a', 2) == 3 && client.hkeys('c:h') == %w[a b], 'hash')
begin
  client.incr('c:h')
  check(false, 'a hash is no number')
rescue Redis::CommandError => error
  check(error.message.start_with?('WRONGTYPE'), error.message)
end
check(client.get('c:absent').nil?, 'absent')
check((%w[c:bin c:large c:h] - client.scan_each(match: 'c:*').to_a).empty?, 'scan')
