-- renew: extend the lease by its ttl from now on
-- ARGV 1 holder 2 token 3 ttl 4 acquired 5 min hold until 6 tick 7 keep 8 meta 9 offered 0|1
-- {1, now, asked}      renewed; asked 1: hand over
-- {2, now, asked}      the key was missing and is restored
-- {0, now, why, value} lost; why other|revoked|cooldown|newer|released
local me, mine, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local hold = math.max(ttl, rest(tonumber(ARGV[4]), tonumber(ARGV[5])))
local keep = math.max(life(ARGV[7]), hold)
local asked = st.hand_over == ARGV[2] and 1 or 0

-- restore writes all of the state that belongs to this lease, whatever of it was lost
local function restore()
  redis.pcall('HSET', STATE, 'token', ARGV[2], 'holder', me, 'acquired', ARGV[4], 'min_hold_until', ARGV[5], 'tick', ARGV[6], 'ttl_ms', ARGV[3],
    'expires', str(now + hold), 'revoked', '', 'settle_since', '', 'settle_due', '', 'meta', ARGV[8], 'server', server)
end

-- confirm does what every renewal does: it also answers earlier calls
local function confirm()
  local offered = ARGV[9] == '1' and ARGV[2] or ''
  if st.offered ~= offered then redis.pcall('HSET', STATE, 'offered', offered) end
  redis.pcall('PEXPIRE', STATE, keep)
  redis.pcall('DEL', CALL)
end

if value == me and (token or 0) <= mine then
  redis.call('PEXPIRE', LEASE, hold)
  if token == mine and st.holder == me then
    redis.pcall('HSET', STATE, 'expires', str(now + hold), 'server', server, 'settle_since', '', 'settle_due', '')
  else
    restore()
  end
  confirm()
  return {1, now, asked}
end
-- outdated: a lease with a smaller token that nobody renewed since this server started had ended before this holder was
-- granted the key. It came back with older data, and is replaced. If its holder lives, its next renewal finds a newer token.
local function outdated()
  local why, id = kind(value)
  return why ~= 'foreign' and id ~= me and token and token < mine and st.server ~= '' and server ~= '' and st.server ~= server
end
if value and not outdated() then
  local why = 'other'
  if value == me then why = 'newer' end
  for _, mark in ipairs({'cooldown', 'revoked'}) do
    if value == mark .. ':' .. me then why = mark end
  end
  return {0, now, why, string.sub(value, 1, 256)}
end
-- The key is missing or outdated: it has expired by this server's clock, which may have been set, or was lost. The lease is
-- restored unless another grant or its release followed, whatever that clock says, since the holder's own clock counts: it
-- renews only while the lease is valid there. If the renewal
--  comes late, its holder's tree is dead, and the key stays taken for a ttl, unless the holder releases it first;
--  comes after the release, or twice, the answer is 'released' as long as the state has it, else as above;
--  comes to a store that lost its state, another grant may have followed. Candidates settle first there, so the lease was
--  this holder's, or that of one whose next renewal finds the key taken and stops.
if token and token > mine then return {0, now, 'newer', ''} end
if st.holder ~= me and (token == mine or string.find(st.released, ' ' .. me .. ' ', 1, true)) then return {0, now, 'released', ''} end
redis.call('SET', LEASE, me, 'PX', hold)
restore()
confirm()
note_serving()
return {2, now, asked}
