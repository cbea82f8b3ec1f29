-- Says what came of a task, unless another holder leads it. KEYS: leader and findings, as a hash. ARGV: now, holder, findings.
-- Returns 1, or 0 if nothing is changed.
local leader = redis.call('HGET', KEYS[1], 'leader')
if leader and leader ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'findings', ARGV[3], 'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], 3600 * 1000)
return 1
