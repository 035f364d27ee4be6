package scripttest

import "syscall"

// dieWithParent lets no server outlive a test process that is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
