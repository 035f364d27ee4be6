-- forget: remove what is known about a key that nobody has, except who has released it: late requests are not granted
-- ARGV 1 with the token 0|1 2 keep
-- the answer is status as it was before
local before = status()
if value or host(st.holder) or paused() > 0 then return before end
local none = {}
for _, name in ipairs({'holder', 'acquired', 'min_hold_until', 'tick', 'ttl_ms', 'expires', 'hand_over', 'revoked', 'offered', 'served_tick', 'series_tick',
  'starts', 'pause_since', 'pause_until', 'pause_by', 'pause_reason', 'period_ms', 'tries', 'meta', 'candidates', ARGV[1] == '1' and 'token' or nil}) do
  none[#none + 1] = name
  none[#none + 1] = ''
end
if redis.call('PTTL', STATE) ~= -2 then
  redis.call('HSET', STATE, unpack(none))
  redis.call('PEXPIRE', STATE, tonumber(ARGV[2]))
end
redis.call('DEL', RUNS)
return before
