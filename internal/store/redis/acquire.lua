-- acquire: one attempt to get the lease
-- ARGV 1 holder 2 ttl 3 min hold 4 tick (0: now, if there are ticks) 5 period (0: unknown) 6 tries (0: any number) 7 settle 8 keep 9 meta
--      of the newest lease that this candidate has seen: 10 token (0: none) 11 its holder's ttl 12 expires
--      13 the time until then by the candidate's own clock
--      14 round: ticks so far apart are not the same (0: no ticks) 15 reach: a recorded tick further ahead is ignored
--      the tick was chosen for the times 16 from 17 until, that one excluded (0: for all) 18 stands by 0|1
-- {1, now, token, tick, acquired, min hold until}         granted; the same again to a holder that asks again
-- {0, now, left, why, value, token, ttl, since, expires}  denied; why held|cooldown|revoked|foreign; held since so long,
--                                                         0: unknown
-- {2, now, left, why}                                     settling; why fresh|rollback|vanished|expired|restarted
-- {3, now, tick, why}                                     the tick needs no run; why served, or given-up: after so many
--                                                         tries, or for a newer one that has been started
-- {5, now, left, since, until, by, reason}                paused; denied before it settles
-- {4, now}                                                this holder id has released already
-- {6, now}                                                the tick was chosen for another time than this server's
local me, ttl, min_hold, tick = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local period, tries, settle = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local round, reach, tick_from, tick_until = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local keep, meta = life(ARGV[8]), ARGV[9]
local seen_token, seen_ttl, seen_expires, seen_left = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
if now < 978307200000 then return bad('TIME', 'this is before 2001') end -- no ticks nor tokens by such a clock
if tick == 0 and round > 0 then tick = now end

if st.holder == me and token and (value == me or not value) then -- the reply was lost: the same grant once more
  local hold_until = math.min(int(st.min_hold_until) or 0, now + min_hold)
  local hold = math.max(ttl, hold_until - now)
  redis.call('SET', LEASE, me, 'PX', hold)
  redis.pcall('HSET', STATE, 'expires', str(now + hold), 'settle_since', '', 'settle_due', '')
  return {1, now, token, int(st.tick) or tick, int(st.acquired) or now, hold_until}
end
-- a late or repeated request does not bring back a candidacy that has ended
if value ~= me and string.find(st.released, ' ' .. me .. ' ', 1, true) then return {4, now} end

if value ~= me and tick_until > 0 and (now < tick_from or now >= tick_until) then return {6, now} end

-- covers reports whether a recorded tick is of this tick's round or a later one. One in the far future comes from a clock
-- that was wrong, and must not suppress the job.
local function covers(recorded) return recorded and tick < recorded + round and recorded <= now + reach end
-- note_candidate records this candidate's host, if it has ticks: with a grant, and with another answer once an hour, as that
-- writes nothing else
local function note_candidate(granted)
  if round == 0 or value and kind(value) == 'foreign' then return end
  local raw = redis.pcall('HMGET', STATE, 'candidates')
  local mine, first, all = host(me), now, {}
  local oldest = now - tonumber(ARGV[8])
  for note, name, from, last in string.gmatch(string.sub(raw[1] or '', 1, CANDIDATES_SIZE), '((%S+) (%d+) (%d+))') do
    local at = tonumber(last)
    if not granted and name == mine and at <= now and now - at < 3600000 then return end
    if at > now then -- the clock was wrong
      note, at = name .. ' ' .. str(math.min(tonumber(from), now)) .. ' ' .. str(now), now
    end
    if at > oldest then
      if name == mine then first = math.min(tonumber(from), now) elseif #all < 63 then all[#all + 1] = note end
    end
  end
  table.insert(all, 1, mine .. ' ' .. str(first) .. ' ' .. str(now))
  redis.pcall('HSET', STATE, 'candidates', table.concat(all, ' '))
  redis.pcall('PEXPIRE', STATE, keep)
end

local function done(at, why)
  note_candidate()
  wake_standby() -- this candidate may have taken a wake-up that another one needs
  return {3, now, at, why}
end
local served = int(st.served_tick)
-- before held: a served tick needs no waiting
if round > 0 and value ~= me and covers(served) then return done(served, 'served') end

-- settling starts a settling, or continues the current one, so that it lasts for need from its start, and returns when it
-- ends. It calls the holder once.
local function settling(need)
  local since, due = int(st.settle_since), int(st.settle_due)
  -- one that nobody finished within a minute, with impossible times, or that another server began does not count
  if not since or not due or st.settle_server ~= server or since > now or due - now > 86400000 or now - due > 60000 then
    since, due = now, now + need
    redis.call('HSET', STATE, 'settle_since', str(since), 'settle_due', str(due), 'settle_server', server)
    redis.call('PEXPIRE', STATE, keep)
    call_holder()
  elseif since + need > due then
    due = since + need
    redis.call('HSET', STATE, 'settle_due', str(due))
  end
  return due
end

if value and value ~= me then
  local why, left, holder_ttl, since = kind(value), redis.call('PTTL', LEASE), ttl, 0
  if why ~= 'foreign' then holder_ttl = int(st.ttl_ms) or ttl end
  if value == st.holder then since = math.max(0, now - (int(st.acquired) or now)) end
  local expires = int(st.expires) or 0
  if why == 'foreign' then
    if left < 0 then left = ttl end -- it is not changed
  else
    -- Without an expiry, or if the clock has gone back, the key would stay taken too long: no lease of ours lasts longer than
    -- this. Without the state the holder's ttl is unknown.
    local most = math.max(holder_ttl, rest(int(st.acquired) or now, int(st.min_hold_until) or now))
    if left < 0 or left > most and int(st.ttl_ms) then
      left = most
      redis.call('PEXPIRE', LEASE, left)
      if token then
        expires = now + left
        redis.pcall('HSET', STATE, 'expires', str(expires))
      end
    end
  end
  -- It ends soon and was not renewed for long: the holder is called now, so that the key has settled when the lease ends.
  if value == st.holder and token and left <= settle + 100 then settling(settle) end
  -- A standby accepts the holder's offer; the holder learns of it by its next renewal.
  if ARGV[18] == '1' and why == 'held' and token and value == st.holder and st.offered == str(token) and paused() == 0 then
    redis.pcall('HSET', STATE, 'hand_over', st.offered)
  end
  note_candidate()
  return {0, now, left, why, string.sub(value, 1, 256), token or 0, holder_ttl, since, expires}
end

if not value then
  if paused() > 0 then
    note_candidate()
    return {5, now, paused(), pause()}
  end
  -- Settling. If a holder may be alive that this server does not know, or whose lease has expired by this server's clock
  -- alone, it is called and gets time to renew, which restores the lease.
  local need, why, expires, holder_ttl = 0, '', int(st.expires) or 0, int(st.ttl_ms) or ttl
  local function wait(ms, reason)
    if ms > need then need, why = ms, reason end
  end
  if seen_token > (token or 0) then
    wait(math.max(settle, seen_ttl), 'rollback') -- the store has forgotten grants
  elseif not token then
    -- The first grant of a key, or a store that lost everything. It is the first one if this server has served for longer
    -- than any lease that could have been lost lasts.
    local since = serving_since()
    if not since or now - since <= math.max(2 * ttl, 90000) then wait(settle, 'fresh') end
  else
    if st.server ~= '' and server ~= '' and st.server ~= server then
      wait(settle, 'restarted') -- a snapshot or a replica may lack the last grants and renewals
    end
    if st.holder ~= '' then -- nobody has released it
      if expires - now > 20 then -- 20 ms: an ordinary expiry may come that much early
        wait(math.min(expires - now, math.max(holder_ttl, min_hold)), 'vanished')
      else
        wait(settle, 'expired')
        if seen_token == token and seen_expires == expires then -- its own clock may ask for longer
          wait(math.min(seen_left, holder_ttl), 'expired')
        end
      end
    end
  end
  if need > 0 then
    local due = settling(need)
    if now < due then return {2, now, due - now, why} end
  end
end

local series, starts = int(st.series_tick), int(st.starts) or 0
if round > 0 then
  if not covers(series) then
    series, starts = tick, 0
  elseif not value and (tick <= series - round or tries > 0 and starts >= tries) then
    return done(series, 'given-up')
  end
end
local new = math.max((token or 0) + 1, seen_token + 1, now) -- at least the time: it grows even if the counter was lost
if new > MAXINT then return bad(STATE, 'token is out of range') end
if round > 0 then redis.call('HSET', STATE, 'series_tick', str(series), 'starts', str(starts + 1), 'tries', str(tries)) end
if period > 0 then redis.call('HSET', STATE, 'period_ms', ARGV[5]) end
note_candidate(true)
vanish(keep)
local hold = math.max(ttl, min_hold)
redis.call('HSET', STATE, 'token', str(new), 'holder', me, 'acquired', str(now), 'min_hold_until', str(now + min_hold), 'tick', str(tick),
  'ttl_ms', str(ttl), 'expires', str(now + hold), 'hand_over', '', 'revoked', '', 'settle_since', '', 'settle_due', '',
  'meta', meta, 'server', server)
redis.call('PEXPIRE', STATE, math.max(keep, hold))
redis.call('SET', LEASE, me, 'PX', hold)
note_serving()
redis.pcall('DEL', WAKE)
redis.pcall('DEL', CALL)
return {1, now, new, tick, now, now + min_hold}
