// Leaderrun runs a command only while it is the leader.
package main

import (
	"os"

	"github.com/leaderrun/leaderrun/cmd"
	_ "github.com/leaderrun/leaderrun/internal/early" // makes this process a guard, if it is to be one
)

func main() { os.Exit(cmd.Main(os.Args[1:])) }
