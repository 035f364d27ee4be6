-- revoke: take the lease from its holder, which frees the key once its tree is gone, or free the key at once
-- ARGV 1 at once 0|1 2 keep 3 ttl of a holder that has none
-- the answer is status as it was before
local before, why, id = status(), '', ''
if value then why, id = kind(value) end
local at_once = ARGV[1] == '1'
if why == 'revoked' then call_holder() end
if not at_once and (why == '' or why == 'revoked' or why == 'foreign') then return before end

local new = math.max((token or 0) + 1, now) -- a sink that has seen it refuses the old holder
if new > MAXINT then return bad(STATE, 'token is out of range') end
local keep = life(ARGV[2])
vanish(keep)
local released = st.released -- no late request of these is granted
if host(st.holder) then released = ' ' .. st.holder .. ' ' .. released end
if why == 'held' and id ~= st.holder then released = ' ' .. id .. ' ' .. released end
local waits = why == 'held' and not at_once -- for its release
redis.call('HSET', STATE, 'token', str(new), 'holder', '', 'released', string.sub(released, 1, 1000), 'hand_over', '', 'revoked', waits and id or '',
  'settle_since', '', 'settle_due', '')
redis.call('PEXPIRE', STATE, keep)
if waits then
  local left = redis.call('PTTL', LEASE)
  if left < 0 then left = int(st.ttl_ms) or tonumber(ARGV[3]) end
  redis.call('SET', LEASE, 'revoked:' .. id, 'PX', math.max(1, left))
else
  redis.call('DEL', LEASE)
  wake_standby()
end
call_holder()
return before
