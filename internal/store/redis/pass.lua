-- pass: a candidate that may have taken a wake-up leaves; the next standby gets it
-- {1, now}
wake_standby()
return {1, now}
