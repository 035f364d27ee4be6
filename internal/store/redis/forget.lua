-- forget: remove what is known of a key that nobody has, but who has released it, whose late requests must not be granted
-- ARGV 1 with the token 0|1 2 keep
-- the answer is status as it was before
local before = status()
if value or host(st.holder) or paused() > 0 then return before end
local none = {}
for _, name in ipairs({'holder', 'acquired', 'min_hold_until', 'tick', 'ttl', 'expires', 'hand_over', 'revoked', 'offered', 'served_tick', 'series_tick',
  'starts', 'paused_since', 'paused_until', 'paused_by', 'paused_reason', 'period', 'tries', 'meta', 'candidates', ARGV[1] == '1' and 'token' or nil}) do
  none[#none + 1] = name
  none[#none + 1] = ''
end
if redis.call('PTTL', STATE) ~= -2 then
  redis.call('HSET', STATE, unpack(none))
  redis.call('PEXPIRE', STATE, tonumber(ARGV[2]))
end
redis.call('DEL', RUNS)
return before
