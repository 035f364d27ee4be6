//go:build race

package simulate

// raced: the race detector has goroutines run in an order of its own.
const raced = true
