-- pause: nobody is granted the key until it ends; the holder keeps its lease
-- ARGV 1 for how long 2 by 3 reason 4 keep
-- the answer is status, with the pause
local left = tonumber(ARGV[1])
st.paused_since, st.paused_until = str(now), str(now + left)
redis.call('HSET', STATE, 'paused_since', st.paused_since, 'paused_until', st.paused_until, 'paused_by', ARGV[2], 'paused_reason', ARGV[3])
redis.call('PEXPIRE', STATE, math.max(kept(ARGV[4]), left))
return status()
