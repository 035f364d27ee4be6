//go:build !linux

package observe

// unstoppable does nothing here.
func unstoppable() (back func()) { return func() {} }
