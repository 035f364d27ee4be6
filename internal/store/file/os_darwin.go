package file

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootID is not kern.boottime: that one moves when the wall clock is set.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// upTime runs on while the machine sleeps, unlike CLOCK_UPTIME_RAW, and nothing
// adjusts it, unlike CLOCK_MONOTONIC.
func upTime() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts)
	return time.Duration(ts.Nano()), err
}

// networkFS names the file system of dir if other hosts may share it.
func networkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return "", err
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
