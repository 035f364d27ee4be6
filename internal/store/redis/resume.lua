-- resume: end the pause, and wake a standby
-- the answer is status as it was before
local before = status()
if paused() > 0 then
  redis.call('HSET', STATE, 'paused_since', '', 'paused_until', '', 'paused_by', '', 'paused_reason', '')
  wake()
end
return before
