-- acquire: one attempt to get the lease
-- ARGV 1 holder 2 ttl 3 min hold 4 tick (0: now, if there are ticks) 5 period (0: unknown) 6 tries (0: any number) 7 settle 8 keep 9 meta
--      of the lease that this candidate was told of last: 10 token (0: of none) 11 its holder's ttl 12 expires
--      13 how much of that is left by the candidate's own clock
--      14 round: ticks so far apart are not the same (0: no ticks) 15 reach: a recorded tick counts no further ahead
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
local me, ttl, minhold, tick = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local period, tries, settle = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local round, reach, from, to = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local keep, meta = kept(ARGV[8]), ARGV[9]
local seen, seenttl, seenexpires, seenleft = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
if now < 978307200000 then return bad('TIME', 'this is before 2001') end -- no ticks nor tokens by such a clock
if tick == 0 and round > 0 then tick = now end

if st.holder == me and token and (value == me or not value) then -- the reply was lost: the same grant once more
  local holduntil = math.min(int(st.min_hold_until) or 0, now + minhold)
  local hold = math.max(ttl, holduntil - now)
  redis.call('SET', LEASE, me, 'PX', hold)
  redis.pcall('HSET', STATE, 'expires', str(now + hold), 'settle_since', '', 'settle_due', '')
  return {1, now, token, int(st.tick) or tick, int(st.acquired) or now, holduntil}
end
-- no late or repeated message brings back a candidacy that has ended
if value ~= me and string.find(st.released, ' ' .. me .. ' ', 1, true) then return {4, now} end

if value ~= me and to > 0 and (now < from or now >= to) then return {6, now} end

-- near: tick is not of a later round than the one that is recorded. A record from the far future is garbage (or of a
-- clock long set back) and must not silence the job.
local function near(recorded) return recorded and tick < recorded + round and recorded <= now + reach end
-- come notes this candidate's host, if it has ticks: with a grant, and with another answer once an hour, as that writes
-- nothing else
local function come(granted)
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
  come()
  wake() -- whoever is done may have taken a wake-up that another needs
  return {3, now, at, why}
end
local ok = int(st.served_tick)
-- before held: a served tick needs no waiting
if round > 0 and value ~= me and near(ok) then return done(ok, 'served') end

-- settling begins to settle the key, or goes on, for need from the beginning on, and returns when that is over. The holder
-- is called once.
local function settling(need)
  local since, due = int(st.settle_since), int(st.settle_due)
  -- a settling that nobody finished within a minute, that cannot be, or that another server began does not count
  if not since or not due or st.settle_server ~= server or since > now or due - now > 86400000 or now - due > 60000 then
    since, due = now, now + need
    redis.call('HSET', STATE, 'settle_since', str(since), 'settle_due', str(due), 'settle_server', server)
    redis.call('PEXPIRE', STATE, keep)
    call()
  elseif since + need > due then
    due = since + need
    redis.call('HSET', STATE, 'settle_due', str(due))
  end
  return due
end

if value and value ~= me then
  local why, left, holderttl, since = kind(value), redis.call('PTTL', LEASE), ttl, 0
  if why ~= 'foreign' then holderttl = int(st.ttl) or ttl end
  if value == st.holder then since = math.max(0, now - (int(st.acquired) or now)) end
  local expires = int(st.expires) or 0
  if why == 'foreign' then
    if left < 0 then left = ttl end -- what others wrote stays theirs
  else
    -- Without an expiry, or where the clock has gone back, it would stand too long: no lease of ours lasts longer than this.
    -- Where the state was lost nobody knows the holder's ttl.
    local most = math.max(holderttl, rest(int(st.acquired) or now, int(st.min_hold_until) or now))
    if left < 0 or left > most and int(st.ttl) then
      left = most
      redis.call('PEXPIRE', LEASE, left)
      if token then
        expires = now + left
        redis.pcall('HSET', STATE, 'expires', str(expires))
      end
    end
  end
  -- It ends soon, and nobody has renewed it for long: the holder is called now, so that a standby need not settle then.
  if value == st.holder and token and left <= settle + 100 then settling(settle) end
  -- A standby takes up the holder's offer, which learns of it by its next renewal.
  if ARGV[18] == '1' and why == 'held' and token and value == st.holder and st.offered == str(token) and paused() == 0 then
    redis.pcall('HSET', STATE, 'hand_over', st.offered)
  end
  come()
  return {0, now, left, why, string.sub(value, 1, 256), token or 0, holderttl, since, expires}
end

if not value then
  if paused() > 0 then
    come()
    return {5, now, paused(), pause()}
  end
  -- Settling. Where a holder may be alive of whom this server cannot know, or whose lease has expired by its clock alone, it
  -- is called and gets the time to renew, which puts the lease back.
  local need, why, expires, holderttl = 0, '', int(st.expires) or 0, int(st.ttl) or ttl
  local function wait(ms, reason)
    if ms > need then need, why = ms, reason end
  end
  if seen > (token or 0) then
    wait(math.max(settle, seenttl), 'rollback') -- the store has forgotten grants
  elseif not token then
    -- A first grant of a key, or a store that lost everything. The marker, where there is one, tells them apart once it
    -- is older than any lease that could have been lost with everything else.
    local since = born()
    if not since or now - since <= math.max(2 * ttl, 90000) then wait(settle, 'fresh') end
  else
    if st.server ~= '' and server ~= '' and st.server ~= server then
      wait(settle, 'restarted') -- from a snapshot or on a replica, which may lack the last grants and renewals
    end
    if st.holder ~= '' then -- nobody has released it
      if expires - now > 20 then -- 20 ms: an ordinary expiry may come that much early
        wait(math.min(expires - now, math.max(holderttl, minhold)), 'vanished')
      else
        wait(settle, 'expired')
        if seen == token and seenexpires == expires then -- this candidate's own clock may know better
          wait(math.min(seenleft, holderttl), 'expired')
        end
      end
    end
  end
  if need > 0 then
    local due = settling(need)
    if now < due then return {2, now, due - now, why} end
  end
end

local anchor, starts = int(st.series_tick), int(st.starts) or 0
if round > 0 then
  if not near(anchor) then
    anchor, starts = tick, 0
  elseif not value and (tick <= anchor - round or tries > 0 and starts >= tries) then
    return done(anchor, 'given-up')
  end
end
local new = math.max((token or 0) + 1, seen + 1, now) -- at least the time: it grows even over the loss of the counter
if new > MAXINT then return bad(STATE, 'token is out of range') end
if round > 0 then redis.call('HSET', STATE, 'series_tick', str(anchor), 'starts', str(starts + 1), 'tries', str(tries)) end
if period > 0 then redis.call('HSET', STATE, 'period', ARGV[5]) end
come(true)
if token and st.holder ~= '' and st.holder ~= me and host(st.holder) then -- a run that never released
  file(token, record(token, int(st.tick) or 0, int(st.acquired) or 0, math.min(int(st.expires) or now, now), nil, st.holder), keep)
end
local hold = math.max(ttl, minhold)
redis.call('HSET', STATE, 'token', str(new), 'holder', me, 'acquired', str(now), 'min_hold_until', str(now + minhold), 'tick', str(tick),
  'ttl', str(ttl), 'expires', str(now + hold), 'hand_over', '', 'revoked', '', 'settle_since', '', 'settle_due', '',
  'meta', meta, 'server', server)
redis.call('PEXPIRE', STATE, math.max(keep, hold))
redis.call('SET', LEASE, me, 'PX', hold)
settled()
redis.pcall('DEL', WAKE)
redis.pcall('DEL', CTL)
return {1, now, new, tick, now, now + minhold}
