-- renew: extend the lease by its ttl from now on
-- ARGV 1 holder 2 token 3 ttl 4 acquired 5 min hold until 6 tick 7 keep 8 meta 9 offered 0|1
-- {1, now, asked}      renewed; asked 1: hand over
-- {2, now, asked}      the key had gone and is back
-- {0, now, why, value} lost; why other|revoked|cooldown|newer|released
local me, mine, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local hold = math.max(ttl, rest(tonumber(ARGV[4]), tonumber(ARGV[5])))
local keep = math.max(kept(ARGV[7]), hold)
local asked = st.hand_over == ARGV[2] and 1 or 0

-- restore writes what the state must say while this lease lives, whatever of it was lost
local function restore()
  redis.pcall('HSET', STATE, 'token', ARGV[2], 'holder', me, 'acquired', ARGV[4], 'min_hold_until', ARGV[5], 'tick', ARGV[6], 'ttl', ARGV[3],
    'expires', str(now + hold), 'revoked', '', 'settle_since', '', 'settle_due', '', 'meta', ARGV[8], 'server', server)
end

-- confirm is what goes with every renewal: it answers a call that came before
local function confirm()
  local offered = ARGV[9] == '1' and ARGV[2] or ''
  if st.offered ~= offered then redis.pcall('HSET', STATE, 'offered', offered) end
  redis.pcall('PEXPIRE', STATE, keep)
  redis.pcall('DEL', CTL)
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
-- A lease with a smaller token that nobody renewed since this server started had ended before this holder was granted the
-- key: it came back with an older state, and is replaced. If its holder lived, its next renewal would find a newer token.
local function over()
  local why, id = kind(value)
  return why ~= 'foreign' and id ~= me and token and token < mine and st.server ~= '' and server ~= '' and st.server ~= server
end
if value and not over() then
  local why = 'other'
  if value == me then why = 'newer' end
  for _, mark in ipairs({'cooldown', 'revoked'}) do
    if value == mark .. ':' .. me then why = mark end
  end
  return {0, now, why, string.sub(value, 1, 256)}
end
-- The key is gone, or as good as gone: it has expired by this server's clock, which may have been set, or it was lost. As
-- long as nobody was granted it since and it was not released it is taken back, whatever that clock says, for the holder's
-- own clock is the one that counts: it sends no renewal after its stop-by. What that means for a renewal that
--  comes late: its holder's tree is dead, and the lease stands for a ttl, unless its holder, if it lives, releases it first;
--  comes after a release, or twice: 'released' as long as the state knows of it, else as above;
--  comes to a store that lost its state: nobody can tell from it who else was granted the key. A candidate settles first
--  there, so it was this holder, or one whose next renewal finds the key taken and stops.
if token and token > mine then return {0, now, 'newer', ''} end
if st.holder ~= me and (token == mine or string.find(st.released, ' ' .. me .. ' ', 1, true)) then return {0, now, 'released', ''} end
redis.call('SET', LEASE, me, 'PX', hold)
restore()
confirm()
settled()
return {2, now, asked}
