-- pause: nobody is granted the key until it ends; the holder keeps its lease
-- ARGV 1 for how long 2 by 3 reason 4 keep
-- the answer is status, with the pause
local left = tonumber(ARGV[1])
st.pause_since, st.pause_until = str(now), str(now + left)
redis.call('HSET', STATE, 'pause_since', st.pause_since, 'pause_until', st.pause_until, 'pause_by', ARGV[2], 'pause_reason', ARGV[3])
redis.call('PEXPIRE', STATE, math.max(life(ARGV[4]), left))
return status()
