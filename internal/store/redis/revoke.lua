-- revoke: take the lease from its holder, who frees the key once its tree is gone, or at once whatever stands there
-- ARGV 1 at once 0|1 2 keep 3 ttl of a holder that has none
-- the answer is status as it was before
local before, why, id = status(), '', ''
if value then why, id = kind(value) end
local atonce = ARGV[1] == '1'
if why == 'revoked' then call() end
if not atonce and (why == '' or why == 'revoked' or why == 'foreign') then return before end

local new = math.max((token or 0) + 1, now) -- a sink that knows it refuses the old holder
if new > MAXINT then return bad(STATE, 'token is out of range') end
local keep = kept(ARGV[2])
if token and host(st.holder) then -- its own word, which may still come, takes the place of this
  file(token, record(token, int(st.tick) or 0, int(st.acquired) or 0, math.min(int(st.expires) or now, now), nil, st.holder), keep)
end
local rel = st.released -- neither of them is granted again
if host(st.holder) then rel = ' ' .. st.holder .. ' ' .. rel end
if why == 'held' and id ~= st.holder then rel = ' ' .. id .. ' ' .. rel end
local waits = why == 'held' and not atonce -- for its release
redis.call('HSET', STATE, 'token', str(new), 'holder', '', 'released', string.sub(rel, 1, 1000), 'hand_over', '', 'revoked', waits and id or '',
  'settle_since', '', 'settle_due', '')
redis.call('PEXPIRE', STATE, keep)
if waits then
  local left = redis.call('PTTL', LEASE)
  if left < 0 then left = int(st.ttl) or tonumber(ARGV[3]) end
  redis.call('SET', LEASE, 'revoked:' .. id, 'PX', math.max(1, left))
else
  redis.call('DEL', LEASE)
  wake()
end
call()
return before
