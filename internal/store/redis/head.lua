-- The common head of every script: it stands before the text of each verb.
-- KEYS 1 lease (string) 2 state (hash) 3 wake (list) 4 call (list) 5 runs (list) 6 serving (string; none in a cluster)
-- Times are milliseconds of this server's clock, durations milliseconds. Every answer begins with {code, now, ...}.
-- Steps that a verb can do without go through pcall: if one of them is denied, the verb still gives its answer.
local LEASE, STATE, WAKE, CALL, RUNS, SERVING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local MAXINT = 9007199254740000 -- beyond it a Lua number skips integers
local WAKE_LIFE = 5000          -- a wake-up that nobody takes is forgotten
local RUNS_KEPT = 20
local CANDIDATES_SIZE = 6000    -- 64 of them need less

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- tostring() would round numbers of this size
local function str(n) return string.format('%.0f', n) end

-- anything but a plain number counts as missing
local function int(v)
  if type(v) == 'string' and #v < 17 and string.find(v, '^%d+$') then return tonumber(v) end
end

-- rest returns the rest of a minimum hold: never more than its length, if the clock has gone back
local function rest(acquired, hold_until)
  return math.max(0, math.min(hold_until - now, hold_until - acquired))
end

local function bad(key, why)
  return redis.error_reply('LEADERRUN ' .. key .. ': ' .. (type(why) == 'table' and why.err or why))
end

-- leave puts these elements, and no others, into a list on which clients block, now or soon
local function leave(list, ...)
  redis.pcall('DEL', list)
  redis.pcall('RPUSH', list, ...)
  redis.pcall('PEXPIRE', list, WAKE_LIFE)
end

-- wake_standby wakes one standby
local function wake_standby() leave(WAKE, '1') end

-- call_holder makes the holder renew. After a network cut the server may still have old connections of the holder, and gives
-- each of them an element before it serves the new one. The next renewal removes the rest.
local function call_holder() leave(CALL, '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1') end

-- host returns the first part of a holder id host/pid/32 hex, nothing for any other text, however long that is
local function host(id)
  local name, pid, random = string.match(string.sub(id, 1, 108), '^([%w._-]+)/(%d+)/([0-9a-f]+)$')
  if name and #name <= 63 and #pid <= 10 and #random == 32 then return name end
end

-- kind returns why a value takes the key: held, cooldown or revoked, with the holder's id, or foreign if leaderrun did not
-- write it
local function kind(value)
  local id, why = value, 'held'
  for _, mark in ipairs({'cooldown', 'revoked'}) do
    if string.sub(value, 1, #mark + 1) == mark .. ':' then id, why = string.sub(value, #mark + 2), mark end
  end
  return host(id) and why or 'foreign', id
end

local VANISHED = '"vanished":true,'

-- add_run records a run, newest token first. A token has one record, however often its release is repeated; only that a run
-- vanished, which has no exit, is replaced by its holder's report.
local function add_run(token, tick, from, to, exit, holder, keep)
  local entry = string.format('{"token":%s,"tick":%s,"start":%s,"end":%s,"exit":%s,%s"host":"%s","holder":"%s"}',
    str(token), str(tick), str(from), str(to), exit or '0', exit and '' or VANISHED, host(holder) or '', holder)
  local old = redis.pcall('LRANGE', RUNS, 0, RUNS_KEPT - 1)
  if old.err then -- it is no list, and is replaced
    if not string.find(old.err, 'WRONGTYPE') then return end
    redis.pcall('DEL', RUNS)
  end
  local push, placed = {}, false -- oldest first: LPUSH reverses the order
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
  -- before the old entries, which are removed afterwards: if the push is denied, they stay
  if type(redis.pcall('LPUSH', RUNS, unpack(push))) == 'number' then
    redis.pcall('LTRIM', RUNS, 0, math.min(#push, RUNS_KEPT) - 1)
    redis.pcall('PEXPIRE', RUNS, keep)
  end
end

-- life returns how long, in ms, the state is kept: not shorter than now, since a run without ticks must not make the ticks
-- of others end earlier
local function life(keep) return math.max(tonumber(keep), redis.call('PTTL', STATE)) end

-- info returns the first digits of one of this server's ids, '' without the right to read it
local function info(section, name)
  local text = redis.pcall('INFO', section)
  local id = type(text) == 'string' and string.match(text, name .. ':(%x+)') or ''
  return string.sub(id, 1, 20)
end

-- server identifies the server's process and the history of its data, which is a new one after the server was a replica:
-- another process, or another history, may lack acknowledged writes
local server = info('server', 'run_id')
if server ~= '' then server = server .. info('replication', 'master_replid') end

-- serving_since returns since when this process of the server has kept leases of this prefix, nil if that is unknown
local function serving_since()
  local text = SERVING and redis.pcall('GET', SERVING)
  if type(text) ~= 'string' then return nil end
  local since, by = string.match(text, '^(%d+) ?(%x*)$')
  return since and by == server and int(since) or nil
end

-- note_serving records that time, once. The record expires before any state: if the clock is set forward by months, a key
-- whose state has expired is not taken for a new one
local function note_serving()
  local ends = 34 * 86400000
  if SERVING and not serving_since() then redis.pcall('SET', SERVING, str(now) .. ' ' .. server, 'PX', ends) end
end

local value = redis.pcall('GET', LEASE)
if type(value) == 'table' then return bad(LEASE, value) end

-- token           of the newest grant            holder           of that grant, '' after the release
-- acquired        when it was granted            min_hold_until   its minimum hold ends
-- tick            of that run                    ttl_ms           of its holder
-- expires         when the lease expires, as far as is known
-- hand_over       token whose holder was asked to hand over
-- released        ' id ' of the last few holders that have released
-- revoked         id of the holder that was revoked and has not released since
-- offered         token whose holder would hand over to a standby
-- settle_since    a settling began               settle_due       it ends
-- settle_server   where it began                 pause_since      a pause began
-- pause_until     it ends                        pause_by, pause_reason: who paused the key and why, read by pause alone
-- period_ms, tries  of the newest grant with ticks, read by status alone
-- served_tick     the last tick that was served  series_tick      first tick of a series
-- starts          of that series                 server           that made the last grant or renewal
-- candidates      'host first last ...': the hosts that have come for ticks, the last one first; read where they are used
-- version         of this format; missing while that is the first one
local FIELDS = {'token', 'holder', 'acquired', 'min_hold_until', 'tick', 'ttl_ms', 'expires', 'hand_over', 'released',
  'settle_since', 'settle_due', 'settle_server', 'served_tick', 'series_tick', 'starts', 'server',
  'pause_since', 'pause_until', 'version', 'offered', 'revoked'}
local st = {}
local raw = redis.pcall('HMGET', STATE, unpack(FIELDS))
if raw.err then return bad(STATE, raw) end
for i, name in ipairs(FIELDS) do st[name] = raw[i] or '' end
if st.version ~= '' then return bad('VERSION', STATE .. ' was written by a newer leaderrun: format version ' .. st.version) end
local token = int(st.token)
if token and token > MAXINT then return bad(STATE, 'field token is out of range') end

-- vanish records the newest run as vanished, if it was not released; its holder's report may still come and replace that
local function vanish(keep)
  if token and host(st.holder) then
    add_run(token, int(st.tick) or 0, int(st.acquired) or 0, math.min(int(st.expires) or now, now), nil, st.holder, keep)
  end
end

-- paused returns the rest of the pause: never more than its length, if the clock has gone back, and 0 if its times are
-- impossible
local function paused()
  local since, till = int(st.pause_since), int(st.pause_until)
  if not since or not till or till - since > 7776000000 then return 0 end
  return math.max(0, math.min(till - now, till - since))
end

-- pause returns when the pause began and ends, who paused and why; 0 and '' without a pause
local function pause()
  if paused() == 0 then return 0, 0, '', '' end
  local texts = redis.pcall('HMGET', STATE, 'pause_by', 'pause_reason')
  return int(st.pause_since), int(st.pause_until), string.sub(texts[1] or '', 1, 1000), string.sub(texts[2] or '', 1, 1000)
end
