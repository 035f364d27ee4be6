-- The common beginning of read.lua and swap.lua: how a key is read.
-- KEYS 1 lease, the holder's id with an expiry: programs that use SET NX PX share it
--      2 state (hash): version, state, runs, expires: when the lease ends, as it was set
--      3 wake (list) 4 call (list) 5 serving: since when this server has kept leases; none in a cluster
-- Times are milliseconds of this server's clock.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function info(section) -- '' without the right to read it
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end

local function field(text, name) return string.match(text, name .. ':(%w+)') or '' end

local function get(key, read) -- an error names the key
  if type(read) == 'table' and read.err then return nil, redis.error_reply('LEADERRUN ' .. key .. ': ' .. read.err) end
  return read
end

-- The server's process and the history of its data: another one may lack acknowledged writes.
local replication = info('replication')
local server = string.sub(field(info('server'), 'run_id'), 1, 20) .. string.sub(field(replication, 'master_replid'), 1, 20)
local lease, bad = get(KEYS[1], redis.pcall('GET', KEYS[1]))
local state, worse = get(KEYS[2], redis.pcall('HMGET', KEYS[2], 'version', 'state', 'runs', 'expires'))
if bad or worse then return bad or worse end
local serving = KEYS[5] and redis.pcall('GET', KEYS[5])

-- row returns what stands there, in the form {saved, now, server, lease, left, version, state, runs, expires, serving}.
local function row(saved)
  return {saved, now, server, lease, redis.call('PTTL', KEYS[1]), state[1], state[2], state[3], state[4],
    type(serving) == 'string' and serving}
end
