-- resume: end the pause, and wake a standby
-- the answer is status as it was before
local before = status()
if paused() > 0 then
  redis.call('HSET', STATE, 'pause_since', '', 'pause_until', '', 'pause_by', '', 'pause_reason', '')
  wake_standby()
end
return before
