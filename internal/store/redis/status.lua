-- status: what is known of the key; it writes nothing. It stands before the text of the verbs that operators use.
-- {1, now, why, value, left, holder, token, ttl, since, min hold until, tick, served, starts, asked, meta, {run, ...},
--  pause since, until, by, reason, period, candidates, tries}
-- why '' says that the key is free; left 0 where it never expires; what is not known is 0 or ''
local function status()
  local why, holder, left = '', host(st.holder) and st.holder or '', 0
  local known = holder ~= '' -- does the state tell of a grant that has not been released?
  if value then
    local id
    why, id = kind(value)
    left = math.max(0, redis.call('PTTL', LEASE))
    if why == 'held' then known, holder = id == st.holder, id end
    if why == 'revoked' then known, holder = true, id end
    if why == 'cooldown' then known, holder = true, '' end
  end
  local function num(v, told)
    local n = int(v)
    return told and n and n <= MAXINT and n or 0
  end
  local asked = why == 'held' and known and token and st.hand_over == str(token) and 1 or 0
  local told = redis.pcall('HMGET', STATE, 'meta', 'period', 'candidates', 'tries')
  local meta, period = known and told[1] or '', num(told[2], true)
  local since, till, by, reason = pause()
  local runs = redis.pcall('LRANGE', RUNS, 0, RUNS_KEPT - 1)
  if runs.err then runs = {} end
  for i, run in ipairs(runs) do runs[i] = string.sub(run, 1, 1024) end -- ours are shorter
  return {1, now, why, string.sub(value or '', 1, 256), left, holder, token or 0, num(st.ttl, known), num(st.acquired, known),
    num(st.min_hold_until, known), num(st.tick, known), num(st.served_tick, true), num(st.starts, true), asked, string.sub(meta, 1, 4096), runs, since, till, by, reason, period,
    string.sub(told[3] or '', 1, CANDIDATES_SIZE), num(told[4], true)}
end
