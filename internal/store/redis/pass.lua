-- pass: a candidate leaves that may have taken a wake-up; the next standby gets it
-- {1, now}
wake()
return {1, now}
