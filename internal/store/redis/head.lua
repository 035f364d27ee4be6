-- The common head of every script: it stands before the text of each verb.
-- KEYS 1 lease (string) 2 state (hash) 3 wake (list) 4 ctl (list) 5 runs (list) 6 settled (string; none in a cluster)
-- Times are milliseconds of this server's clock, durations milliseconds. Every answer begins with {code, now, ...}.
-- Steps that a verb can do without go through pcall: one that is denied must not undo what was written before it.
local LEASE, STATE, WAKE, CTL, RUNS, SETTLED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local MAXINT = 9007199254740000 -- beyond it a Lua number skips integers
local WAKE_LIFE = 5000          -- a wake-up that nobody takes is forgotten
local RUNS_KEPT = 20
local CANDIDATES_SIZE = 6000    -- no less than 64 of them need

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- tostring() would round numbers of this size
local function str(n) return string.format('%.0f', n) end

-- anything but a plain number counts as missing
local function int(v)
  if type(v) == 'string' and #v < 17 and string.find(v, '^%d+$') then return tonumber(v) end
end

-- rest is how much is left of a minimum hold: never more than all of it, if the clock has gone back
local function rest(acquired, holduntil)
  return math.max(0, math.min(holduntil - now, holduntil - acquired))
end

local function bad(key, why)
  return redis.error_reply('LEADERRUN ' .. key .. ': ' .. (type(why) == 'table' and why.err or why))
end

-- ping leaves these elements, and no others, for whoever blocks on the list, now or soon
local function ping(list, ...)
  redis.pcall('DEL', list)
  redis.pcall('RPUSH', list, ...)
  redis.pcall('PEXPIRE', list, WAKE_LIFE)
end

-- wake wakes one of those who stand by
local function wake() ping(WAKE, '1') end

-- call calls the holder. After a cut of the network the server may still take old connections of the holder for alive, and
-- gives them an element each before it serves the new one. The next renewal removes what nobody took.
local function call() ping(CTL, '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1') end

-- host returns the first part of a holder id host/pid/32 hex, nothing for any other text
local function host(id)
  local name, pid, random = string.match(id, '^([%w._-]+)/(%d+)/([0-9a-f]+)$')
  if name and #name <= 63 and #pid <= 10 and #random == 32 then return name end
end

-- kind says what stands at the lease key: held, cooldown or revoked, with the holder's id, or foreign when leaderrun did
-- not write it
local function kind(value)
  local id, why = value, 'held'
  for _, mark in ipairs({'cooldown', 'revoked'}) do
    if string.sub(value, 1, #mark + 1) == mark .. ':' then id, why = string.sub(value, #mark + 2), mark end
  end
  return host(id) and why or 'foreign', id
end

local VANISHED = '"vanished":true,'

-- record is one run as JSON, without an exit where nobody told how it ended
local function record(token, tick, from, to, exit, holder)
  return string.format('{"token":%s,"tick":%s,"start":%s,"end":%s,"exit":%s,%s"host":"%s","holder":"%s"}',
    str(token), str(tick), str(from), str(to), exit or '0', exit and '' or VANISHED, host(holder) or '', holder)
end

-- file puts a record among the last runs, newest token first. A token has one record, however often its release is
-- repeated; only "vanished" gives way to the truth.
local function file(token, entry, keep)
  local old = redis.pcall('LRANGE', RUNS, 0, RUNS_KEPT - 1)
  if old.err then -- no list; the name is ours, so it is ours to replace
    if not string.find(old.err, 'WRONGTYPE') then return end
    redis.pcall('DEL', RUNS)
  end
  local push, placed = {}, false -- oldest first: LPUSH turns the order round
  for _, e in ipairs(old) do
    local t = int(string.match(e, '^{"token":(%d+),'))
    if t == token and not string.find(e, VANISHED) then return end
    if t and t <= token and not placed then
      table.insert(push, 1, entry)
      placed = true
    end
    if t and t ~= token then table.insert(push, 1, e) end
  end
  if not placed then table.insert(push, 1, entry) end
  -- in front of the old list, which is cut off afterwards: a denied push leaves the old list whole
  if type(redis.pcall('LPUSH', RUNS, unpack(push))) == 'number' then
    redis.pcall('LTRIM', RUNS, 0, math.min(#push, RUNS_KEPT) - 1)
    redis.pcall('PEXPIRE', RUNS, keep)
  end
end

-- kept is for how long what is known of the key is kept: no less than it is already, since a run without ticks must not
-- shorten the life of those of others
local function kept(keep) return math.max(tonumber(keep), redis.call('PTTL', STATE)) end

-- info returns the first digits of an id that this server gives itself, '' without the right to ask
local function info(section, name)
  local text = redis.pcall('INFO', section)
  local id = type(text) == 'string' and string.match(text, name .. ':(%x+)') or ''
  return string.sub(id, 1, 20)
end

-- server names the run of this server, and the history of its data, which begins anew when it has been another one's
-- replica: another run, and another history, may lack what was acknowledged.
local server = info('server', 'run_id')
if server ~= '' then server = server .. info('replication', 'master_replid') end

-- born returns since when this run of the server has remembered leases of this prefix, nothing if that is not known
local function born()
  local text = SETTLED and redis.pcall('GET', SETTLED)
  if type(text) ~= 'string' then return nil end
  local since, by = string.match(text, '^(%d+) ?(%x*)$')
  return since and by == server and int(since) or nil
end

-- settled notes that once. The note ends before any state does: if the clock is set forward by months, what this server
-- has forgotten is not taken for what it never knew
local function settled()
  local life = 34 * 86400000
  if SETTLED and not born() then redis.pcall('SET', SETTLED, str(now) .. ' ' .. server, 'PX', life) end
end

local value = redis.pcall('GET', LEASE)
if type(value) == 'table' then return bad(LEASE, value) end

-- token           of the newest grant            holder           of that grant, '' after the release
-- acquired        when it was granted            min_hold_until   its minimum hold ends
-- tick            of that run                    ttl              of its holder
-- expires         when the lease runs out, as far as is known
-- hand_over       token that was asked to hand over
-- released        ' id ' of the last few holders that have released
-- revoked         id of the holder that was revoked and has not released since
-- offered         token whose holder would hand over to a standby
-- settle_since    a settling began               settle_due       it ends
-- settle_server   where it began                 paused_since     a pause began
-- period, tries   of the newest grant with ticks, read by status alone
-- paused_until    it ends                        paused_by, paused_reason: who wants it and why, read where it is told
-- served_tick     the last tick that was served  series_tick      first tick of a series
-- starts          of that series                 server           that made the last grant or renewal
-- candidates      'host first last ...': the hosts that have come for ticks, the last one first; read where they are told
-- version         of the form of all this; not written while that is the first one
local FIELDS = {'token', 'holder', 'acquired', 'min_hold_until', 'tick', 'ttl', 'expires', 'hand_over', 'released',
  'settle_since', 'settle_due', 'settle_server', 'served_tick', 'series_tick', 'starts', 'server',
  'paused_since', 'paused_until', 'version', 'offered', 'revoked'}
local st = {}
local raw = redis.pcall('HMGET', STATE, unpack(FIELDS))
if raw.err then return bad(STATE, raw) end
for i, name in ipairs(FIELDS) do st[name] = raw[i] or '' end
if st.version ~= '' then return bad('VERSION', STATE .. ' was written by a newer leaderrun: format version ' .. st.version) end
local token = int(st.token)
if token and token > MAXINT then return bad(STATE, 'field token is out of range') end

-- paused returns how much of the pause is left: never more than all of it, if the clock has gone back, and nothing of one
-- that cannot be
local function paused()
  local since, till = int(st.paused_since), int(st.paused_until)
  if not since or not till or till - since > 7776000000 then return 0 end
  return math.max(0, math.min(till - now, till - since))
end

-- pause returns when the pause began and ends, who wants it and why; 0 and '' without one
local function pause()
  if paused() == 0 then return 0, 0, '', '' end
  local texts = redis.pcall('HMGET', STATE, 'paused_by', 'paused_reason')
  return int(st.paused_since), int(st.paused_until), string.sub(texts[1] or '', 1, 1000), string.sub(texts[2] or '', 1, 1000)
end
