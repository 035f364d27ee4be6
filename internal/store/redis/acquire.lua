-- acquire: one attempt to get the lease
-- ARGV 1 holder 2 ttl 3 min hold 4 tick (0: now) 5 period (0: no ticks) 6 tries (0: any number)
--      7 settle 8 token seen 9 ttl seen 10 keep 11 meta
-- {1, now, token, tick, acquired, min hold until}  granted; the same again to a holder that asks again
-- {0, now, left, why, value, token, ttl, since}    denied; why held|cooldown|revoked|foreign; held since so long, 0: unknown
-- {2, now, left, why}                              settling; why fresh|rollback|vanished
-- {3, now, tick, why}                              the tick needs no run; why served, or given-up: after so many tries, or
--                                                  for a newer one that has been started
-- {4, now}                                         this holder id has released already
local me, ttl, minhold, tick = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local period, tries, settle = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local seen, seenttl, keep, meta = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11]
if tick == 0 then tick = now end

if value == me and st.id == me and token then -- the reply was lost: the same grant once more
  local holduntil = math.min(int(st.nb) or 0, now + minhold)
  local hold = math.max(ttl, holduntil - now)
  redis.call('PEXPIRE', LEASE, hold)
  redis.pcall('HSET', STATE, 'exp', str(now + hold))
  return {1, now, token, int(st.tick) or tick, int(st.at) or now, holduntil}
end
-- no late or repeated message brings back a candidacy that has ended
if value ~= me and string.find(st.rel, ' ' .. me .. ' ', 1, true) then return {4, now} end

-- near: tick belongs to the same round as the one that is recorded. A record from the far future is garbage (or of a
-- clock long set back) and must not silence the job.
local function near(recorded) return recorded and tick < recorded + period / 2 and recorded <= now + period end
local function done(at, why)
  ping(WAKE) -- whoever is done may have taken a wake-up that another needs
  return {3, now, at, why}
end
local ok = int(st.ok)
-- before held: a served tick needs no waiting
if period > 0 and value ~= me and near(ok) then return done(ok, 'served') end

if value and value ~= me then
  local why, left, holderttl, since = kind(value), redis.call('PTTL', LEASE), ttl, 0
  if why ~= 'foreign' then holderttl = int(st.ttl) or ttl end
  if value == st.id then since = math.max(0, now - (int(st.at) or now)) end
  if left < 0 then -- without an expiry it would stand for ever: ours is healed, what others wrote is theirs
    left = holderttl
    if why ~= 'foreign' then redis.call('PEXPIRE', LEASE, left) end
  end
  return {0, now, left, why, string.sub(value, 1, 256), token or 0, holderttl, since}
end

if not value then
  -- Settling. Where something is missing that ought to be here, a holder that is still alive gets the time to put its
  -- lease back; it is pinged for that.
  local need, why, exp = 0, '', int(st.exp) or 0
  if seen > 0 and (token or 0) < seen then
    need, why = math.max(settle, seenttl), 'rollback' -- the store has forgotten grants
  elseif token and st.id ~= '' and exp - now > 20 then -- 20 ms: an ordinary expiry may come that much early
    need, why = math.min(exp - now, math.max(int(st.ttl) or ttl, minhold)), 'vanished'
  elseif not token then
    -- A first grant of a key, or a store that lost everything. The marker, where there is one, tells them apart once it
    -- is older than any lease that could have been lost with everything else.
    local born = SETTLED and int(redis.pcall('GET', SETTLED))
    if not born or now - born <= math.max(2 * ttl, 90000) then need, why = settle, 'fresh' end
  end
  if need > 0 then
    local since, due = int(st.since), int(st.due)
    -- a settling that nobody finished within a minute, or that cannot be, does not count
    if not since or not due or since > now or due - now > 86400000 or now - due > 60000 then
      since, due = now, now + need
      redis.call('HSET', STATE, 'since', str(since), 'due', str(due))
      redis.call('PEXPIRE', STATE, keep)
      ping(CTL)
    elseif since + need > due then
      due = since + need
      redis.call('HSET', STATE, 'due', str(due))
    end
    if now < due then return {2, now, due - now, why} end
  end
end

local anchor, starts = int(st.anchor), int(st.starts) or 0
if period > 0 then
  if not near(anchor) then
    anchor, starts = tick, 0
  elseif not value and (tick <= anchor - period / 2 or tries > 0 and starts >= tries) then
    return done(anchor, 'given-up')
  end
end
local new = math.max((token or 0) + 1, seen + 1, now) -- at least the time: it grows even over the loss of the counter
if new > MAXINT then return bad(STATE, 'token is out of range') end
if period > 0 then redis.call('HSET', STATE, 'anchor', str(anchor), 'starts', str(starts + 1)) end
if token and st.id ~= '' and st.id ~= me and host(st.id) then -- a run that never released
  file(token, record(token, int(st.tick) or 0, int(st.at) or 0, math.min(int(st.exp) or now, now), nil, st.id), keep)
end
local hold = math.max(ttl, minhold)
redis.call('HSET', STATE, 'tok', str(new), 'id', me, 'at', str(now), 'nb', str(now + minhold), 'tick', str(tick),
  'ttl', str(ttl), 'exp', str(now + hold), 'req', '', 'since', '', 'due', '', 'meta', meta)
redis.call('PEXPIRE', STATE, math.max(keep, hold))
redis.call('SET', LEASE, me, 'PX', hold)
settled(keep)
redis.pcall('DEL', WAKE)
redis.pcall('DEL', CTL)
return {1, now, new, tick, now, now + minhold}
