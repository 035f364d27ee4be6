-- swap: replace a row, if version and lease are still the ones that were read; otherwise answer as read.lua does
-- ARGV 1 version and 2 '=' with the lease, as read ('': none)
--      3 new version 4 new state 5 new runs ('': as they are) 6 for how long, in ms, the state is kept
--      7 new lease 8 for how long, in ms (0: none, -1: it stays as it is)
--      9 renewed 0|1 10 calls 0|1 11 wakes 0|1 12 since when this server has served ('': is known)
if (state[1] or '') ~= ARGV[1] or (lease and '=' .. lease or '') ~= ARGV[2] then return row(0) end
if field(replication, 'role') == 'slave' then return redis.error_reply('READONLY it is a replica, which loses what is written to it') end
local hold = tonumber(ARGV[8])
if hold > 0 then redis.call('SET', KEYS[1], ARGV[7], 'PX', hold) end
if hold == 0 and lease then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[2], 'version', ARGV[3], 'state', ARGV[4])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[2], 'runs', ARGV[5]) end
if hold > 0 then redis.call('HSET', KEYS[2], 'expires', string.format('%.0f', now + hold)) end
redis.call('PEXPIRE', KEYS[2], ARGV[6])
if ARGV[12] ~= '' then redis.pcall('SET', KEYS[5], ARGV[12], 'PX', 34 * 86400000) end -- it ends before any state

-- ring leaves one element in a list on which clients wait, now or soon. Each step may be denied: the row is written.
local function ring(list)
  redis.pcall('DEL', list)
  redis.pcall('RPUSH', list, '1')
  redis.pcall('PEXPIRE', list, 5000)
end
if ARGV[9] == '1' then
  redis.pcall('DEL', KEYS[3])
  redis.pcall('DEL', KEYS[4])
end
if ARGV[10] == '1' then ring(KEYS[4]) end
if ARGV[11] == '1' then ring(KEYS[3]) end
return {1, now, server, ARGV[3]} -- which nothing between here and the caller can know
