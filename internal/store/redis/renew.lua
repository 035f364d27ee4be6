-- renew: extend the lease by its ttl from now on
-- ARGV 1 holder 2 token 3 ttl 4 acquired 5 min hold until 6 tick 7 until (the last positive answer's now + ttl)
--      8 keep 9 meta
-- {1, now, asked}      renewed; asked 1: hand over
-- {2, now, asked}      the key had gone and is back
-- {0, now, why, value} lost; why other|revoked|cooldown|newer|released|expired
local me, mine, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local hold = math.max(ttl, tonumber(ARGV[5]) - now)
local keep = math.max(tonumber(ARGV[8]), hold)
local asked = st.req == ARGV[2] and 1 or 0

-- restore writes what the state must say while this lease lives, whatever of it was lost
local function restore()
  redis.pcall('HSET', STATE, 'tok', ARGV[2], 'id', me, 'at', ARGV[4], 'nb', ARGV[5], 'tick', ARGV[6], 'ttl', ARGV[3],
    'exp', str(now + hold), 'since', '', 'due', '', 'meta', ARGV[9])
end

if value == me and (token or 0) <= mine then
  redis.call('PEXPIRE', LEASE, hold)
  if token == mine and st.id == me then
    redis.pcall('HSET', STATE, 'exp', str(now + hold))
  else
    restore()
  end
  redis.pcall('PEXPIRE', STATE, keep)
  return {1, now, asked}
end
if value then
  local why = 'other'
  if value == me then why = 'newer' end
  for _, mark in ipairs({'cooldown', 'revoked'}) do
    if value == mark .. ':' .. me then why = mark end
  end
  return {0, now, why, string.sub(value, 1, 256)}
end
-- The key is gone. It is taken back when nobody was granted it since and the holder's tree may still live.
if token and token > mine then return {0, now, 'newer', ''} end
if token == mine and st.id ~= me then return {0, now, 'released', ''} end
if now >= tonumber(ARGV[7]) then return {0, now, 'expired', ''} end
redis.call('SET', LEASE, me, 'PX', hold)
restore()
redis.pcall('PEXPIRE', STATE, keep)
settled(keep)
return {2, now, asked}
