//go:build !linux

package scripttest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
