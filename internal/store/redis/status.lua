-- status: what is known about the key; it writes nothing. It stands before the text of the operators' verbs.
-- {1, now, why, value, left, holder, token, ttl, since, min hold until, tick, served, starts, asked, meta, {run, ...},
--  pause since, until, by, reason, period, candidates, tries}
-- why '' means free; left 0 means that the key never expires; what is unknown is 0 or ''
local function status()
  local why, holder, left = '', host(st.holder) and st.holder or '', 0
  local known = holder ~= '' -- the state has a grant that was not released
  if value then
    local id
    why, id = kind(value)
    left = math.max(0, redis.call('PTTL', LEASE))
    if why == 'held' then known, holder = id == st.holder, id end
    if why == 'revoked' then known, holder = true, id end
    if why == 'cooldown' then known, holder = true, '' end
  end
  local function num(v, shown)
    local n = int(v)
    return shown and n and n <= MAXINT and n or 0
  end
  local asked = why == 'held' and known and token and st.hand_over == str(token) and 1 or 0
  local texts = redis.pcall('HMGET', STATE, 'meta', 'period_ms', 'candidates', 'tries')
  local meta, period = known and texts[1] or '', num(texts[2], true)
  local since, till, by, reason = pause()
  local runs = redis.pcall('LRANGE', RUNS, 0, RUNS_KEPT - 1)
  if runs.err then runs = {} end
  for i, run in ipairs(runs) do runs[i] = string.sub(run, 1, 1024) end -- ours are shorter
  return {1, now, why, string.sub(value or '', 1, 256), left, holder, token or 0, num(st.ttl_ms, known), num(st.acquired, known),
    num(st.min_hold_until, known), num(st.tick, known), num(st.served_tick, true), num(st.starts, true), asked, string.sub(meta, 1, 4096), runs, since, till, by, reason, period,
    string.sub(texts[3] or '', 1, CANDIDATES_SIZE), num(texts[4], true)}
end
