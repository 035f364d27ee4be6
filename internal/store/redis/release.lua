-- release: end the lease if it is still the caller's, record the run once, wake one standby
-- ARGV 1 holder 2 token 3 ran 0|1 4 success 0|1 5 exit 6 tick 7 acquired 8 min hold until 9 round (0: no ticks)
--      10 reach 11 keep
-- {1, now}             it was the caller's, or this release was repeated during the cooldown
-- {0, now, why, value} it was no longer the caller's; why gone|other
local me, mine, ran, success = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'
local tick, round, reach, keep = tonumber(ARGV[6]), tonumber(ARGV[9]), tonumber(ARGV[10]), life(ARGV[11])
local ours = (value == me and (token or 0) <= mine) or value == 'revoked:' .. me

if ours then
  local left = 0
  if value == me and ran then left = rest(tonumber(ARGV[7]), tonumber(ARGV[8])) end -- nothing ran: nothing to hold
  if left == 0 then
    redis.call('DEL', LEASE)
  else
    redis.call('PEXPIRE', LEASE, left) -- first: if the value cannot be written the key still ends in time
    redis.pcall('SET', LEASE, 'cooldown:' .. me, 'PX', left)
  end
end
-- the newest grant was the caller's, expired or not
local ended = st.holder == me and (token or 0) <= mine or st.revoked == me
-- No late request of this candidacy is granted, even if it has lost its lease.
local known = string.find(st.released, ' ' .. me .. ' ', 1, true)
if not known then redis.pcall('HSET', STATE, 'released', string.sub(' ' .. me .. ' ' .. st.released, 1, 1000)) end
if ours or ended then
  redis.pcall('HSET', STATE, 'holder', '', 'hand_over', '', 'revoked', '', 'settle_since', '', 'settle_due', '')
  if (token or 0) < mine then redis.pcall('HSET', STATE, 'token', ARGV[2]) end
  wake_standby()
end
if round > 0 then
  local series, starts, served = int(st.series_tick), int(st.starts) or 0, int(st.served_tick)
  if (ours or ended) and not ran and series and tick < series + round and starts > 0 then
    redis.pcall('HSET', STATE, 'starts', str(starts - 1)) -- once: the holder is removed above
  end
  -- the served tick only grows, unless a wrong clock gave it
  if success and (not served or tick > served or served > now + reach) then redis.pcall('HSET', STATE, 'served_tick', ARGV[6]) end
end
redis.pcall('PEXPIRE', STATE, keep)
if ran then add_run(mine, tick, tonumber(ARGV[7]), now, ARGV[5], me, keep) end

if ours or value == 'cooldown:' .. me then return {1, now} end
return {0, now, value and 'other' or 'gone', string.sub(value or '', 1, 256)}
