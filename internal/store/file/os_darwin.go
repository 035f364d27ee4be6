package file

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootID does not use kern.boottime, which changes when the wall clock is set.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// upTime goes on while the machine sleeps, unlike CLOCK_UPTIME_RAW, and is never adjusted,
// unlike CLOCK_MONOTONIC.
func upTime() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts)
	return time.Duration(ts.Nano()), err
}

// networkFS returns the name of dir's file system if other hosts may share it, else "".
func networkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return "", err
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
